"""`context` over the wire: facts first, then the turns that fit, scored by their age."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import Invalid
from tests.daemon.methods.asking import WatchedEmbedder, refused
from tests.daemon.methods.test_talk import KEY, say, told
from tests.harness import BY_HAND, Daemon
from tests.storage.test_tokens import words_only

LINE = "one two three four five six seven eight nine ten"  # ten tokens


def items(daemon: Daemon, session: str = "s", **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.call("context", session=session, **params)["items"]
    return found


def texts(daemon: Daemon, session: str = "s", **params: Any) -> list[str]:
    return [item["content"] for item in items(daemon, session, **params)]


@pytest.fixture(scope="module")
def spoken(shared: Daemon) -> Daemon:
    """A daemon with six turns of ten tokens in session `six`, and what `context` may recall."""
    for number, role in enumerate(("system", "user", "assistant", "user", "tool", "user")):
        shared.call(
            "add_turn", session="six", content=LINE, role=role, importance=(0.9, 0.2, 0.5, 0.2, 0.5, 0.5)[number]
        )
        shared.clock.advance(60)
    shared.remember("Ada drinks green tea in the morning", id="tea")
    shared.remember("the harbour opens at dawn", id="harbour")
    return shared


def test_the_turns_of_a_session_come_in_order_with_rising_scores(spoken: Daemon) -> None:
    answer = spoken.call("context", session="six")

    assert {name: answer[name] for name in answer if name != "items"} == {
        "strategy": "window", "tokens": 60, "max_tokens": 4096, "summary": "", "summary_tokens": 0, "evicted": 0,
    }  # fmt: skip
    assert [item["role"] for item in answer["items"]] == ["system", "user", "assistant", "user", "tool", "user"]
    assert [item["score"] for item in answer["items"]] == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert all(
        (item["kind"], item["priority"], item["content"], item["tokens"], item["truncated"])
        == ("turn", 7, LINE, 10, False)
        for item in answer["items"]
    )
    assert answer["items"][0].keys() == {
        "kind", "id", "role", "priority", "score", "content", "tokens", "truncated",
    }  # fmt: skip


def test_facts_for_the_query_come_before_the_turns(spoken: Daemon) -> None:
    found = items(spoken, "six", query="what does Ada drink?", facts=1)

    assert [item["kind"] for item in found] == ["fact", *["turn"] * 6]
    assert (found[0]["id"], found[0]["priority"]) == ("tea", 8)
    assert "role" not in found[0]
    hit = spoken.call("recall", query="what does Ada drink?", k=1, learn=False)["hits"][0]
    assert found[0]["score"] == hit["score"]


@pytest.mark.parametrize("params", [{"query": None}, {"query": " "}, {"query": "tea", "facts": 0}, {}])
def test_without_a_query_there_are_no_facts(spoken: Daemon, params: dict[str, Any]) -> None:
    assert [item["kind"] for item in items(spoken, "six", **params)] == ["turn"] * 6


def test_a_session_in_which_nothing_was_said_has_facts_alone(spoken: Daemon) -> None:
    assert texts(spoken, "new", query="the harbour", facts=1) == ["the harbour opens at dawn"]
    assert texts(spoken, "new") == []


@pytest.mark.parametrize(
    ("params", "roles"),
    [
        ({"eviction": "fifo"}, ["user", "tool", "user"]),
        ({"eviction": "importance"}, ["system", "tool", "user"]),
        ({"eviction": "paired"}, ["user", "tool", "user"]),
        ({"eviction": "paired", "max_tokens": 50}, ["user", "assistant", "user", "tool", "user"]),
        ({"eviction": "paired", "max_tokens": 49}, ["user", "tool", "user"]),
    ],
)
def test_turns_leave_in_the_order_that_is_asked_for(spoken: Daemon, params: dict[str, Any], roles: list[str]) -> None:
    answer = spoken.call("context", session="six", **{"max_tokens": 35, **params})

    assert [item["role"] for item in answer["items"]] == roles
    assert answer["evicted"] == 6 - len(roles)
    assert answer["items"][0]["score"] == 0.5
    assert answer["items"][-1]["score"] == 1.0


def test_exponential_scores_begin_at_nothing(spoken: Daemon) -> None:
    scores = [item["score"] for item in items(spoken, "six", recency="exponential", max_tokens=50)]

    assert scores == [0.0, 0.1015, 0.2689, 0.5449, 1.0]
    steep = [item["score"] for item in items(spoken, "six", recency="exponential", decay_rate=9.0, max_tokens=50)]
    assert steep[2] == 0.011


def test_the_least_score_may_be_chosen(spoken: Daemon) -> None:
    assert [item["score"] for item in items(spoken, "six", min_score=0.0, max_tokens=30)] == [0.0, 0.5, 1.0]
    assert [item["score"] for item in items(spoken, "six", max_tokens=10)] == [1.0]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"min_score": 1.0}, "min_score"),
        ({"min_score": -0.1}, "min_score"),
        ({"decay_rate": 0.0}, "decay_rate"),
        ({"decay_rate": -2.0}, "decay_rate"),
        ({"facts": -1}, "facts"),
        ({"eviction": "lifo"}, "eviction"),
        ({"recency": "cubic"}, "recency"),
        ({"strategy": "magic"}, "strategy"),
        ({"session": " "}, "session"),
        ({"scope": "a//b"}, "scope"),
    ],
)
def test_numbers_and_words_that_make_no_window_are_invalid(spoken: Daemon, params: dict[str, Any], field: str) -> None:
    error = refused(spoken, "invalid", "context", **{"session": "six", **params})

    assert isinstance(error, Invalid)
    assert error.extra["field"] == field


@pytest.mark.parametrize("strategy", ["summary", "progressive"])
def test_what_needs_a_model_says_so(spoken: Daemon, strategy: str) -> None:
    error = refused(spoken, "unavailable", "context", session="six", strategy=strategy)

    assert strategy in error.detail
    assert "window" in error.hint
    assert "[llm]" in error.hint


def test_a_lone_turn_over_the_budget_is_cut_in_the_answer_and_stays_whole_in_the_store(daemon: Daemon) -> None:
    say(daemon, "short", " ".join([LINE] * 10))

    found = items(daemon, max_tokens=25)

    assert [(item["content"], item["tokens"], item["truncated"], item["score"]) for item in found] == [
        (" ".join([LINE] * 2) + " one two three four five", 25, True, 1.0)
    ]
    assert texts(daemon)[1] == " ".join([LINE] * 10)


FAMILY = "👩‍👩‍👧"  # one sign of fifteen tokens


@pytest.mark.parametrize("text", [FAMILY, f" {FAMILY}", f"{FAMILY} and more, {LINE}"])
def test_a_turn_of_which_nothing_to_be_seen_fits_is_evicted(daemon: Daemon, text: str) -> None:
    turns = say(daemon, LINE, text)

    answer = daemon.call("context", session="s", max_tokens=9)

    assert (answer["items"], answer["tokens"], answer["evicted"]) == ([], 0, 2)
    assert told(daemon)[-1] == ("evicted", tuple(turns))


def test_of_a_pair_neither_stays_where_nothing_of_the_other_fits(daemon: Daemon) -> None:
    say(daemon, FAMILY * 3, " ".join([LINE] * 10))

    answer = daemon.call("context", session="s", eviction="paired", max_tokens=22)

    assert (answer["items"], answer["evicted"]) == ([], 2)


def test_a_pair_that_is_too_long_is_cut_on_both_sides(daemon: Daemon) -> None:
    say(daemon, "what?", " ".join([LINE] * 10))

    found = items(daemon, eviction="paired", max_tokens=22)

    assert [(item["content"], item["truncated"]) for item in found] == [("what?", False), (f"{LINE} " + LINE, True)]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budget=st.integers(1, 120),
    eviction=st.sampled_from(["fifo", "importance", "paired"]),
    query=st.sampled_from([None, "what does Ada drink?", "the harbour"]),
    clearance=st.sampled_from(["public", "personal", "secret"]),
)
def test_no_answer_takes_more_than_its_budget(
    spoken: Daemon, budget: int, eviction: str, query: str | None, clearance: str
) -> None:
    params = {"max_tokens": budget, "eviction": eviction, "query": query, "clearance": clearance}
    answer = spoken.call("context", session="six", **params)

    assert answer["tokens"] == sum(item["tokens"] for item in answer["items"]) <= budget
    assert all(item["content"].strip() for item in answer["items"])
    counter = spoken.parts.tokens
    assert [counter.count(item["content"]) for item in answer["items"]] == [item["tokens"] for item in answer["items"]]
    turns = [item for item in answer["items"] if item["kind"] == "turn"]
    assert len(turns) + answer["evicted"] == (0 if clearance == "public" else 6)


def test_facts_that_are_too_long_together_leave_the_worst_first(daemon: Daemon) -> None:
    daemon.remember(f"tea: {LINE}", id="near")
    daemon.remember(f"tea and much besides, {LINE}", id="far")
    say(daemon, "hello")

    found = items(daemon, query="tea", max_tokens=25)

    assert [(item["kind"], item["content"]) for item in found] == [("fact", f"tea: {LINE}"), ("turn", "hello")]


def test_a_fact_that_no_budget_holds_leaves_the_room_to_others(daemon: Daemon) -> None:
    daemon.remember("tea " * 200, id="long")
    daemon.remember("about tea", id="short")
    say(daemon, "hello")

    assert {item["content"] for item in items(daemon, query="tea", max_tokens=30)} == {"about tea", "hello"}


# -- live context


def test_live_context_is_there_without_being_asked_for(daemon: Daemon) -> None:
    daemon.remember("older task", id="older", type="active")
    daemon.clock.advance(1)
    daemon.remember("newer task", id="newer", type="active", scope="default/below")
    daemon.remember("another's task", type="active", scope="other")
    daemon.remember("an old task", type="active", expires_at="2026-01-01T00:00:02Z")
    daemon.clock.advance(5)
    say(daemon, "hello")

    found = items(daemon, query="task", facts=2)

    assert [(item["kind"], item["content"], item["priority"]) for item in found] == [
        ("active", "newer task", 8), ("active", "older task", 8), ("turn", "hello", 7),
    ]  # fmt: skip


def test_much_live_context_is_read_only_as_far_as_there_is_room(daemon: Daemon) -> None:
    for start in range(0, 300, 100):
        batch = [{"content": f"task {number}: {LINE}", "type": "active"} for number in range(start, start + 100)]
        assert daemon.call("remember_many", items=batch)["failed"] == 0
    say(daemon, "hello")

    found = items(daemon, max_tokens=100)

    assert [item["content"][:8] for item in found[:-1]] == [
        "task 299",
        "task 298",
        "task 297",
        "task 296",
        "task 295",
        "task 294",
    ]
    assert found[-1]["content"] == "hello"
    assert sum(item["tokens"] for item in found) <= 100


# -- scope and clearance


def test_a_session_is_looked_for_in_its_scope_and_then_below_it(daemon: Daemon) -> None:
    say(daemon, "below", scope="a/b")
    assert texts(daemon, scope="a") == texts(daemon, scope="*") == texts(daemon, scope="a/b") == ["below"]
    say(daemon, "beside", scope="a/c")

    error = refused(daemon, "conflict", "context", session="s", scope="a")
    assert sorted(error.extra["scopes"]) == ["a/b", "a/c"]
    assert texts(daemon, scope="a/c") == ["beside"]
    say(daemon, "here", scope="a")
    assert texts(daemon, scope="a") == ["here"]


def test_turns_above_the_clearance_are_neither_shown_nor_counted(daemon: Daemon) -> None:
    say(daemon, LINE, f"{KEY} {LINE}", LINE)

    answer = daemon.call("context", session="s", clearance="personal", max_tokens=15)

    assert [item["content"] for item in answer["items"]] == [LINE]
    assert answer["evicted"] == 1
    assert texts(daemon, clearance="public") == []


def test_a_session_that_may_not_be_seen_makes_no_conflict(daemon: Daemon) -> None:
    say(daemon, "shown", scope="a/b")
    say(daemon, f"hidden {KEY}", scope="a/c")

    assert texts(daemon, scope="a", clearance="personal") == ["shown"]


# -- what it teaches


def test_recalled_facts_are_an_access_and_grow_together(daemon: Daemon) -> None:
    daemon.remember("green tea in the morning", id="a")
    daemon.remember("green tea at night", id="b")
    daemon.remember("the printer is jammed", id="c")
    items(daemon, query="green tea")
    daemon.call("run_job", name="hebbian")

    counts = {name: daemon.call("get", id=name)["access_count"] for name in "abc"}
    assert counts == {"a": 1, "b": 1, "c": 0}
    assert [one["id"] for one in daemon.call("neighbors", id="a")["neighbors"]] == ["b"]


def test_a9_what_is_not_in_the_answer_and_live_context_are_no_access(daemon: Daemon) -> None:
    daemon.remember("green tea", id="short")
    daemon.remember(f"green tea {LINE * 9}", id="long")
    daemon.remember("the printer", id="live", type="active")
    items(daemon, query="green tea", max_tokens=20)
    daemon.call("run_job", name="hebbian")

    assert {name: daemon.call("get", id=name)["access_count"] for name in ("short", "long", "live")} == {
        "short": 1, "long": 0, "live": 0,
    }  # fmt: skip


def test_the_turns_that_left_are_told(daemon: Daemon) -> None:
    turns = say(daemon, LINE, LINE, LINE, scope="a/b")
    items(daemon, scope="a", max_tokens=10)

    assert told(daemon)[-1] == ("evicted", tuple(turns[:2]))
    assert daemon.parts.events._ring[-1].scope == "a/b"
    assert daemon.parts.events._ring[-1].counts == {"turns": 2}


def test_nothing_is_told_where_all_stay(daemon: Daemon) -> None:
    say(daemon, LINE)
    before = told(daemon)

    items(daemon)

    assert told(daemon) == before


def test_while_the_embedder_is_away_facts_are_found_by_keyword(watched: Daemon, embedder: WatchedEmbedder) -> None:
    watched.remember("the harbour opens at dawn")
    embedder.broken = True

    answer = watched.call("context", session="s", query="harbour")

    assert answer["degraded"] == "keyword-only"
    assert [item["content"] for item in answer["items"]] == ["the harbour opens at dawn"]


# -- tokens


def test_another_tokenizer_counts_anew_what_was_said_before(daemons: Callable[..., Daemon], folder: Path) -> None:
    first = daemons(options=BY_HAND).start()
    say(first, "tea, tea, tea", "yes.")
    assert [item["tokens"] for item in items(first)] == [5, 2]
    first.stop()
    file = folder / "tokenizer.json"
    file.write_text(words_only())

    second = daemons(options={**BY_HAND, "DREAMD_CONTEXT__TOKENIZER": str(file)}, clock=first.clock).start()
    say(second, "and now?")

    assert [item["tokens"] for item in items(second)] == [5, 2, 3]
    assert texts(second, max_tokens=5) == ["yes.", "and now?"]


@pytest.mark.parametrize("text", [None, "no json"])
def test_a_daemon_with_a_bad_tokenizer_does_not_start(
    daemons: Callable[..., Daemon], folder: Path, text: str | None
) -> None:
    file = folder / "tokenizer.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(Invalid) as caught:
        daemons(options={"DREAMD_CONTEXT__TOKENIZER": str(file)}).start()

    assert caught.value.extra["field"] == "context.tokenizer"
    assert str(file) in caught.value.detail
    assert caught.value.hint
    assert not (folder / "state").exists()
