"""Turns, the ends of sessions, and session states, over the wire."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.model import MAX_CONTENT_BYTES
from storage.talk import Turn
from tests.daemon.methods.asking import WatchedEmbedder, ask, at_once, refused
from tests.harness import Daemon

KEY = "sk-ant-api03-" + "R2d2" * 20 + "AA"
CARD = "4111 1111 1111 1111"


def say(daemon: Daemon, *contents: str, **params: Any) -> list[str]:
    """A conversation, a minute between the turns; user and assistant in turn."""
    turns = []
    for number, content in enumerate(contents):
        told = {"session": "s", "role": ("user", "assistant")[number % 2], **params}
        turns.append(daemon.call("add_turn", content=content, **told)["turn"])
        daemon.clock.advance(60)
    return turns


def kept(daemon: Daemon, session: str = "s", scope: str = "default") -> list[Turn]:
    """What the store has of a session."""
    talk = daemon.stores.talk
    found: list[Turn] = daemon.in_lane(lambda: list(talk.read(talk.turns(scope, session, "secret"))))
    return found


# -- turns


def test_a_turn_is_kept_as_it_was_said(daemon: Daemon) -> None:
    answer = daemon.call(
        "add_turn", session="s", role="assistant", content="green  tea\n", metadata={"model": None, "n": [1]}, importance=0.9,
        at="2025-06-01T12:00:00+02:00", scope="a/b",
    )  # fmt: skip

    turn = kept(daemon, scope="a/b")[0]
    assert answer == {"turn": turn.id, "tokens": turn.tokens}
    assert turn.tokens == 4
    assert (turn.role, turn.content, turn.metadata) == ("assistant", "green  tea\n", {"model": None, "n": [1]})
    assert (turn.importance, turn.sensitivity, turn.ended, turn.extracted) == (0.9, "personal", None, False)
    assert turn.at == 1_748_772_000.0


def test_a_turn_is_of_the_user_and_said_now_unless_it_is_told_otherwise(daemon: Daemon) -> None:
    daemon.call("add_turn", session="s", content="hello")

    turn = kept(daemon)[0]
    assert (turn.role, turn.at, turn.importance) == ("user", daemon.clock.now(), 0.5)


def test_c17_a_naive_time_is_utc_and_turns_are_in_the_order_of_their_times(daemon: Daemon) -> None:
    daemon.call("add_turn", session="s", content="second", at="2025-10-26T01:30:00")
    daemon.call("add_turn", session="s", content="first", at="2025-10-26T02:30:00+02:00")
    daemon.call("add_turn", session="s", content="third", at="2025-10-26T02:30:00+01:00")

    assert [turn.content for turn in kept(daemon)] == ["first", "second", "third"]


@pytest.mark.parametrize("size", [2_100, MAX_CONTENT_BYTES])
def test_case73_a_long_turn_is_stored_whole(daemon: Daemon, size: int) -> None:
    text = ("tea " * size)[:size]

    daemon.call("add_turn", session="s", content=text)

    assert kept(daemon)[0].content == text


def test_case73_a_longer_turn_is_refused_with_the_limit(daemon: Daemon) -> None:
    error = refused(daemon, "too_large", "add_turn", session="s", content="x" * (MAX_CONTENT_BYTES + 1))

    assert error.extra["limit_bytes"] == MAX_CONTENT_BYTES
    assert error.extra["field"] == "content"
    assert kept(daemon) == []


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"content": " \n"}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"session": ""}, "session"),
        ({"session": " "}, "session"),
        ({"session": "x" * 300}, "session"),
        ({"role": "robot"}, "role"),
        ({"importance": 1.5}, "importance"),
        ({"at": "yesterday"}, "at"),
        ({"scope": "*"}, "scope"),
        ({"scope": "a//b"}, "scope"),
        ({"metadata": {"n": 2**70}}, "metadata"),
        ({"weight": 1}, "weight"),
    ],
)
def test_a_turn_that_is_wrong_is_refused_by_the_name_of_what_is_wrong(
    shared: Daemon, params: dict[str, Any], field: str
) -> None:
    error = refused(shared, "invalid", "add_turn", **{"session": "wrong", "content": "x", **params})

    assert error.extra["field"] == field
    refused(shared, "not_found", "clear_session", session="wrong")


@pytest.mark.parametrize("method", ["add_turn", "write_session_state", "end_session", "clear_session"])
def test_c8_a_scope_that_holds_a_secret_is_refused_where_it_is_new_and_else_not_found(
    shared: Daemon, method: str
) -> None:
    texts = {"add_turn": {"content": "x", "session": "s"}, "write_session_state": {"text": "x"}}
    kind = "invalid" if method in texts else "not_found"

    error = refused(shared, kind, method, scope=f"a/{KEY}", **texts.get(method, {"session": "s"}))

    if kind == "invalid":
        assert error.extra["field"] == "scope"
        assert KEY not in f"{error.detail} {error.hint}"


def test_a_secret_is_masked_and_raises_the_turn(daemon: Daemon) -> None:
    answer = daemon.call("add_turn", session="s", content=f"pay with {CARD}", metadata={"key": KEY})

    turn = kept(daemon)[0]
    assert answer["redactions"] == {"card": 1, "anthropic_key": 1}
    assert CARD not in turn.content
    assert KEY not in str(turn.metadata)
    assert turn.sensitivity == "confidential"


def test_what_nobody_marked_has_the_configured_sensitivity(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_SENSITIVITY__DEFAULT": "public"}).start()
    say(daemon, "hello")

    assert kept(daemon)[0].sensitivity == "public"


def test_retries_lose_no_turn_and_add_none_twice(daemon: Daemon) -> None:
    """Anchor's fault: a turn whose request was repeated was lost, or said twice."""
    first = ask(daemon, "add_turn", {"session": "s", "content": "hello", "request_id": "r1"})
    again = ask(daemon, "add_turn", {"session": "s", "content": "hello", "request_id": "r1"})
    by_header = ask(daemon, "add_turn", {"session": "s", "content": "hello"}, "r2")
    ask(daemon, "add_turn", {"session": "s", "content": "hello"}, "r2")

    assert again == first
    assert [turn.id for turn in kept(daemon)] == [first["turn"], by_header["turn"]]


def test_turns_said_at_once_are_all_kept_under_numbers_of_their_own(daemon: Daemon) -> None:
    results = at_once(daemon, *(("add_turn", {"session": "s", "content": f"turn {number}"}) for number in range(20)))

    assert {result["turn"] for result in results} == {turn.id for turn in kept(daemon)}
    assert sorted(turn.number for turn in kept(daemon)) == list(range(1, 21))


def test_turns_survive_a_restart(daemon: Daemon) -> None:
    say(daemon, "hello", "hi")

    daemon.restart()

    assert [turn.content for turn in kept(daemon)] == ["hello", "hi"]
    assert daemon.call("end_session", session="s")["turns"] == 2


# -- the end of a session


def test_a_session_that_ends_becomes_one_episodic_memory(daemon: Daemon) -> None:
    start = daemon.clock.now()
    turns = say(daemon, "what is in the pantry?", "green tea", scope="a/b")
    daemon.call("add_turn", session="s", content="thanks", importance=0.8, scope="a/b")
    answer = daemon.call("end_session", session="s", scope="a/b")

    memory = daemon.call("get", id=answer["memory"])
    assert answer["turns"] == 3
    assert memory["content"] == "user: what is in the pantry?\nassistant: green tea\nuser: thanks"
    assert memory["context"] == ""
    assert (memory["type"], memory["subtype"], memory["session"], memory["scope"]) == (
        "episodic",
        "conversation",
        "s",
        "a/b",
    )
    assert memory["event_at"] == "2026-01-01T00:00:00Z"
    assert start == 1_767_225_600.0
    assert (memory["importance"], memory["sensitivity"]) == (0.8, "personal")
    assert memory["source_turns"][:2] == turns
    assert len(memory["source_turns"]) == 3
    assert [turn.ended for turn in kept(daemon, scope="a/b")] == [memory["id"]] * 3


def test_a_memory_is_as_sensitive_as_the_most_sensitive_of_its_turns(daemon: Daemon) -> None:
    say(daemon, "hello", f"the key is {KEY}")

    memory = daemon.call("get", id=daemon.call("end_session", session="s")["memory"])

    assert memory["sensitivity"] == "confidential"
    assert KEY not in memory["content"]


def test_what_was_said_is_found_by_recall(daemon: Daemon) -> None:
    say(daemon, "the harbour opens at dawn", "noted")
    memory = daemon.call("end_session", session="s")["memory"]

    assert [hit["id"] for hit in daemon.call("recall", query="when does the harbour open?")["hits"]] == [memory]


def test_a_session_without_new_turns_ends_in_the_memory_that_it_became(daemon: Daemon) -> None:
    say(daemon, "hello")
    first = daemon.call("end_session", session="s")

    assert daemon.call("end_session", session="s") == {"turns": 0, "memory": first["memory"]}
    assert daemon.call("stats")["total"] == 1


def test_later_turns_become_a_memory_of_their_own(daemon: Daemon) -> None:
    say(daemon, "hello")
    first = daemon.call("end_session", session="s")
    say(daemon, "hello again")
    second = daemon.call("end_session", session="s")

    assert second["turns"] == 1
    assert second["memory"] != first["memory"]
    assert daemon.call("get", id=second["memory"])["content"] == "user: hello again"


def test_a_long_session_has_its_whole_text_in_the_context(daemon: Daemon) -> None:
    say(daemon, *["x" * 30_000 + f" {number}" for number in range(20)])

    memory = daemon.call("get", id=daemon.call("end_session", session="s")["memory"])

    lines = memory["content"].split("\n")
    assert len(memory["content"].encode()) <= MAX_CONTENT_BYTES
    assert lines[-1] == "(20 turns: 12 more in the context only)"
    assert memory["context"].count("\n") == 19
    assert memory["context"].startswith("\n".join(lines[:-1]))
    assert len(memory["source_turns"]) == 20


@pytest.mark.parametrize("extract", [True, False])
def test_turns_wait_for_extraction_unless_it_is_not_wanted(daemon: Daemon, *, extract: bool) -> None:
    say(daemon, "hello")

    daemon.call("end_session", session="s", extract=extract)

    assert [turn.extracted for turn in kept(daemon)] == [not extract]


def test_an_end_that_fails_loses_no_turn_and_may_be_tried_again(watched: Daemon, embedder: WatchedEmbedder) -> None:
    say(watched, "hello", "hi")
    embedder.broken = True

    refused(watched, "unavailable", "end_session", session="s")

    assert [turn.ended for turn in kept(watched)] == [None, None]
    embedder.broken = False
    assert watched.call("end_session", session="s")["turns"] == 2


def test_an_end_that_was_cut_off_between_memory_and_marks_makes_no_second_memory(daemon: Daemon) -> None:
    say(daemon, "hello", "hi")
    first = daemon.call("end_session", session="s")["memory"]
    daemon.in_lane(_unmark, daemon)

    again = daemon.call("end_session", session="s")

    assert again == {"turns": 2, "memory": first}
    assert daemon.call("stats")["total"] == 1


def _unmark(daemon: Daemon) -> None:
    """As a kill between the two writes leaves it."""
    stores = daemon.stores
    keys = [turn.key for turn in stores.talk.turns("default", "s", "secret")]
    found = stores.records.get(keys)
    stores.records.put({key: {name: one[name] for name in one if name != "ended"} for key, one in found.items()})


def test_two_ends_at_once_make_one_memory(daemon: Daemon) -> None:
    say(daemon, "hello", "hi")

    results = at_once(daemon, *[("end_session", {"session": "s"})] * 4)

    assert sorted(result["turns"] for result in results) == [0, 0, 0, 2]
    assert len({result["memory"] for result in results}) == 1
    assert daemon.call("get", id=results[0]["memory"])["access_count"] == 0


def test_a_turn_that_is_added_while_a_session_ends_waits_for_the_next_end(daemon: Daemon) -> None:
    say(daemon, "hello")

    ended, _ = at_once(daemon, ("end_session", {"session": "s"}), ("add_turn", {"session": "s", "content": "wait"}))

    later = daemon.call("end_session", session="s")
    assert ended["turns"] + later["turns"] == 2
    assert all(turn.ended is not None for turn in kept(daemon))


def test_a_session_whose_turn_becomes_more_sensitive_while_it_ends_makes_no_less_sensitive_memory(
    watched: Daemon, embedder: WatchedEmbedder
) -> None:
    """An undo or an import may put another turn in the place of one that was read."""
    say(watched, "hello")

    def replace() -> None:
        records = watched.stores.records
        key = watched.stores.talk.turns("default", "s", "secret")[0].key
        records.put({key: records.get([key])[key] | {"sensitivity": "secret"}})

    embedder.meanwhile = lambda: watched.in_lane(replace)
    memory = watched.call("end_session", session="s")["memory"]

    assert watched.call("get", id=memory)["sensitivity"] == "secret"


@pytest.mark.parametrize("method", ["end_session", "clear_session"])
def test_an_unknown_session_is_not_found(shared: Daemon, method: str) -> None:
    error = refused(shared, "not_found", method, session="nobody's")

    assert "nobody's" in error.detail


def test_writing_needs_the_exact_scope(daemon: Daemon) -> None:
    say(daemon, "hello", scope="a/b")

    refused(daemon, "not_found", "end_session", session="s", scope="a")
    refused(daemon, "not_found", "clear_session", session="s", scope="a")
    refused(daemon, "invalid", "clear_session", session="s", scope="*")


def test_the_end_of_a_session_is_told(daemon: Daemon) -> None:
    say(daemon, "hello")

    memory = daemon.call("end_session", session="s")["memory"]

    assert told(daemon)[-1] == ("remembered", (memory,))


def told(daemon: Daemon) -> list[tuple[str, tuple[str, ...]]]:
    """The events so far, by type and ids."""
    return [(event.type, event.ids) for event in daemon.parts.events._ring]


# -- what the clearance does not cover


def test_a_caller_ends_and_clears_only_what_it_may_see(daemon: Daemon) -> None:
    hidden = say(daemon, f"my key is {KEY}")[0]
    shown = say(daemon, "hello")[0]

    ended = daemon.call("end_session", session="s", clearance="personal")

    assert ended["turns"] == 1
    assert daemon.call("get", id=ended["memory"])["source_turns"] == [shown]
    assert daemon.call("clear_session", session="s", clearance="personal") == {"turns": 1}
    assert [turn.id for turn in kept(daemon)] == [hidden]
    refused(daemon, "not_found", "clear_session", session="s", clearance="personal")
    refused(daemon, "not_found", "end_session", session="s", clearance="personal")


def test_the_memory_of_a_session_is_not_named_to_whom_it_is_hidden_from(daemon: Daemon) -> None:
    say(daemon, "hello", f"my key is {KEY}")
    daemon.call("end_session", session="s")

    assert daemon.call("end_session", session="s", clearance="personal") == {"turns": 0, "memory": None}


def test_a_memory_that_was_erased_is_not_named(daemon: Daemon) -> None:
    say(daemon, "hello")
    memory = daemon.call("end_session", session="s")["memory"]
    daemon.call("forget", id=memory, hard=True)

    assert daemon.call("end_session", session="s") == {"turns": 0, "memory": None}


# -- clearing


def test_clearing_removes_the_turns_and_leaves_the_memory(daemon: Daemon) -> None:
    say(daemon, "hello", "hi")
    say(daemon, "elsewhere", session="t")
    memory = daemon.call("end_session", session="s")["memory"]

    assert daemon.call("clear_session", session="s") == {"turns": 2}

    assert kept(daemon) == []
    assert len(kept(daemon, "t")) == 1
    assert daemon.call("get", id=memory)["content"] == "user: hello\nassistant: hi"
    refused(daemon, "not_found", "end_session", session="s")


# -- session states


def test_a_state_is_read_under_its_head(daemon: Daemon) -> None:
    assert daemon.call("write_session_state", text="half way") == {
        "archived": False, "scope": "default", "written_at": "2026-01-01T00:00:00Z", "session": "", "interval_s": None,
    }  # fmt: skip
    say(daemon, "hello", session="morning")
    daemon.clock.advance(7_140)
    written = daemon.call("write_session_state", text="done\nbut for the tests")

    assert written["archived"] is True
    assert daemon.call("read_session_state") == {
        "text": "Written 2026-01-01T02:00:00Z in session morning, 2 h after the one before.\n\ndone\nbut for the tests",
        "scope": "default", "written_at": "2026-01-01T02:00:00Z", "session": "morning", "interval_s": 7200.0,
        "archive": [{
            "text": "Written 2026-01-01T00:00:00Z.\n\nhalf way", "scope": "default", "written_at": "2026-01-01T00:00:00Z",
            "session": "", "interval_s": None,
        }],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "5 s after"), (90, "2 min after"), (7_200, "2 h after"), (200_000, "2 d after")]
)
def test_the_head_says_how_long_it_was_since_the_state_before(daemon: Daemon, seconds: int, words: str) -> None:
    daemon.call("write_session_state", text="one")
    daemon.clock.advance(seconds)
    daemon.call("write_session_state", text="two")

    assert words in daemon.call("read_session_state")["text"].splitlines()[0]


def test_the_archive_ends_at_the_newest_twenty(daemon: Daemon) -> None:
    for number in range(25):
        daemon.call("write_session_state", text=f"state {number}")
        daemon.clock.advance(1)

    read = daemon.call("read_session_state")

    assert read["text"].endswith("state 24")
    assert len(read["archive"]) == 20
    times = [one["written_at"] for one in read["archive"]]
    assert times == sorted(times, reverse=True)
    assert times[0] == "2026-01-01T00:00:23Z"


def test_a_coarse_scope_reads_the_newest_state_below_it(daemon: Daemon) -> None:
    daemon.call("write_session_state", text="older", scope="a/x")
    daemon.clock.advance(1)
    daemon.call("write_session_state", text="newer", scope="a/y")

    assert daemon.call("read_session_state", scope="a")["scope"] == "a/y"
    assert daemon.call("read_session_state", scope="*")["scope"] == "a/y"
    assert daemon.call("read_session_state", scope="a/x")["text"].endswith("older")
    refused(daemon, "not_found", "read_session_state", scope="b")
    refused(daemon, "invalid", "write_session_state", text="x", scope="*")


def test_the_archive_is_that_of_the_scope_whose_state_is_read_and_holds_what_the_clearance_covers(
    daemon: Daemon,
) -> None:
    for text, scope in (("one", "a"), ("elsewhere", "a/x"), (f"the key is {KEY}", "a"), ("three", "a")):
        daemon.call("write_session_state", text=text, scope=scope)
        daemon.clock.advance(60)

    low = daemon.call("read_session_state", scope="a", clearance="personal")
    high = daemon.call("read_session_state", scope="a")

    assert low["text"].endswith("three")
    assert [one["text"].partition("\n\n")[2] for one in low["archive"]] == ["one"]
    assert [one["text"].partition("\n\n")[2][:11] for one in high["archive"]] == ["the key is ", "one"]


def test_whether_there_was_a_state_before_does_not_depend_on_finer_scopes(daemon: Daemon) -> None:
    archived = []
    for scope in ("a", "a/x", "a"):
        archived.append(daemon.call("write_session_state", text="here", scope=scope)["archived"])
        daemon.clock.advance(60)

    assert archived == [False, False, True]


def test_a_writer_is_not_told_of_what_its_clearance_does_not_cover(daemon: Daemon) -> None:
    say(daemon, f"my key is {KEY}", session="hidden")
    daemon.call("write_session_state", text="before")
    daemon.clock.advance(60)

    written = daemon.call("write_session_state", text="after", clearance="public")

    assert (written["archived"], written["session"], written["interval_s"]) == (False, "", None)
    assert "hidden" not in str(daemon.call("read_session_state"))


def test_an_undo_puts_the_states_of_a_scope_behind_what_was_written_since(daemon: Daemon) -> None:
    for number in range(3):
        daemon.call("write_session_state", text=f"old {number}", scope="a")
        daemon.clock.advance(60)
    run = daemon.call("forget_scope", scope="a", confirm="a")["run_id"]
    daemon.call("write_session_state", text="new", scope="a")

    undone = daemon.call("undo", run_id=run)

    read = daemon.call("read_session_state", scope="a")
    assert undone["left"] == []
    assert read["text"].endswith("new")
    assert [one["text"][-5:] for one in read["archive"]] == ["old 2", "old 1", "old 0"]


def test_a_state_passes_the_gate_and_is_hidden_from_who_may_not_see_it(daemon: Daemon) -> None:
    daemon.call("write_session_state", text="for all of us")
    daemon.clock.advance(1)
    written = daemon.call("write_session_state", text=f"the key is {KEY}")

    assert sum(written["redactions"].values()) == 1
    assert KEY not in daemon.call("read_session_state")["text"]
    assert "for all of us" in daemon.call("read_session_state", clearance="personal")["text"]
    refused(daemon, "not_found", "read_session_state", clearance="public")


@pytest.mark.parametrize(
    ("text", "kind"), [(" ", "invalid"), ("a\0", "invalid"), ("x" * (MAX_CONTENT_BYTES + 1), "too_large")]
)
def test_a_state_that_is_wrong_is_refused_by_its_own_name(shared: Daemon, text: str, kind: str) -> None:
    error = refused(shared, kind, "write_session_state", text=text, scope="wrong")

    assert error.extra["field"] == "text"
    assert error.detail.startswith("text ")
    refused(shared, "not_found", "read_session_state", scope="wrong")


def test_d20_reading_and_writing_talk_is_no_access(daemon: Daemon) -> None:
    memory = daemon.remember("green tea")
    say(daemon, "green tea", "again green tea")
    daemon.call("write_session_state", text="green tea")
    daemon.call("read_session_state")
    daemon.call("end_session", session="s")
    daemon.call("clear_session", session="s")
    daemon.call("run_job", name="hebbian")

    one = daemon.call("get", id=memory)
    assert (one["access_count"], one["accessed_at"]) == (0, None)


# -- secrets


def test_c8_a_secret_in_turns_and_states_is_in_no_file(daemon: Daemon, folder: Path) -> None:
    daemon.call(
        "add_turn", session=f"session {KEY}"[:120], content=f"the key is {KEY}", metadata={"deep": [{"key": KEY}]}
    )
    daemon.call("add_turn", session="s", content=f"the card is {CARD}", role="tool", metadata={"card": CARD})
    daemon.call("end_session", session="s")
    for _ in range(2):
        daemon.call("write_session_state", text=f"the key is {KEY}")
    daemon.stop()

    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if KEY.encode() in path.read_bytes() or CARD.encode() in path.read_bytes()] == []
