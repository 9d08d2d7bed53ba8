"""`wakeup` over the wire: what an agent reads first, within its budget, and that it teaches nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.methods.wakeup import WakeupParams, wakeup
from storage.model import DAY
from storage.tokens import WIDEST
from tests.daemon.methods.asking import refused
from tests.daemon.methods.test_talk import KEY, say
from tests.harness import Daemon
from tests.storage.test_tokens import Watched

KEYS = {
    "pinned", "active", "recent", "high_emotion", "random_old", "unread_comments", "session_state", "timeline", "last_session",
    "tokens", "left_out",
}  # fmt: skip
MEMORIES = ("pinned", "active", "recent", "high_emotion", "random_old")
LINE = "one two three four five six seven eight nine ten"  # ten tokens


def ids(result: dict[str, Any], section: str) -> list[str]:
    return [memory["id"] for memory in result[section]]


def all_texts(result: dict[str, Any]) -> list[str]:
    """Every text that the budget is about: what is said of a thing at any length counts with its own words."""
    state = [result["session_state"]["text"]] if result["session_state"] else []
    comments = [f"{one['author']}, on {one['about']}\n{one['content']}" for one in result["unread_comments"]]
    memories = [
        (f"{memory['author']}: " if memory["author"] else "") + memory["content"] + "".join(f" #{tag}" for tag in memory["tags"])
        for section in MEMORIES for memory in result[section]
    ]  # fmt: skip
    return [*memories, *state, *comments, *result["timeline"], *(turn["content"] for turn in result["last_session"])]


def fill(daemon: Daemon) -> None:
    """Something in every section."""
    for number in range(6):
        daemon.remember(f"old {number} {LINE}", id=f"old{number}")
    daemon.clock.advance(4 * DAY)
    daemon.remember(f"rule {LINE}", id="rule", pinned=True, author="Ada", tags=["work", "tea"], metadata={"n": 1})
    for number in range(8):
        daemon.remember(f"felt {number} {LINE}", id=f"felt{number}", emotion=number / 10)
        daemon.clock.advance(60)
    for number in range(5):
        daemon.remember(f"new {number} {LINE}", id=f"new{number}")
        daemon.clock.advance(60)
    daemon.remember(f"task {LINE}", id="task", type="active")
    daemon.call("comment", id="rule", content=f"why? {LINE}", author="bob")
    say(daemon, f"hello {LINE}", f"hi {LINE}", session="morning")
    daemon.call("end_session", session="morning")
    say(daemon, "later", "much later", session="noon")
    daemon.call("write_session_state", text=f"half way {LINE}")


@pytest.fixture(scope="module")
def full(shared: Daemon) -> Daemon:
    fill(shared)
    return shared


def test_an_empty_store_has_nothing_to_tell(daemon: Daemon) -> None:
    result = daemon.call("wakeup")

    assert result.keys() == KEYS
    assert (result["session_state"], result["tokens"], result["left_out"]) == (None, 0, {})
    assert [name for name in KEYS - {"session_state", "tokens", "left_out"} if result[name]] == []


def test_every_section_has_what_belongs_there(full: Daemon) -> None:
    result = full.call("wakeup")

    assert result.keys() == KEYS
    assert ids(result, "pinned") == ["rule"]
    assert ids(result, "active") == ["task"]
    assert ids(result, "recent")[1:] == ["new4", "new3", "new2", "new1"]
    assert result["recent"][0]["subtype"] == "conversation"
    assert ids(result, "high_emotion")[:2] == ["felt7", "felt6"]
    assert len(result["high_emotion"]) == 5
    assert set(ids(result, "random_old")) < {f"old{number}" for number in range(6)}
    assert len(result["random_old"]) == 2
    comment = result["unread_comments"][0]
    assert (comment["memory"], comment["author"], comment["content"]) == ("rule", "bob", f"why? {LINE}")
    assert comment["about"] == f"rule {LINE}"
    assert result["session_state"]["text"].endswith(f"half way {LINE}")
    assert result["session_state"]["session"] == "noon"
    assert result["timeline"] == [f"2026-01-05T00:15:00Z session morning ended after 2 turns: user: hello {LINE}"]
    assert [(turn["session"], turn["role"], turn["content"]) for turn in result["last_session"]] == [
        ("noon", "user", "later"), ("noon", "assistant", "much later"),
    ]  # fmt: skip
    assert result["left_out"] == {}


def test_tokens_are_what_the_texts_take(full: Daemon) -> None:
    result = full.call("wakeup")

    assert result["tokens"] == sum(map(full.parts.tokens.count, all_texts(result)))


def test_no_memory_is_in_two_sections_and_none_has_its_context(full: Daemon) -> None:
    result = full.call("wakeup")

    every = [memory for section in MEMORIES for memory in result[section]]
    assert len({memory["id"] for memory in every}) == len(every)
    assert all("context" not in memory for memory in every)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 500), st.sampled_from(["public", "personal", "secret"]))
def test_no_answer_takes_more_than_its_budget_and_what_it_lacks_is_counted(
    full: Daemon, budget: int, clearance: str
) -> None:
    whole = full.call("wakeup", max_tokens=100_000, clearance=clearance)
    result = full.call("wakeup", max_tokens=budget, clearance=clearance)

    assert sum(map(full.parts.tokens.count, all_texts(result))) == result["tokens"] <= budget
    assert all(text.strip() for text in all_texts(result))
    for section in KEYS - {"session_state", "tokens", "left_out"}:
        assert len(result[section]) + result["left_out"].get(section, 0) == len(whole[section]), section
    state = (result["session_state"] is not None) + result["left_out"].get("session_state", 0)
    assert state == (whole["session_state"] is not None)


def test_sections_are_dropped_in_their_order_item_by_item_and_pinned_last(full: Daemon) -> None:
    order = [
        "random_old", "recent", "last_session", "timeline", "high_emotion", "unread_comments", "session_state", "active",
        "pinned",
    ]  # fmt: skip
    for budget in range(1, full.call("wakeup")["tokens"] + 1):
        result = full.call("wakeup", max_tokens=budget)
        kept = [bool(result[section]) for section in order]
        assert kept == sorted(kept), budget
        lacking = [section for section in order if section in result["left_out"]]
        assert lacking == order[: len(lacking)], budget


def test_what_is_beside_a_text_is_bounded_or_counts_with_it(daemon: Daemon) -> None:
    """A budget that is kept by the texts alone is none: 120 KB of metadata came with three tokens."""
    long = {"metadata": {"note": "x" * 120_000}, "tags": [f"{number} {'tag ' * 25}" for number in range(60)]}
    daemon.remember("one", pinned=True, author="Ada " * 60, **long)
    daemon.remember("two", author="Bob")
    said = daemon.call("remember", content="three", **long)["id"]

    result = daemon.call("wakeup")

    memories = [memory for section in MEMORIES for memory in result[section]]
    beside = {"metadata", "entities", "source_turns", "change_summary", "forgotten_reason", "context"}
    assert all(beside.isdisjoint(memory) for memory in memories)
    assert [(memory["content"], len(memory["tags"])) for memory in memories] == [("one", 0), ("three", 0), ("two", 0)]
    assert [memory.get("truncated", False) for memory in memories] == [True, True, False]
    assert result["tokens"] == sum(map(daemon.parts.tokens.count, all_texts(result)))
    assert daemon.call("get", id=said)["metadata"] == long["metadata"]


def test_an_author_and_tags_that_fit_are_there_and_count(daemon: Daemon) -> None:
    daemon.remember("green", author="Ada", tags=["work", "tea"])

    result = daemon.call("wakeup")

    assert result["recent"][0]["tags"] == ["work", "tea"]
    assert "truncated" not in result["recent"][0]
    assert result["tokens"] == daemon.parts.tokens.count("Ada: green #work #tea")


@pytest.mark.parametrize("budget", [4, 12, 30])
def test_what_nothing_is_left_of_is_left_out_with_all_that_would_go_before_it(daemon: Daemon, budget: int) -> None:
    daemon.remember("👩‍👩‍👧" * 20, pinned=True)  # one sign has fifteen tokens
    daemon.remember("a")

    result = daemon.call("wakeup", max_tokens=budget)

    assert (all_texts(result), result["tokens"], result["left_out"]) == ([], 0, {"pinned": 1, "recent": 1})


def test_of_a_long_memory_only_as_much_is_counted_as_says_that_it_is_long(daemon: Daemon) -> None:
    counter = Watched()
    daemon.remember("tea " * 60_000, type="episodic")

    result = daemon.run(wakeup(replace(daemon.parts, tokens=counter), WakeupParams(max_tokens=300)))

    assert result["recent"][0]["truncated"] is True
    assert counter.longest <= WIDEST * 301


def test_of_the_timeline_and_the_last_session_the_latest_stay(daemon: Daemon) -> None:
    for number in range(25):
        daemon.remember(f"episode {number:02} {LINE}", type="episodic")
        daemon.clock.advance(60)
    say(daemon, *[f"turn {number:02} {LINE}" for number in range(15)])

    whole = daemon.call("wakeup", max_tokens=100_000)
    assert [line.split()[2] for line in whole["timeline"]] == [f"{number:02}" for number in range(5, 25)]
    assert [turn["content"][5:7] for turn in whole["last_session"]] == [f"{number:02}" for number in range(5, 15)]
    assert whole["left_out"] == {}

    less = daemon.call("wakeup", max_tokens=whole["tokens"] - 5 * 20 - 60)
    assert less["left_out"]["last_session"] > 0
    assert [turn["content"] for turn in less["last_session"]] == [
        turn["content"] for turn in whole["last_session"][less["left_out"]["last_session"] :]
    ]


def test_a_timeline_line_is_short_whatever_the_episode_says(daemon: Daemon) -> None:
    daemon.remember("x" * 500 + "\nand more", type="episodic", event_at="2025-12-24T18:00:00Z")

    assert daemon.call("wakeup")["timeline"] == ["2025-12-24T18:00:00Z " + "x" * 80 + "…"]


def test_the_state_is_cut_where_it_does_not_fit(daemon: Daemon) -> None:
    daemon.remember(LINE, pinned=True)
    daemon.call("write_session_state", text=" ".join([LINE] * 30))

    result = daemon.call("wakeup", max_tokens=100)

    assert result["session_state"]["truncated"] is True
    assert result["session_state"]["text"].startswith("Written 2026-01-01T00:00:00Z.")
    assert len(result["pinned"]) == 1
    assert result["tokens"] <= 100
    assert daemon.call("read_session_state")["text"].endswith(" ".join([LINE] * 30))


def test_one_long_memory_does_not_push_out_all_others(daemon: Daemon) -> None:
    """A session's end is a memory too, and often the longest."""
    daemon.remember("short", id="short")
    daemon.clock.advance(1)
    daemon.remember(" ".join([LINE] * 2000), id="long", type="episodic")

    result = daemon.call("wakeup")

    assert ids(result, "recent") == ["long", "short"]
    assert result["recent"][0]["truncated"] is True
    assert 700 < result["tokens"] < 850
    assert daemon.call("get", id="long")["content"] == " ".join([LINE] * 2000)


def test_a_thousand_pinned_memories_are_read_only_as_far_as_there_is_room(daemon: Daemon) -> None:
    text = " ".join([LINE] * 20)  # 1 KiB
    for start in range(0, 1000, 250):
        batch = [{"content": f"{number} {text}", "pinned": True} for number in range(start, start + 250)]
        assert daemon.call("remember_many", items=batch)["failed"] == 0

    result = daemon.call("wakeup")

    assert 2700 < result["tokens"] <= 3000
    assert [memory["content"].split()[0] for memory in result["pinned"]] == [str(number) for number in range(14)]
    assert result["left_out"] == {"pinned": 986}


# -- what it shows and what it teaches


def test_what_the_clearance_the_scope_or_the_end_hides_is_not_there(daemon: Daemon) -> None:
    hidden = f"hidden {LINE}"
    for number, fields in enumerate((
        {"sensitivity": "secret"}, {"scope": "other"}, {"expires_at": "2026-01-01T00:00:01Z"},
    )):  # fmt: skip
        for kind in ({"pinned": True}, {"type": "active"}, {"type": "episodic"}, {"emotion": 1.0}):
            daemon.remember(f"{hidden} {number} {kind}", **fields, **kind)
    gone = daemon.remember(f"{hidden} gone")
    daemon.call("comment", id=gone, content=hidden, author="bob")
    daemon.call("forget", id=gone)
    daemon.call("add_turn", session="hidden", content=f"{hidden} {KEY}")
    daemon.call("write_session_state", text=f"{hidden} {KEY}")
    daemon.call("write_session_state", text=hidden, scope="other")
    daemon.call("add_turn", session="hidden", content=hidden, scope="other")
    daemon.clock.advance(2)
    daemon.remember("shown", scope="default/below")

    result = daemon.call("wakeup", clearance="personal", max_tokens=10_000)

    assert "hidden" not in str(result)
    assert [memory["content"] for memory in result["recent"]] == ["shown"]
    assert result["left_out"] == {}


def test_d20_it_teaches_nothing(daemon: Daemon) -> None:
    fill(daemon)
    before = daemon.call("list", limit=500)["memories"]
    comments = daemon.call("comments")

    for _ in range(5):
        daemon.call("wakeup")
    daemon.call("run_job", name="hebbian")

    assert daemon.call("list", limit=500)["memories"] == before
    assert daemon.call("comments") == comments
    assert len(daemon.parts.learn) == 0


def test_the_old_are_drawn_anew_as_time_goes_by(full: Daemon) -> None:
    draws = set()
    for _ in range(12):
        full.clock.advance(1)
        draws.add(tuple(ids(full.call("wakeup"), "random_old")))

    assert len(draws) > 3


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_that_is_none_is_invalid(shared: Daemon, budget: int) -> None:
    assert refused(shared, "invalid", "wakeup", max_tokens=budget).extra["field"] == "max_tokens"
