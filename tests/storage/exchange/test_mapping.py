"""The rules shared by the readers of other systems: times, ids, scopes, metadata, and what a record leaves over."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.exchange.items import Fault, Item
from storage.exchange.mapping import beside, identity, instant, level, plain, scope
from storage.exchange.record import Record, attempt, memory
from storage.instants import EARLIEST, LATEST
from storage.text import clean_id, clean_metadata, clean_scope

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC).timestamp()
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=70)


@pytest.mark.parametrize(
    "value",
    [
        "2026-05-04T09:30:00Z",
        "2026-05-04T09:30:00",
        "2026-05-04 09:30:00",
        "2026-05-04T09:30:00.000000",
        "2026-05-04T17:30:00+08:00",
        "2026-05-04T17:30:00+0800",
        "2026-05-04T02:30:00-07:00",
        " 2026-05-04T09:30:00Z ",
        "20260504T093000Z",
        AT,
        int(AT),
        AT * 1000,
        int(AT) * 1000,
        str(AT),
        str(int(AT)),
        str(int(AT) * 1000),
    ],
)
def test_a14_a_time_in_any_shape_is_one_instant_and_a_naive_one_is_utc(value):
    assert instant(value) == AT


@pytest.mark.parametrize("value", [None, "", "   "])
def test_no_time_is_none(value):
    assert instant(value) is None


@pytest.mark.parametrize("value", ["2026-05-04", "20260504"])
def test_a_day_alone_begins_at_midnight_in_utc(value):
    assert instant(value) == datetime(2026, 5, 4, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "2026-13-45T00:00:00",
        "2026-02-30",
        "10000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+08:00",
        "9999-12-31T23:59:59-08:00",
        "0000-00-00 00:00:00",
        math.nan,
        math.inf,
        -math.inf,
        1e30,
        10**400,
        -1e15,
        "9" * 400,
        True,
        ["2026-05-04"],
        {"at": 1},
        b"2026-05-04",
    ],
)
def test_an_absurd_time_is_refused_with_words_that_do_not_quote_it(value):
    with pytest.raises(ValueError, match="time") as caught:
        instant(value)
    assert "yesterday" not in str(caught.value)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60), st.booleans())
def test_a14_an_instant_is_the_same_in_every_zone(moment, minutes, space):
    aware = moment.replace(tzinfo=UTC)
    local = aware.astimezone(timezone(timedelta(minutes=minutes)))
    text = local.isoformat(sep=" " if space else "T")

    assert instant(text) == instant(moment.isoformat()) == aware.timestamp()


@given(st.one_of(st.text(max_size=30), st.floats(), st.integers(), st.booleans(), st.none(), st.binary(max_size=5)))
def test_a_time_is_read_refused_or_absent_and_nothing_else_happens(value):
    try:
        at = instant(value)
    except ValueError:
        return
    assert at is None or EARLIEST <= at <= LATEST


def test_an_id_that_fits_is_kept():
    assert identity("mem_吃-42", "x") == "mem_吃-42"


@pytest.mark.parametrize("own", ["a" * 129, "line\nbreak", "bell\a", "nul\0", " "])
def test_another_id_becomes_one_that_is_always_the_same(own):
    made = identity(own, "x")

    assert clean_id(made) == made == identity(own, "x")
    assert made != own
    assert made != identity(own, "y")
    assert made != identity(own + ".", "x")


@pytest.mark.parametrize(
    ("ids", "path"),
    [
        ({}, "default"),
        ({"user": "alice"}, "alice"),
        ({"user": "alice", "agent": "coder", "session": "s-7"}, "alice/coder/s-7"),
        ({"user": "alice", "session": "s-7"}, "alice/s-7"),
        ({"agent": "coder"}, "default/coder"),
        ({"app": "shop", "user": "alice"}, "shop/alice"),
        ({"app": "shop", "agent": "coder", "part": "profile"}, "shop/coder/profile"),
        ({"user": "爱丽丝 🐱"}, "爱丽丝 🐱"),
    ],
)
def test_a_scope_is_the_path_of_the_ids_that_are_there(ids, path):
    assert scope(**ids) == path


@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_whatever_the_ids_are_the_scope_is_one(user, agent, session, app, part):
    path = scope(user, agent, session, app, part)

    assert clean_scope(path) == path
    assert path.count("/") == 4


@given(TEXTS, TEXTS)
def test_b10_two_owners_never_share_a_level(one, other):
    same = unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)

    assert (level(one) == level(other)) == same


@pytest.mark.parametrize(
    "pair", [("a/b", "a-b"), ("*", "-"), ("alice", "alice "), ("x" * 60, "x" * 61), ("a\nb", "a\tb")]
)
def test_b10_owners_that_look_alike_stay_apart(pair):
    one, other = map(level, pair)

    assert one != other
    assert "/" not in one + other


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON))
def test_metadata_takes_more_in_without_overwriting_or_losing_any(own, more):
    joined = beside(own, more)

    assert (
        own.items() <= joined.items()
        if all(map(_hashable, own.values()))
        else all(joined[k] == v for k, v in own.items())
    )
    assert all(value in joined.values() for value in more.values())


def _hashable(value):
    return not isinstance(value, list)


def test_values_that_no_metadata_can_hold_become_texts():
    held = plain({"big": 2**70, "far": math.inf, "blob": b"\xff\0", "list": [math.nan, {1: True}]})

    assert held == {"big": str(2**70), "far": "inf", "blob": "/wA=", "list": ["nan", {"1": True}]}
    assert clean_metadata(held) == held


def test_what_nobody_took_is_metadata_and_what_was_taken_is_not():
    record = Record({"text": "hello", "mood": "sunny", "nothing": None, "stars": [1, 2]})

    assert record.content("text") == "hello"
    assert record.metadata({"own": None}) == {"own": None, "mood": "sunny", "stars": [1, 2]}


def test_a_field_never_overwrites_a_key_of_the_metadata():
    record = Record({"mood": "sunny", "kind": "note"})

    assert record.metadata({"mood": "grey", "kind": "note"}) == {"mood": "grey", "mood_2": "sunny", "kind": "note"}


def test_metadata_that_is_no_object_is_kept_all_the_same():
    assert Record({"mood": "sunny"}).metadata(["a"]) == {"metadata": ["a"], "mood": "sunny"}


@pytest.mark.parametrize(
    ("kind", "subtype", "read", "rest"),
    [
        ("Episodic", "talk", ("episodic", "talk"), {}),
        ("working", "", (None, "working"), {}),
        ("working", "talk", (None, "talk"), {"type": "working"}),
        ("talk", "talk", (None, "talk"), {}),
        (None, "", (None, ""), {}),
        ("x" * 200, "", (None, ""), {"type": "x" * 200}),
        (["odd"], "", (None, ""), {"type": ["odd"]}),
    ],
)
def test_a_type_outside_our_four_is_the_subtype(kind, subtype, read, rest):
    record = Record({"type": kind})

    assert record.kind("type", subtype) == read
    assert record.metadata() == rest


@pytest.mark.parametrize(
    ("value", "read", "rest"),
    [
        (0, 0.0, {}),
        (0.25, 0.25, {}),
        (1, 1.0, {}),
        (7, 1.0, {"n": 7}),
        (-0.5, 0.0, {"n": -0.5}),
        ("0.5", None, {"n": "0.5"}),
        (True, None, {"n": True}),
        (math.nan, None, {"n": "nan"}),
        (None, None, {}),
    ],
)
def test_a6_a_share_is_brought_into_its_bounds_and_zero_is_not_missing(value, read, rest):
    record = Record({"n": value})

    assert record.share("n") == read
    assert record.metadata() == rest


def test_what_cannot_be_a_tag_stays_in_the_metadata():
    record = Record({"tags": ["Work", "吃饭", "  ", 3, "x" * 200, {"a": 1}]})

    assert record.tags("tags") == ["Work", "吃饭"]
    assert record.metadata() == {"tags": [3, "x" * 200, {"a": 1}]}


def test_more_tags_than_a_memory_holds_stay_in_the_metadata():
    record = Record({"tags": [f"t{n}" for n in range(70)]})

    assert len(record.tags("tags")) == 64
    assert record.metadata() == {"tags": [f"t{n}" for n in range(64, 70)]}


def test_ids_that_were_altered_stay_in_the_metadata_as_they_were():
    record = Record({"user": "a/b", "agent": "coder", "id": "x\ny"})

    made, path = record.id("id", "s"), record.scope(user="user", agent="agent")

    assert path.endswith("/coder")
    assert made != "x\ny"
    assert record.metadata() == {"user": "a/b", "original_id": "x\ny"}


@pytest.mark.parametrize("value", [None, "", " \n", "\u200b", 5, b"\xff", ["text"]])
def test_a_record_without_a_text_is_refused(value):
    with pytest.raises(ValueError, match=r"^text "):
        Record({"text": value}).content("text")


def test_a_text_is_not_touched():
    text = "  Café — e\u0301 🐱‍👤 \r\n吃了 "

    assert Record({"text": text}).content("text") == text


def test_an_item_gets_its_place_and_a_refusal_is_a_fault_there():
    def read(value):
        return memory(content=Record(value).content("text"), emotion=0.0, pinned=False, tags=[], author="")

    assert attempt("line 3", read, {"text": "hello"}) == Item(
        "memory", "line 3", {"content": "hello", "emotion": 0.0, "pinned": False, "provenance": "import"}
    )
    assert attempt("line 4", read, {"text": None}) == Fault("line 4", "text is missing or empty")


def test_a_nesting_without_end_is_a_fault():
    value = []
    for _ in range(100_000):
        value = [value]

    assert isinstance(attempt("line 1", lambda v: memory(metadata=Record(v).metadata()), {"deep": value}), Fault)
