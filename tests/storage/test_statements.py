"""Facts as subject, predicate and object, and procedures: memories with a form, whose parts are masked as their text is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import statements
from storage.errors import Conflict, DreamdError, Invalid, NotFound, Refused
from storage.gate import Admitted
from storage.memories import Vectors
from storage.redact import MASK
from storage.remember import NeedsVectors, Write, Written
from tests.storage.opened import REDACTOR, Opened

SECRET = "AKIAIOSFODNN7EXAMPLE"

Keep = Callable[..., Written]


def store(opened: Opened, admitted: Admitted, keep: Keep, clearance: str) -> Written:
    """As the daemon does it: guess what to embed, and embed what the write asks for."""
    write = Write(admitted.fields, admitted.redactions, clearance)
    text = opened.stores.writer.text_to_embed(write)
    for _ in range(3):
        vectors: Vectors | None = None if text is None else opened.gate.vectors([text])[0]
        try:
            return keep(opened.stores, write, vectors, opened.now, opened.clock.new_id())
        except NeedsVectors as wanted:
            text = wanted.text
    raise AssertionError("it kept asking for vectors")


def say(
    opened: Opened, subject: str, predicate: str, object_: str, *, functional: bool = True, clearance: str = "secret",
    **options: Any,
) -> Written:  # fmt: skip
    """Remember a fact."""
    admitted = statements.fact(opened.gate, options, subject, predicate, object_, functional=functional)
    return store(opened, admitted, statements.remember_fact, clearance)


def teach(
    opened: Opened, name: str, trigger: str, *steps: str, clearance: str = "secret", **options: Any
) -> Written:  # fmt: skip
    """Remember a procedure."""
    admitted = statements.procedure(opened.gate, options, name, trigger, steps)
    return store(opened, admitted, statements.remember_procedure, clearance)


def refused(ask: Callable[[], Any]) -> DreamdError:
    with pytest.raises(DreamdError) as caught:
        ask()
    return caught.value


# -- facts


def test_a_fact_is_a_semantic_memory_in_plain_words_found_by_its_parts(opened: Opened) -> None:
    made = say(opened, " Ada", "lives in ", "Rome", metadata={"since": 2019}, tags=["Home"], author="Grace")
    say(opened, "Bob", "lives in", "Oslo")

    memory = opened.read(made.memory.id)
    assert (memory.content, memory.type, memory.subtype) == ("Ada lives in Rome", "semantic", "fact")
    assert (memory.tags, memory.author) == (("home",), "Grace")
    assert memory.metadata == {
        "subject": "Ada", "predicate": "lives in", "object": "Rome", "functional": True, "since": 2019,
    }  # fmt: skip
    assert opened.found("where does Ada live? Rome?")[0] == memory.id
    assert opened.found("who", where={"metadata": {"subject": "Ada"}}) == [memory.id]


def test_a_subtype_of_the_callers_own_counts_for_the_level_too(opened: Opened) -> None:
    made = say(opened, "Ada", "prefers", "tea", subtype="Preference", sensitivity="public")

    assert (made.memory.subtype, made.memory.sensitivity) == ("preference", "personal")


def test_a_functional_fact_takes_the_place_of_what_said_another_object(opened: Opened) -> None:
    rome = say(opened, "Ada", "lives in", "Rome").memory.id
    paris = say(opened, "ADA", "Lives In", "Paris")

    assert paris.superseded == (rome,)
    assert (opened.row(rome).state, opened.row(rome).superseded_by) == ("superseded", paris.memory.id)
    assert opened.row(rome).invalid_at == opened.now
    assert opened.found("Ada lives in Rome") == [paris.memory.id]


def test_the_same_again_is_the_same_memory_and_supersedes_nothing(opened: Opened) -> None:
    first = say(opened, "Ada", "lives in", "Rome")
    again = say(opened, "Ada", "lives in", "Rome")
    shouted = say(opened, "Ada", "lives in", "ROME")

    assert (again.created, again.memory.id, again.superseded) == (False, first.memory.id, ())
    assert again.memory.version == 1
    assert shouted.superseded == ()
    assert opened.row(first.memory.id).state == "live"


def test_there_and_back_again_are_three_memories_two_of_them_history(opened: Opened) -> None:
    ids = []
    for city in ("Rome", "Paris", "Rome"):
        opened.clock.advance(60)
        ids.append(say(opened, "Ada", "lives in", city).memory.id)

    assert len(set(ids)) == 3
    assert [opened.row(one).superseded_by for one in ids] == [ids[1], ids[2], None]
    assert [opened.read(one).metadata["object"] for one in ids] == ["Rome", "Paris", "Rome"]
    assert [opened.row(one).state for one in ids] == ["superseded", "superseded", "live"]


def test_what_was_forgotten_comes_back_and_takes_the_place_again(opened: Opened) -> None:
    rome = say(opened, "Ada", "lives in", "Rome").memory.id
    opened.forget(rome)
    paris = say(opened, "Ada", "lives in", "Paris").memory.id

    back = say(opened, "Ada", "lives in", "Rome")

    assert (back.memory.id, back.restored, back.superseded) == (rome, True, (paris,))


def test_the_same_id_again_edits_the_fact_and_takes_the_place_of_the_others_alone(opened: Opened) -> None:
    say(opened, "Ada", "lives in", "Rome", id="home", metadata={"since": 2019}, type="episodic")
    oslo = opened.add("Oslo", metadata={"subject": "Ada", "predicate": "lives in", "object": "Oslo"})

    paris = say(opened, "Ada", "lives in", "Paris", functional=True, id="home")
    later = say(opened, "Ada", "lives in", "Lyon", functional=False, id="home", subtype="town")

    memory = opened.read("home")
    assert (paris.created, paris.memory.version, paris.superseded) == (False, 2, (oslo,))
    assert (memory.state, memory.version, later.superseded) == ("live", 3, ())
    assert (memory.content, memory.type, memory.subtype) == ("Ada lives in Lyon", "episodic", "town")
    assert memory.metadata == {
        "subject": "Ada", "predicate": "lives in", "object": "Lyon", "functional": True, "since": 2019,
    }  # fmt: skip
    assert [one.content for one in opened.stores.records.versions("home")] == [
        "Ada lives in Paris",
        "Ada lives in Rome",
    ]
    assert opened.found("where does Ada live? Lyon?") == ["home"]


def test_plain_text_that_has_the_id_becomes_a_fact(opened: Opened) -> None:
    opened.add("Ada moved", id="home", metadata={"since": 2019})

    say(opened, "Ada", "lives in", "Rome", id="home")

    memory = opened.read("home")
    assert (memory.content, memory.subtype) == ("Ada lives in Rome", "fact")
    assert memory.metadata.keys() == {"subject", "predicate", "object", "functional", "since"}


def test_an_id_that_may_not_be_edited_is_refused_as_remember_does_and_supersedes_nothing(opened: Opened) -> None:
    rome = say(opened, "Ada", "lives in", "Rome").memory.id
    opened.add("hidden", id="hidden", sensitivity="secret")
    opened.add("binned", id="binned")
    opened.forget("binned")
    opened.add("elsewhere", id="elsewhere", scope="other")

    for name, kind in (("hidden", NotFound), ("binned", Conflict), ("elsewhere", Conflict)):
        with pytest.raises(kind):
            say(opened, "Ada", "lives in", "Paris", id=name, clearance="personal")
    with pytest.raises(Conflict) as same:
        say(opened, "Ada", "lives in", "Rome", id=opened.add("something else"))

    assert same.value.extra["duplicate_of"] == rome
    assert opened.row(rome).state == "live"


def test_a_memory_whose_parts_say_otherwise_than_its_text_does_not_take_its_own_place(opened: Opened) -> None:
    odd = opened.add("Ada lives in Rome", metadata={"subject": "Ada", "predicate": "lives in", "object": "Paris"})

    again = say(opened, "Ada", "lives in", "Rome")

    assert (again.memory.id, again.superseded) == (odd, ())
    assert (opened.row(odd).state, opened.row(odd).metadata["object"]) == ("live", "Rome")


def test_a_fact_that_is_not_functional_supersedes_nothing(opened: Opened) -> None:
    tea = say(opened, "Ada", "likes", "tea", functional=False).memory.id
    assert say(opened, "Ada", "likes", "cake", functional=False).superseded == ()
    assert opened.row(tea).state == "live"


def test_only_the_same_subject_predicate_and_exact_scope_are_superseded(opened: Opened) -> None:
    others = [
        say(opened, "Ada", "lives in", "Rome", scope="a/b").memory.id,
        say(opened, "Ada", "lives in", "Rome", scope="b").memory.id,
        say(opened, "Bob", "lives in", "Rome", scope="a").memory.id,
        say(opened, "Ada", "works in", "Rome", scope="a").memory.id,
        opened.add("Ada lives in Rome, they say", scope="a", metadata={"subject": "Ada", "predicate": "lives in"}),
        opened.add("numbers", scope="a", metadata={"subject": 1, "predicate": ["lives in"], "object": None}),
    ]

    assert say(opened, "Ada", "lives in", "Paris", scope="a").superseded == ()
    assert {opened.row(one).state for one in others} == {"live"}


def test_letters_in_another_case_or_form_are_the_same_name(opened: Opened) -> None:
    first = say(opened, "STRASSE", "cafe\u0301", "1").memory.id

    assert say(opened, "straße", "CAFÉ", "2").superseded == (first,)


def test_what_lies_above_the_callers_clearance_is_neither_met_nor_superseded(opened: Opened) -> None:
    hidden = say(opened, "Ada", "lives in", "a safe house", sensitivity="secret").memory.id

    made = say(opened, "Ada", "lives in", "Rome", clearance="personal")

    assert (made.superseded, made.memory.sensitivity) == ((), "personal")
    assert opened.row(hidden).state == "live"


def test_c7_what_takes_the_place_is_as_sensitive_unless_the_caller_says_otherwise(opened: Opened) -> None:
    say(opened, "Ada", "is treated for", "asthma", sensitivity="confidential")

    now = say(opened, "Ada", "is treated for", "nothing")
    said = say(opened, "Ada", "is treated for", "a cold", sensitivity="public")

    assert (now.memory.sensitivity, said.memory.sensitivity) == ("confidential", "public")
    assert len(said.superseded) == 1


def test_known_plain_text_becomes_a_fact_and_keeps_what_it_had(opened: Opened) -> None:
    plain = opened.add("Ada lives in Rome", metadata={"seen": 1}, importance=0.9)

    made = say(opened, "Ada", "lives in", "Rome")

    memory = opened.read(plain)
    assert (made.created, made.memory.id) == (False, plain)
    assert (memory.metadata["seen"], memory.metadata["object"], memory.subtype) == (1, "Rome", "fact")
    assert (memory.version, memory.importance) == (2, 0.9)
    assert say(opened, "Ada", "lives in", "Paris").superseded == (plain,)


def test_a_fact_stays_functional_when_it_is_said_again_without_saying_so(opened: Opened) -> None:
    first = say(opened, "Ada", "lives in", "Rome")

    again = say(opened, "Ada", "lives in", "Rome", functional=False)

    assert (again.memory.metadata["functional"], again.memory.version) == (True, first.memory.version)


def test_a_part_in_the_callers_metadata_is_refused_whatever_it_says(opened: Opened) -> None:
    for name in ("subject", "predicate", "object", "functional"):
        error = refused(lambda name=name: say(opened, "Ada", "lives in", "Rome", metadata={name: "x"}))
        assert isinstance(error, Invalid)
        assert (error.extra["field"], repr(name) in error.detail) == ("metadata", True)
    assert refused(lambda: teach(opened, "n", "t", "s", metadata={"steps": []})).extra["field"] == "metadata"
    assert len(opened.stores.catalogue) == 0


@pytest.mark.parametrize("blank", ["", "  ", "\u200b"])
def test_a_part_that_shows_nothing_is_refused_by_its_name(opened: Opened, blank: str) -> None:
    asks = {
        "subject": lambda: say(opened, blank, "is", "x"), "predicate": lambda: say(opened, "x", blank, "x"),
        "object": lambda: say(opened, "x", "is", blank), "name": lambda: teach(opened, blank, "t", "s"),
        "trigger": lambda: teach(opened, "n", blank, "s"), "steps": lambda: teach(opened, "n", "t", "s", blank),
    }  # fmt: skip
    for name, ask in asks.items():
        assert refused(ask).extra["field"] == name
    assert len(opened.stores.catalogue) == 0


def test_what_cannot_be_connected_stores_and_supersedes_nothing(opened: Opened) -> None:
    rome = say(opened, "Ada", "lives in", "Rome").memory.id
    far = opened.add("elsewhere", scope="other")

    with pytest.raises(Refused):
        say(opened, "Ada", "lives in", "Paris", connect_to=[far])

    assert opened.row(rome).state == "live"
    assert len(opened.stores.catalogue) == 2
    linked = say(opened, "Ada", "works in", "Rome", connect_to=[rome])
    assert linked.linked == (rome,)


steps = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from(["Rome", "Paris", "Oslo"])), min_size=1, max_size=8)


@settings(deadline=None, max_examples=40)
@given(said=steps)
def test_of_every_subject_exactly_the_last_object_is_live_and_the_history_is_whole(
    shared: Opened, said: list[tuple[str, str]]
) -> None:
    shared.empty()
    for subject, city in said:
        shared.clock.advance(60)
        say(shared, subject, "lives in", city)

    for subject in "AB":
        cities = [city for name, city in said if name == subject]
        live = [row for row in shared.stores.catalogue.rows() if row.metadata["subject"] == subject]
        gone = [row for row in shared.stores.catalogue.gone() if row.metadata["subject"] == subject]
        assert [row.metadata["object"] for row in live] == cities[-1:]
        assert len(gone) == sum(one != next_ for one, next_ in pairwise(cities))
        assert all(row.state == "superseded" for row in gone)


# -- procedures


def test_a_procedure_is_a_procedural_memory_with_numbered_steps(opened: Opened) -> None:
    made = teach(opened, "Deploy", "a release is tagged", "run the tests", " push ", metadata={"team": "infra"})

    memory = opened.read(made.memory.id)
    assert memory.content == "Deploy\nWhen: a release is tagged\n1. run the tests\n2. push"
    assert (memory.type, memory.subtype, made.created) == ("procedural", "procedure", True)
    assert memory.metadata == {
        "name": "Deploy", "trigger": "a release is tagged", "steps": ["run the tests", "push"], "team": "infra",
    }  # fmt: skip
    assert opened.found("how do we deploy a release?") == [memory.id]
    assert opened.found("who", where={"metadata": {"name": "Deploy"}}) == [memory.id]


def test_the_same_name_in_the_same_scope_edits_it_and_keeps_what_is_not_said(opened: Opened) -> None:
    first = teach(opened, "Deploy", "on Friday", "push", metadata={"team": "infra"}, tags=["ops"], author="Ada")

    second = teach(opened, "DEPLOY", "on Monday", "test", "push")
    same = teach(opened, "DEPLOY", "on Monday", "test", "push")
    elsewhere = teach(opened, "Deploy", "on Friday", "push", scope="default/sub")

    memory = opened.read(first.memory.id)
    assert (second.created, second.memory.id, memory.version) == (False, memory.id, 2)
    assert memory.content == "DEPLOY\nWhen: on Monday\n1. test\n2. push"
    assert (memory.metadata["team"], memory.tags, memory.author) == ("infra", ("ops",), "Ada")
    assert [one.content for one in opened.stores.records.versions(memory.id)] == [
        "Deploy\nWhen: on Friday\n1. push"
    ]  # fmt: skip
    assert (same.memory.version, same.changed) == (2, frozenset())
    assert elsewhere.created
    assert opened.found("deploy on Monday test")[0] == memory.id


def test_an_id_decides_which_procedure_is_edited_whatever_its_name(opened: Opened) -> None:
    teach(opened, "Deploy", "on Friday", "push", id="d", metadata={"team": "infra"})

    renamed = teach(opened, "Ship", "on Monday", "test", "push", id="d")
    second = teach(opened, "Ship", "on Sunday", "rest", id="e")

    memory = opened.read("d")
    assert (renamed.created, memory.version, memory.subtype) == (False, 2, "procedure")
    assert memory.metadata == {"name": "Ship", "trigger": "on Monday", "steps": ["test", "push"], "team": "infra"}
    assert (second.created, second.memory.id) == (True, "e")


def test_a_forgotten_or_hidden_procedure_is_not_edited(opened: Opened) -> None:
    gone = teach(opened, "Deploy", "on Friday", "push").memory.id
    opened.forget(gone)
    hidden = teach(opened, "Deploy", "on Monday", "push", sensitivity="secret")

    made = teach(opened, "Deploy", "on Sunday", "rest", clearance="personal")

    assert hidden.created
    assert made.created
    assert (opened.row(gone).state, opened.row(hidden.memory.id).version) == ("forgotten", 1)


def test_a_memory_that_only_has_a_name_is_no_procedure(opened: Opened) -> None:
    named = opened.add("a ship", metadata={"name": "Deploy"})

    assert teach(opened, "Deploy", "on Friday", "push").created
    assert opened.row(named).version == 1


# -- C9: what is secret in the whole is masked in its parts


@pytest.mark.parametrize(
    ("subject", "predicate", "object_"),
    [
        ("the wifi", "has the password", "hunter2xyz!"), ("DB_PASSWORD", "=", "hunter2xyz!"),
        ("the password", "is", "hunter2xyz!"), ("the deploy key", "is", SECRET), (SECRET, "belongs to", "Ada"),
    ],
)  # fmt: skip
def test_c9_an_object_that_only_its_predicate_gives_away_is_masked_in_the_metadata_too(
    opened: Opened, subject: str, predicate: str, object_: str
) -> None:
    made = say(opened, subject, predicate, object_, context=f"he said: {object_}")

    memory = opened.read(made.memory.id)
    shown = repr((memory.content, memory.metadata))
    assert "hunter2xyz" not in shown
    assert SECRET not in shown
    assert memory.sensitivity == "confidential"
    assert sum(memory.redactions.values()) >= 1
    parts = (memory.metadata[name] for name in ("subject", "predicate", "object"))
    assert memory.content == " ".join(parts)


def test_c9_a_secret_in_a_procedure_is_masked_in_text_and_steps(opened: Opened) -> None:
    made = teach(opened, "Log in", "it asks", "open the vault", "type the password: hunter2xyz!", f"use {SECRET}")

    memory = opened.read(made.memory.id)
    assert "hunter2xyz" not in repr((memory.content, memory.metadata))
    assert SECRET not in repr((memory.content, memory.metadata))
    assert memory.metadata["steps"][0] == "open the vault"
    assert memory.content.endswith(f"2. {memory.metadata['steps'][1]}\n3. {memory.metadata['steps'][2]}")


def test_two_secrets_look_alike_once_masked_and_supersede_nothing(opened: Opened) -> None:
    cards = ("4111 1111 1111 1111", "5500 0055 5555 5559")
    first = say(opened, f"card {cards[0]}", "expires in", "2027")

    second = say(opened, f"card {cards[1]}", "expires in", "2028")

    assert MASK in first.memory.metadata["subject"]
    assert second.superseded == ()


words = st.sampled_from(
    ["password", "the", "is", "=", "hunter2xyz!", SECRET, "token:", "Ada", "key", "4111 1111 1111 1111", "pin", "9876"]
)
parts = st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), min_size=3, max_size=3)


@settings(deadline=None, max_examples=300)
@given(told=parts)
def test_parts_are_masked_together_so_that_the_whole_has_nothing_left_to_mask(told: list[str]) -> None:
    masked, hits = REDACTOR.redact_parts(told)

    assert len(masked) == len(told)
    assert REDACTOR.redact("".join(masked)).hits == {}
    assert bool(hits) == (masked != told) == bool(REDACTOR.redact("".join(told)).hits)
    assert REDACTOR.redact_parts(masked) == (masked, {})
