"""`import`: what left one daemon arrives in another as it was, and what is there stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.exchange.forms import of_memory
from storage.instants import EARLIEST, LATEST
from storage.model import EDGE_KINDS, HEATS, PROVENANCES, SENSITIVITIES, SOURCES, TIERS, TYPES, Memory
from storage.records import owner_of
from tests.daemon.methods.exchanging import FORMATS, SENTENCES, everything, exports, lines, saved, undated
from tests.harness import BY_HAND, Daemon, started

SECRET = "sk-ant-" + "a1b2c3d4" * 5


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return exports(tmp_path_factory.mktemp("exports"))


@pytest.fixture
def target(daemons) -> Daemon:
    return daemons(options=BY_HAND).start()


# -- there and back


@pytest.mark.parametrize("format_", FORMATS)
def test_twelve_scripts_and_all_that_hangs_on_them_arrive_byte_for_byte(source, target, tmp_path, format_) -> None:
    result = target.call("import", path=str(source / format_))

    assert result["failed"] == result["conflicts"] == []
    assert (result["format"], result["skipped"], result["kept"]) == (format_, 0, {})
    target.call("export", path=str(tmp_path / "a"), format=format_)
    assert undated(tmp_path / "a") == undated(source / format_)
    target.restart()  # what the engine made of it is what is read now
    target.call("export", path=str(tmp_path / "b"), format=format_)
    assert undated(tmp_path / "b") == undated(source / format_)


def test_what_arrived_is_found_read_and_goes_on_as_it_did(source, target) -> None:
    target.call("import", path=str(source / "jsonl"))
    header, *_ = lines(source / "jsonl")

    for name, text in SENTENCES.items():
        (hit,) = target.call("recall", query=text, scope=f"world/{name}", k=1)["hits"]
        assert hit["content"] == normalize("NFC", text)
        assert hit["author"] == f"von {name} ß"
    (nuts,) = target.call("list", scope="home", subtype=[], tags=["health"])["memories"]
    assert [one["version"] for one in target.call("history", id=nuts["id"])["versions"]] == [2, 1]
    assert target.call("comments", id=nuts["id"])["comments"][0]["content"] == "since when?"
    assert target.call("fact_get", key="wifi/name", scope="home")["value"]["big"] == 10**30
    assert target.call("read_session_state", scope="home")["text"].endswith("I am there")
    assert target.call("end_session", session="chat", scope="home/chat")["turns"] == 0
    assert target.call("end_session", session="open")["turns"] == 1
    assert target.call("graph_stats")["edges"] <= header["counts"]["edge"]
    for old in target.call("list", state="forgotten", scope="home")["memories"]:
        assert target.call("restore", id=old["id"])["state"] == "live"


def test_counts_tell_what_was_stored_of_each_kind_and_a_second_import_keeps_it_all(source, target) -> None:
    header, *_ = lines(source / "jsonl")
    first = target.call("import", path=str(source / "jsonl"))
    before = everything(target)
    second = target.call("import", path=str(source / "json"))

    assert Counter(first["counts"]) == Counter(header["counts"])
    assert first["imported"] == header["counts"]["memory"]
    assert (second["imported"], second["counts"]) == (0, {})
    assert second["skipped"] == header["counts"]["memory"]
    assert Counter(second["kept"]) == Counter(header["counts"])
    assert everything(target) == before


def test_a_dry_run_tells_the_same_and_changes_nothing(source, target) -> None:
    target.remember("mine", id="mine")
    before = everything(target)
    told = target.call("import", path=str(source / "jsonl"), dry_run=True)
    assert everything(target) == before
    made = target.call("import", path=str(source / "jsonl"))

    alike = ("imported", "skipped", "conflicts", "failed", "counts", "kept", "unknown", "redactions", "format")
    assert {name: told[name] for name in alike} == {name: made[name] for name in alike}
    assert (told["dry_run"], made["dry_run"]) == (True, False)
    assert [run["dry_run"] for run in target.call("runs", job="import")["runs"]] == [False, True]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
words = st.text(st.sampled_from("abcäß漢"), min_size=1, max_size=6)
shares = st.floats(0.0, 1.0)
instants = st.floats(EARLIEST, LATEST).map(lambda at: round(at, 6))
numbers = st.integers(0, 10**6)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
metadata = st.dictionaries(
    words,
    st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner), max_leaves=5),
    max_size=3,
)


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Any memory that a store could hold."""
    gone = draw(st.booleans())
    return Memory(
        id=draw(st.uuids()).hex, content=draw(words) + draw(texts), context=draw(texts), author=draw(words | st.just("")),
        scope="/".join(draw(st.lists(words, min_size=1, max_size=3))), session=draw(words | st.just("")),
        type=draw(st.sampled_from(TYPES)), subtype=draw(words | st.just("")),
        tags=tuple(dict.fromkeys(draw(st.lists(words, max_size=3)))), entities=tuple(draw(st.lists(words, max_size=2))),
        metadata=draw(metadata), tier=draw(st.sampled_from(TIERS)), heat=draw(st.sampled_from(HEATS)),
        pinned=draw(st.booleans()), emotion=draw(shares), importance=draw(shares), confidence=draw(shares),
        source=draw(st.sampled_from(SOURCES)), provenance=draw(st.sampled_from(PROVENANCES)),
        sensitivity=draw(st.sampled_from(SENSITIVITIES)), redactions=draw(st.dictionaries(st.just("own"), numbers)),
        version=draw(st.integers(1, 99)), change_summary=draw(words | st.just("")), created_at=draw(instants),
        updated_at=draw(instants), event_at=draw(st.none() | instants), accessed_at=draw(st.none() | instants),
        access_count=draw(numbers), access_days=draw(numbers), cooled_at_count=draw(numbers),
        expires_at=draw(st.none() | instants), forgotten_at=draw(instants) if gone else None,
        forgotten_reason=draw(words) if gone else "", content_hash="x", invalid_at=draw(st.none() | instants),
    )  # fmt: skip


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Iterator[tuple[Daemon, Daemon]]:
    with started(options=BY_HAND) as one, started(options=BY_HAND) as other:
        yield one, other


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some=st.lists(memories(), min_size=1, max_size=3, unique_by=lambda one: one.id), format_=st.sampled_from(FORMATS)
)
def test_any_memory_arrives_as_it_left(two, tmp_path_factory, some, format_) -> None:
    """The first daemon makes of the file what it would keep; from there on nothing changes any more."""
    folder = tmp_path_factory.mktemp("any")
    given_ = saved(folder / "given", *(of_memory(replace(one, content_hash=""), None) for one in some))
    one, other = two
    for daemon in two:
        daemon.in_lane(
            lambda daemon=daemon: daemon.stores.changer.erase([row.id for row in daemon.stores.catalogue.every()])
        )
    first = one.call("import", path=given_)
    assert first["imported"] + first["failed_total"] == len(some)
    one.call("export", path=str(folder / "a"), format=format_)
    second = other.call("import", path=str(folder / "a"))
    other.call("export", path=str(folder / "b"), format=format_)

    assert second["failed"] == []
    assert (second["imported"], second["skipped"]) == (first["imported"], 0)
    assert undated(folder / "b") == undated(folder / "a")


# -- taking it back


def test_an_import_is_undone_and_may_be_made_again(source, target, tmp_path) -> None:
    target.remember("mine", id="mine")
    before = everything(target)
    run = target.call("import", path=str(source / "jsonl"))["run_id"]
    undone = target.call("undo", run_id=run)
    after = everything(target)

    assert after["records"] == before["records"]
    assert after["edges"] == before["edges"]
    assert [row.id for row in after["rows"].values() if row.state == "live"] == ["mine"]
    gone = {row.id for row in after["rows"].values() if row.forgotten_reason == "undone"}
    assert gone <= set(undone["restored"])
    again = target.call("import", path=str(source / "jsonl"))
    target.call("forget", id="mine", hard=True)
    target.call("export", path=str(tmp_path / "a"))
    assert again["imported"] == len(gone)
    assert again["failed"] == again["conflicts"] == []
    assert undated(tmp_path / "a") == undated(source / "jsonl")


def test_an_answer_is_repeated_for_the_same_request(target, tmp_path) -> None:
    path = saved(tmp_path / "a", {"content": "x"})
    first = target.call("import", path=path, request_id="once")

    assert target.call("import", path=path, request_id="once") == first
    assert len(target.call("runs")["runs"]) == 1


def test_what_was_imported_is_counted_and_told_as_an_event(target, tmp_path) -> None:
    path = saved(tmp_path / "a", {"content": f"key {SECRET}"}, {"content": "y", "forgotten_at": "2026-01-01"})
    target.call("import", path=path)
    assert target.app is not None
    text = target.run(target.app.service.metrics(""))[0].decode()

    assert 'dreamd_job_changes_total{change="memory",job_name="import"} 2.0' in text
    assert 'dreamd_redactions_total{kind="anthropic_key"} 1.0' in text
    assert "dreamd_memories_bin 1.0" in text


def test_kinds_of_edges_and_owners_of_records_are_ours_alone(target, tmp_path) -> None:
    """A file cannot name the owner of a record, nor make an edge of a kind that we do not have."""
    path = saved(
        tmp_path / "a", {"id": "a", "content": "a"}, {"id": "b", "content": "b"},
        *({"kind": "edge", "a": "a", "b": "b", "weight": 1, "edge_kind": kind} for kind in (*EDGE_KINDS, "magic")),
        {"kind": "fact", "key": "k", "value": 1, "owner": "x", "scope": "home"},
    )  # fmt: skip
    result = target.call("import", path=path)

    assert [one["place"] for one in result["failed"]] == [f"line {3 + len(EDGE_KINDS)}"]
    assert (result["counts"]["edge"], result["kept"]["edge"]) == (3, 3)
    assert result["unknown"] == {"fact.owner": 1}
    assert len(target.in_lane(target.stores.records.of, owner_of("facts", "home"))) == 1
