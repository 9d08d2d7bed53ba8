"""Facts by key: any JSON comes back as it was, each scope has its own, and a coarse scope reads what lies below it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import Conflict, Invalid, NotFound, TooLarge
from storage.facts import MAX_LISTED_BYTES, Facts
from storage.gate import Gate
from storage.model import SENSITIVITIES, cleared, covers
from storage.redact import Redactor
from storage.text import MAX_KEY_CHARS, MAX_METADATA_BYTES, clean_key, clean_value
from tests.storage.opened import REDACTOR, Opened

SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def facts(opened: Opened) -> Facts:
    return opened.stores.facts


def keep(opened: Opened, scope: str, key: str, value: Any, **options: Any) -> bool:
    """Set a fact through the gate."""
    admitted = opened.gate.admit({"fact": (key, value)})
    floor = admitted.fields.get("sensitivity_floor")
    key, value = admitted.fields["fact"]
    return opened.stores.facts.write(scope, key, value, opened.now, **{"floor": floor, **options})


def same(one: Any, other: Any) -> bool:
    """Equal as JSON text is: neither 1.0 nor true is 1, and -0.0 is not 0.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# -- values

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(key=texts, value=values)
def test_any_json_comes_back_exactly_as_it_left_the_gate(shared: Opened, key: str, value: Any) -> None:
    """Null, long numbers, the last digit of a float and empty things: an engine's payload would change them."""
    try:
        cleaned = clean_value(value)
        name = clean_key(key)
    except Invalid:
        return  # two keys that are the same in NFC, or a key that shows nothing
    expected, hits = REDACTOR.redact_json({name: cleaned})

    keep(shared, "any", key, value)

    found = shared.stores.facts.find("any", next(iter(expected)))
    assert found is not None
    assert same(found.value, next(iter(expected.values())))
    assert hits or same(found.value, cleaned)


@pytest.mark.parametrize(
    "value", [None, [None, {"a": None}], 10**60, -(2**63) - 1, 0.1 + 0.2, 5e-324, -0.0, 1.0, True, "", [], {}, " a\n"]
)
def test_what_an_engine_would_change_survives_a_restart(opened: Opened, value: Any) -> None:
    keep(opened, "s", "k", value)
    opened.reopen()

    found = opened.stores.facts.find("s", "k")
    assert found is not None
    assert same(found.value, value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "value is not a finite number"), ({"a": [1, float("inf")]}, "value.a[1] is not a finite number"),
        (nested(17), "nested deeper than 16"), ("a\0", "value holds a NUL at character 1"), ("\ud800", "lone surrogate"),
        ({"a": {1: 2}}, "value.a has a key that is no text"), ({"é": 1, "e\u0301": 2}, "the same in Unicode NFC"),
        ([10**5000], "too many digits"), ({1}, "of a type that JSON has not (set)"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_by_its_place(value: Any, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        clean_value(value)

    assert words in refused.value.detail
    assert refused.value.extra["field"] == "value"
    assert "value" in refused.value.hint or "remove" in refused.value.hint


def test_a_value_may_nest_sixteen_deep_and_hold_256_kib() -> None:
    assert clean_value(nested(16)) == nested(16)
    assert clean_value("x" * (MAX_METADATA_BYTES - 2))
    with pytest.raises(TooLarge) as refused:
        clean_value("x" * (MAX_METADATA_BYTES - 1))
    assert (refused.value.extra["field"], refused.value.extra["limit_bytes"]) == ("value", MAX_METADATA_BYTES)


@pytest.mark.parametrize("key", ["", "  ", "\u200b", "a\nb", "a\x7f", "k" * (MAX_KEY_CHARS + 1), "a\0"])
def test_a_key_that_nobody_could_type_again_is_refused(key: str) -> None:
    with pytest.raises(Invalid) as refused:
        clean_key(key)

    assert refused.value.extra["field"] == "key"
    assert clean_key("k" * MAX_KEY_CHARS)


def test_keys_are_the_same_in_nfc(opened: Opened, facts: Facts) -> None:
    keep(opened, "s", "cafe\u0301", 1)

    assert not keep(opened, "s", "café", 2)
    assert facts.listed("s") == ({"café": 2}, {})


# -- what is secret


def test_c9_a_secret_is_masked_in_the_value_and_raises_the_fact(opened: Opened, facts: Facts) -> None:
    keep(opened, "s", "deploy", {"notes": [f"use {SECRET}"], SECRET: 1})
    keep(opened, "s", "plain", "x")

    stored = repr([record.payload for batch in opened.engine.scroll("records") for record in batch])
    assert SECRET not in stored
    assert SECRET not in repr(facts.listed("s"))
    assert facts.listed("s", clearance="personal").facts.keys() == {"plain"}
    assert "[REDACTED:aws_access_key]" in facts.listed("s").facts["deploy"]


def test_c9_two_keys_that_would_be_one_once_masked_are_refused(opened: Opened, facts: Facts) -> None:
    for key in ("password=hunter2xyz", "password=letmein99", f"about {SECRET}"):
        with pytest.raises(Invalid) as refused:
            keep(opened, "s", key, 1)
        assert refused.value.extra["field"] == "key"

    assert facts.listed("s") == ({}, {})


@pytest.mark.parametrize("key", ["password", "db_password", "wifi password"])
def test_c9_the_key_tells_that_its_value_is_a_secret(opened: Opened, key: str) -> None:
    keep(opened, "s", key, "hunter2xyz")

    found = opened.stores.facts.find("s", key)
    assert found is not None
    assert found.value == "[REDACTED:password]"


@given(key=st.text(min_size=1, max_size=30), value=values)
def test_a_masked_key_is_masked_no_further(key: str, value: Any) -> None:
    """What was kept under such a key is still found by the words that it was given."""
    redactor = Redactor()
    masked = redactor.redact(key).text

    assert redactor.redact_json({masked: value})[0].keys() == {masked}


def test_an_owners_pattern_raises_a_fact_by_key_or_value(opened: Opened) -> None:
    gate = Gate(REDACTOR, None, None, levels={"(?i)diagnosis": "secret"}, default="personal")  # type: ignore[arg-type]

    assert gate.admit({"fact": ("my diagnosis", "none")}).fields["sensitivity_floor"] == "secret"
    assert gate.admit({"fact": ("note", [{"a": "Diagnosis"}])}).fields["sensitivity_floor"] == "secret"
    assert "sensitivity_floor" not in gate.admit({"fact": ("note", "none")}).fields


# -- scopes


def test_b10_each_scope_has_its_own_value(opened: Opened, facts: Facts) -> None:
    assert keep(opened, "alice", "editor", "vim")
    assert keep(opened, "bob", "editor", "emacs")
    assert not keep(opened, "bob", "editor", "nano")

    assert facts.find("alice", "editor") == ("alice", "vim")
    assert facts.find("bob", "editor") == ("bob", "nano")
    facts.delete("bob", "editor")
    assert facts.find("bob", "editor") is None
    assert facts.find("alice", "editor") == ("alice", "vim")


def test_d4_4_a_coarse_scope_finds_the_only_finer_one_and_names_several(opened: Opened, facts: Facts) -> None:
    for scope in ("a/b", "a/c/d", "ab"):
        keep(opened, scope, "theme", f"of {scope}")
    keep(opened, "a/b", "font", "mono")

    assert facts.find("a/b", "theme") == ("a/b", "of a/b")
    assert facts.find("a/c", "theme") == ("a/c/d", "of a/c/d")
    assert facts.find("a", "font") == ("a/b", "mono")
    assert facts.find("a/b/x", "font") is None
    with pytest.raises(Conflict) as several:
        facts.find("a", "theme")
    assert several.value.extra["scopes"] == ["a/b", "a/c/d"]
    with pytest.raises(Conflict) as several:
        facts.find("*", "theme")
    assert several.value.extra["scopes"] == ["a/b", "a/c/d", "ab"]
    keep(opened, "a", "theme", "its own")
    assert facts.find("a", "theme") == ("a", "its own")


def test_d4_4_at_most_ten_scopes_are_named(opened: Opened, facts: Facts) -> None:
    for number in range(12):
        keep(opened, f"a/{number:02}", "k", number)

    with pytest.raises(Conflict, match="12 scopes below 'a'") as several:
        facts.find("a", "k")
    assert several.value.extra["scopes"] == [f"a/{number:02}" for number in range(10)]


def test_writing_and_deleting_take_the_exact_scope(opened: Opened, facts: Facts) -> None:
    keep(opened, "a/b", "k", 1)

    with pytest.raises(NotFound, match="no fact 'k' in scope 'a'"):
        facts.delete("a", "k")
    assert keep(opened, "a", "k", 2)
    assert facts.find("a/b", "k") == ("a/b", 1)


scopes = st.sampled_from(["a", "a/b", "a/b/c", "a/d", "ab", "e"])
levels = st.sampled_from(SENSITIVITIES)
writes = st.lists(st.tuples(scopes, st.sampled_from("xyz"), levels), max_size=12)


@settings(deadline=None, max_examples=60)
@given(writes=writes, asked=scopes | st.just("*"), clearance=levels)
def test_a_list_and_a_look_up_say_the_same_of_every_key_and_nothing_above_the_clearance(
    shared: Opened, writes: list[tuple[str, str, str]], asked: str, clearance: str
) -> None:
    """Against a plain model: the scope's own, else the only one below it, else all of them under `below`."""
    shared.empty()
    facts = shared.stores.facts
    model: dict[tuple[str, str], tuple[int, str]] = {}
    for number, (scope, key, level) in enumerate(writes):
        keep(shared, scope, key, number, floor=level)
        former = model.get((scope, key), (0, "personal"))[1]
        model[scope, key] = number, max(former, level, key=SENSITIVITIES.index)
    seen = {place: number for place, (number, level) in model.items() if cleared(level, clearance)}

    listed = facts.listed(asked, clearance=clearance)

    for key in "xyz":
        holders = {scope: number for (scope, name), number in seen.items() if name == key and covers(asked, scope)}
        below = {scope: held[key] for scope, held in listed.below.items() if key in held}
        if asked in holders or len(holders) == 1:
            expected = (asked, holders[asked]) if asked in holders else next(iter(holders.items()))
            assert facts.find(asked, key, clearance=clearance) == expected
            assert (listed.facts[key], below) == (expected[1], {})
            continue
        assert key not in listed.facts
        assert below == holders
        if holders:
            with pytest.raises(Conflict) as several:
                facts.find(asked, key, clearance=clearance)
            assert several.value.extra["scopes"] == sorted(holders)
        else:
            assert facts.find(asked, key, clearance=clearance) is None


# -- clearance


def test_a_fact_above_the_clearance_is_missing_in_the_words_for_one_that_never_was(
    opened: Opened, facts: Facts
) -> None:
    keep(opened, "s", "hidden", 1, floor="secret")
    low = {"clearance": "personal"}

    asks = {
        "write": lambda key: facts.write("s", key, 2, opened.now, **low),
        "delete": lambda key: facts.delete("s", key, **low),
    }
    words = {"absent": facts.missing("s", "absent", **low), "hidden": facts.missing("s", "hidden", **low)}
    for name, ask in asks.items():
        with pytest.raises(NotFound) as hidden:
            ask("hidden")
        assert hidden.value.detail.replace("hidden", "absent") == words["absent"].detail, name
        assert (hidden.value.hint, hidden.value.extra) == (words["absent"].hint, words["absent"].extra), name
        assert hidden.value.withheld == "secret"
    with pytest.raises(NotFound):
        facts.delete("s", "absent", **low)
    assert (words["absent"].withheld, words["hidden"].withheld) == (None, "secret")
    assert facts.find("s", "hidden", **low) is None
    assert facts.listed("s", **low) == ({}, {})
    assert facts.find("s", "hidden") == ("s", 1)


def test_a_fact_is_never_less_sensitive_for_a_new_value_until_it_is_deleted(opened: Opened, facts: Facts) -> None:
    keep(opened, "s", "k", f"use {SECRET}")
    keep(opened, "s", "k", "nothing to hide")
    assert facts.find("s", "k", clearance="personal") is None

    facts.delete("s", "k")
    keep(opened, "s", "k", "nothing to hide")
    assert facts.find("s", "k", clearance="personal") == ("s", "nothing to hide")
    assert facts.find("s", "k", clearance="public") is None


# -- the record


def test_a_record_keeps_when_it_was_made_and_when_it_was_changed(opened: Opened) -> None:
    def stored() -> dict[str, Any]:
        return next(record.payload for batch in opened.engine.scroll("records") for record in batch)

    began = opened.now
    keep(opened, "s", "k", 1)
    opened.clock.advance(60)
    keep(opened, "s", "k", 2)

    assert (stored()["created_at"], stored()["updated_at"]) == (began, began + 60)
    assert opened.engine.count("records") == 1


def test_a_deleted_fact_stays_deleted_after_a_restart(opened: Opened, facts: Facts) -> None:
    keep(opened, "s", "k", 1)
    keep(opened, "s", "other", 2)
    facts.delete("s", "k")
    opened.reopen()

    assert opened.stores.facts.listed("s") == ({"other": 2}, {})
    assert not list(opened.stores.facts.listed("s").below)


def test_a_list_that_would_fill_the_memory_is_refused(opened: Opened, facts: Facts) -> None:
    large = "x" * (MAX_METADATA_BYTES - 2)
    for number in range(MAX_LISTED_BYTES // MAX_METADATA_BYTES):
        facts.write(f"a/{number % 2}", f"k{number}", large, opened.now)

    assert len(facts.listed("a").facts) == 64
    facts.write("a/0", "one more", 1, opened.now)
    with pytest.raises(TooLarge, match="scope 'a'") as refused:
        facts.listed("a")
    assert "fact_get" in refused.value.hint
    assert len(facts.listed("a/0").facts) == 33
