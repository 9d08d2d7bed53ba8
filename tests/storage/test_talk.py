"""Turns and states as records, and what is known of them in RAM."""

from __future__ import annotations

from typing import Any

import pytest

from storage.records import RECORDS, owner_of, record_key
from storage.talk import ARCHIVED, STEPPED_BACK, State, Talk, Turn, state_of, state_payload, turn_of, turn_payload
from tests.storage.opened import Opened


@pytest.fixture
def talk(opened: Opened) -> Talk:
    return opened.stores.talk


def say(opened: Opened, content: str, *, dated: bool = False, **fields: Any) -> Turn:
    """A turn of session s in scope a/b, now."""
    told = {"id": opened.clock.new_id(), "scope": "a/b", "session": "s", "role": "user", "at": opened.now, **fields}
    return opened.stores.talk.add(Turn(content=content, **told), dated=dated)


def contents(talk: Talk, scope: str = "a/b", session: str = "s", clearance: str = "secret") -> list[str]:
    return [turn.content for turn in talk.read(talk.turns(scope, session, clearance))]


def test_a_turn_is_read_as_it_was_said(opened: Opened, talk: Talk) -> None:
    turn = say(
        opened, "déjà vu", role="tool", metadata={"a": [1, None, {"b": True}]}, importance=0.25, tokens=7, counter="c",
        sensitivity="confidential",
    )  # fmt: skip

    assert list(talk.read(talk.turns("a/b", "s", "secret"))) == [turn]
    opened.reopen()
    assert list(opened.stores.talk.read(opened.stores.talk.turns("a/b", "s", "secret"))) == [turn]


def test_the_index_holds_no_text(opened: Opened, talk: Talk) -> None:
    say(opened, "a text", metadata={"key": "a text too"})

    row = talk.turns("a/b", "s", "secret")[0]

    assert (row.content, row.metadata) == ("", {})


def test_turns_are_in_the_order_of_their_times_and_of_their_coming(opened: Opened, talk: Talk) -> None:
    say(opened, "first")
    say(opened, "second")
    say(opened, "before both", at=opened.now - 60, dated=True)
    opened.clock.advance(60)
    say(opened, "last")

    assert contents(talk) == ["before both", "first", "second", "last"]
    assert [turn.number for turn in talk.turns("a/b", "s", "secret")] == [3, 1, 2, 4]
    opened.reopen()
    assert contents(opened.stores.talk) == ["before both", "first", "second", "last"]


def test_a_clock_that_is_set_back_a_little_does_not_disorder_a_session(opened: Opened, talk: Talk) -> None:
    question = say(opened, "question")
    opened.clock.set(opened.now - STEPPED_BACK)
    answer = say(opened, "answer")

    assert contents(talk) == ["question", "answer"]
    assert answer.at == question.at


def test_a_clock_that_is_set_back_by_more_is_believed(opened: Opened, talk: Talk) -> None:
    say(opened, "said by a clock in the future")
    opened.clock.set(opened.now - 2 * STEPPED_BACK)
    turn = say(opened, "said by a clock that was set right")

    assert turn.at == opened.now
    assert contents(talk)[0] == turn.content


def test_nothing_of_one_session_or_scope_is_in_another(opened: Opened, talk: Talk) -> None:
    say(opened, "here")
    say(opened, "elsewhere", session="t")
    say(opened, "coarser", scope="a")

    assert contents(talk) == ["here"]
    assert contents(talk, session="t") == ["elsewhere"]
    assert contents(talk, scope="a") == ["coarser"]
    assert contents(talk, scope="a/b/c") == []


def test_what_the_clearance_does_not_cover_is_not_there(opened: Opened, talk: Talk) -> None:
    say(opened, "for all", sensitivity="public")
    say(opened, "hidden", sensitivity="secret", session="s")
    say(opened, "hidden too", sensitivity="secret", session="t")

    assert contents(talk, clearance="personal") == ["for all"]
    assert talk.scopes_of("t", "a/b", "personal") == []
    assert [turn.session for turn in talk.latest("a", "personal")] == ["s"]


def test_a_session_is_found_in_its_exact_scope_else_in_those_below(opened: Opened, talk: Talk) -> None:
    say(opened, "fine")
    say(opened, "finer", scope="a/c")

    assert talk.scopes_of("s", "a/b", "secret") == ["a/b"]
    assert sorted(talk.scopes_of("s", "a", "secret")) == ["a/b", "a/c"]
    assert sorted(talk.scopes_of("s", "*", "secret")) == ["a/b", "a/c"]
    assert talk.scopes_of("s", "b", "secret") == []
    say(opened, "coarse", scope="a")
    assert talk.scopes_of("s", "a", "secret") == ["a"]


def test_the_latest_session_is_that_in_which_something_was_said_last(opened: Opened, talk: Talk) -> None:
    say(opened, "one", session="first")
    opened.clock.advance(1)
    say(opened, "two", session="second", scope="a/c")
    opened.clock.advance(1)
    say(opened, "three", session="first")
    opened.clock.advance(1)
    say(opened, "four", session="other", scope="z")

    assert [turn.session for turn in talk.latest("a", "secret")] == ["first", "first"]
    assert [turn.session for turn in talk.latest("*", "secret")] == ["other"]
    assert talk.latest("nobody", "secret") == []


def test_turns_that_went_into_a_memory_say_so_and_stay_as_they_were(opened: Opened, talk: Talk) -> None:
    said = [say(opened, f"turn {number}", metadata={"n": number}) for number in range(150)]
    say(opened, "later")

    talk.end(talk.turns("a/b", "s", "secret")[:150], "m", extracted_at=None)
    opened.reopen()

    turns = list(opened.stores.talk.read(opened.stores.talk.turns("a/b", "s", "secret")))
    assert [turn.ended for turn in turns] == ["m"] * 150 + [None]
    assert [(turn.content, turn.metadata, turn.extracted) for turn in turns[:150]] == [
        (turn.content, turn.metadata, False) for turn in said
    ]


def test_turns_that_no_job_is_to_read_say_since_when(opened: Opened, talk: Talk) -> None:
    say(opened, "turn")

    talk.end(talk.turns("a/b", "s", "secret"), "m", extracted_at=opened.now)

    row = talk.turns("a/b", "s", "secret")[0]
    assert (row.extracted, row.extracted_at) == (True, opened.now)


def test_removed_turns_are_gone_and_numbers_begin_anew(opened: Opened, talk: Talk) -> None:
    say(opened, "one")
    say(opened, "two")

    talk.drop(talk.turns("a/b", "s", "secret"))

    assert talk.turns("a/b", "s", "secret") == []
    assert opened.engine.count(RECORDS) == 0
    assert say(opened, "three").number == 1


def test_what_another_hand_removes_or_puts_back_is_known_at_once(opened: Opened, talk: Talk) -> None:
    """Undo, import and the end of a scope work on records."""
    turn = say(opened, "one")
    payload = opened.stores.records.get([turn.key])[turn.key]

    opened.stores.records.drop([turn.key])
    assert talk.turns("a/b", "s", "secret") == []
    opened.stores.records.put({turn.key: payload})
    assert contents(talk) == ["one"]


def test_a_row_whose_record_is_gone_is_left_out_when_it_is_read(opened: Opened, talk: Talk) -> None:
    say(opened, "stays")
    gone = say(opened, "goes")
    rows = talk.turns("a/b", "s", "secret")

    opened.stores.records.drop([gone.key])

    assert [turn.content for turn in talk.read(rows)] == ["stays"]


def test_payloads_say_whose_they_are_and_leave_out_what_is_not_known(opened: Opened) -> None:
    turn = say(opened, "one")
    payload = turn_payload(turn)

    assert payload["kind"] == "turn"
    assert payload["owner"] == "\0session\0a/b\0s"
    assert payload["extracted"] is False
    assert None not in payload.values()
    assert turn_of(payload) == turn
    assert turn_of({**payload, "of a later version": 1}) == turn


# -- states


def texts(talk: Talk, scope: str = "a", clearance: str = "secret") -> list[str]:
    return [state.text for state in talk.read_states(talk.states(scope, clearance))]


def test_the_newest_state_is_the_current_one_and_the_former_are_its_archive(opened: Opened, talk: Talk) -> None:
    for text in ("one", "two", "three"):
        talk.write_state("a", text, "personal", opened.now)

    assert texts(talk) == ["three", "two", "one"]
    opened.reopen()
    assert texts(opened.stores.talk) == ["three", "two", "one"]


def test_the_archive_keeps_the_newest_twenty(opened: Opened, talk: Talk) -> None:
    for number in range(ARCHIVED + 10):
        talk.write_state("a", f"state {number}", "personal", opened.now)

    assert texts(talk) == [f"state {number}" for number in reversed(range(9, ARCHIVED + 10))]
    assert opened.engine.count(RECORDS) == ARCHIVED + 1


def test_a_state_is_headed_by_the_time_since_the_one_before_and_the_session_spoken_in_last(
    opened: Opened, talk: Talk
) -> None:
    first = talk.write_state("a", "one", "personal", opened.now).state
    opened.clock.advance(90)
    say(opened, "something", session="morning")
    second = talk.write_state("a", "two", "personal", opened.now).state

    assert (first.session, first.interval_s) == ("", None)
    assert (second.session, second.interval_s) == ("morning", 90.0)


def test_a_clock_that_is_set_back_a_little_hides_no_newer_state(opened: Opened, talk: Talk) -> None:
    talk.write_state("a", "one", "personal", opened.now)
    opened.clock.set(opened.now - STEPPED_BACK)
    second = talk.write_state("a", "two", "personal", opened.now).state

    assert second.interval_s == 0.0
    assert texts(talk) == ["two", "one"]
    opened.reopen()
    assert texts(opened.stores.talk) == ["two", "one"]


def test_a_clock_that_is_set_back_by_more_is_believed_by_states_too(opened: Opened, talk: Talk) -> None:
    talk.write_state("a", "written by a clock in the future", "personal", opened.now)
    opened.clock.set(opened.now - 2 * STEPPED_BACK)
    state = talk.write_state("a", "written by a clock that was set right", "personal", opened.now).state

    assert (state.written_at, state.interval_s) == (opened.now, 0.0)
    assert texts(talk)[1] == state.text


@pytest.mark.parametrize("restart", [False, True])
def test_states_that_an_undo_brings_back_all_come_and_stand_behind_the_newer_ones(
    opened: Opened, *, restart: bool
) -> None:
    for text in ("one", "two", "three"):
        opened.stores.talk.write_state("a", text, "personal", opened.now)
        opened.clock.advance(1)
    keys = [state.key for state in opened.stores.talk.states("a", "secret")]
    gone = opened.stores.records.get(keys)
    opened.stores.records.drop(keys)
    if restart:
        opened.reopen()
    opened.stores.talk.write_state("a", "since then", "personal", opened.now)

    opened.stores.records.put(gone)

    assert texts(opened.stores.talk) == ["since then", "three", "two", "one"]
    opened.stores.talk.write_state("a", "now", "personal", opened.now)
    assert texts(opened.stores.talk)[:2] == ["now", "since then"]


def test_no_state_gets_the_key_of_one_that_is_gone_at_the_same_instant(opened: Opened, talk: Talk) -> None:
    first = talk.write_state("a", "one", "personal", opened.now).state
    opened.stores.records.drop([first.key])

    assert talk.write_state("a", "two", "personal", opened.now).state.key != first.key


@pytest.mark.parametrize("number", [1, 7, 2**63 - 1])
def test_states_of_an_import_or_of_an_older_version_keep_their_key_and_their_place(
    opened: Opened, talk: Talk, number: int
) -> None:
    """They are numbered from 1 on, or as whoever made the file liked."""
    brought = State("a", number, opened.now, "personal", text="brought")
    opened.stores.records.put({brought.key: state_payload(brought)})
    opened.clock.advance(1)
    talk.write_state("a", "new", "personal", opened.now)

    assert brought.key == record_key(owner_of("state", "a"), str(number))
    assert texts(talk) == ["new", "brought"]


@pytest.mark.parametrize(("clearance", "archived"), [("public", False), ("personal", True)])
def test_a_state_was_archived_where_the_caller_may_know_of_it_and_a_finer_scope_is_another(
    opened: Opened, talk: Talk, clearance: str, *, archived: bool
) -> None:
    assert not talk.write_state("a", "one", "personal", opened.now).archived
    opened.clock.advance(1)
    assert not talk.write_state("a/x", "elsewhere", "public", opened.now).archived
    opened.clock.advance(1)

    assert talk.write_state("a", "two", "personal", opened.now, clearance=clearance).archived is archived


@pytest.mark.parametrize(
    ("sensitivity", "clearance", "told"),
    [
        ("personal", "personal", True), ("secret", "personal", True), ("personal", "secret", True),
        ("personal", "public", False), ("public", "secret", False), ("secret", "public", False),
    ],
)  # fmt: skip
def test_a_head_tells_what_both_the_state_and_its_writer_may_know(
    opened: Opened, talk: Talk, sensitivity: str, clearance: str, *, told: bool
) -> None:
    talk.write_state("a", "one", "personal", opened.now)
    opened.clock.advance(90)
    say(opened, "something", session="morning", sensitivity="personal")

    state = talk.write_state("a", "two", sensitivity, opened.now, clearance=clearance).state

    assert (state.session, state.interval_s) == (("morning", 90.0) if told else ("", None))


def test_a_head_tells_nothing_of_what_is_more_sensitive_than_the_state(opened: Opened, talk: Talk) -> None:
    talk.write_state("a", "hidden", "secret", opened.now)
    say(opened, "hidden", session="hidden", sensitivity="secret")

    state = talk.write_state("a", "shown", "personal", opened.now).state

    assert (state.session, state.interval_s) == ("", None)


def test_a_coarse_scope_finds_the_newest_state_below_it(opened: Opened, talk: Talk) -> None:
    talk.write_state("a/x", "older", "personal", opened.now)
    opened.clock.advance(1)
    talk.write_state("a/y", "newer", "personal", opened.now)
    opened.clock.advance(1)
    talk.write_state("z", "elsewhere", "personal", opened.now)

    assert texts(talk) == ["newer"]
    assert texts(talk, "a/x") == ["older"]
    assert texts(talk, "*") == ["elsewhere"]
    assert texts(talk, "a/x/deeper") == []


def test_a_state_above_the_clearance_is_not_there(opened: Opened, talk: Talk) -> None:
    talk.write_state("a", "for all", "public", opened.now)
    talk.write_state("a", "hidden", "confidential", opened.now)

    assert texts(talk, clearance="personal") == ["for all"]
    assert texts(talk, clearance="confidential") == ["hidden", "for all"]


def test_a_state_comes_out_of_its_payload_as_it_went_in(opened: Opened, talk: Talk) -> None:
    state = talk.write_state("a", "text", "personal", opened.now).state
    payload = state_payload(state)

    assert payload["kind"] == "session_state"
    assert payload["owner"] == "\0state\0a"
    assert "interval_s" not in payload
    assert state_of(payload) == state
