"""Merging over the wire: one memory of two, told as a run, to be taken back."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from daemon.rpc import Caller
from daemon.shapes import MemoryShape
from tests.daemon.methods.asking import ask, at_once, refused
from tests.harness import BY_HAND, Daemon


@pytest.fixture
def twins(daemons) -> Daemon:
    """A long-kept memory and its newer twin, each with an edge, a comment and an edit. Nothing happens by itself."""
    daemon = daemons(options=BY_HAND).start()
    daemon.remember("Ada takes sugar", id="sugar")
    daemon.remember("Ada likes tea", id="old", tier="long", context="said at breakfast", tags=["tea"])
    daemon.remember("Ada is fond of tea", id="new", pinned=True, tags=["drink"], metadata={"cups": 3})
    daemon.call("update", id="new", content="Ada is very fond of tea")
    for memory in ("old", "new"):
        daemon.call("connect", a="sugar", b=memory, weight=3.0)
        daemon.call("comment", id=memory, content=f"about {memory}", author="Ben")
    daemon.clock.advance(60)
    return daemon


def state(daemon: Daemon) -> dict[str, Any]:
    """All that a merge may change, as the wire tells it, but for the version, which any edit makes rise."""
    ids = ("sugar", "old", "new")
    return {
        memory: [
            {**daemon.call("get", id=memory), "version": 0},
            daemon.call("history", id=memory),
            sorted(daemon.call("neighbors", id=memory)["neighbors"], key=lambda one: one["id"]),
            [one["content"] for one in daemon.call("comments", id=memory)["comments"]],
        ]
        for memory in ids
    }


def test_a_merge_answers_with_the_survivor_and_the_run(twins: Daemon) -> None:
    before = twins.call("get", id="old")

    answer = twins.call("merge", survivor="old", duplicate="new")

    assert answer.keys() == {*before, "run_id"} - {"context", "retention"}
    changed = {name for name in before.keys() & answer.keys() if answer[name] != before[name]}
    assert changed == {"tags", "metadata", "pinned", "version", "change_summary", "updated_at", "entities"} & changed
    assert (answer["content"], answer["tier"], answer["pinned"]) == ("Ada likes tea", "long", True)
    assert (answer["tags"], answer["metadata"]) == (["tea", "drink"], {"cups": 3})
    assert answer["change_summary"] == "merged with new"
    assert twins.call("get", id="old")["context"] == "said at breakfast"


def test_the_duplicate_lies_in_the_bin_under_its_survivor_and_what_hung_on_it_moved(twins: Daemon) -> None:
    twins.call("merge", survivor="old", duplicate="new")

    gone = twins.call("get", id="new")
    assert (gone["state"], gone["superseded_by"]) == ("superseded", "old")
    around = {one["id"]: one["weight"] for one in twins.call("neighbors", id="old")["neighbors"]}
    assert around == {"sugar": pytest.approx(6.0, abs=0.001)}
    assert [one["content"] for one in twins.call("comments", id="old")["comments"]] == ["about old", "about new"]
    assert [one["content"] for one in twins.call("history", id="old")["versions"]] == [
        "Ada likes tea", "Ada is fond of tea"
    ]  # fmt: skip
    assert "new" not in {hit["id"] for hit in twins.call("recall", query="fond of tea", learn=False)["hits"]}


def test_a_merge_is_a_run_that_undo_takes_back_whole_and_makes_again(twins: Daemon) -> None:
    before = state(twins)
    run = twins.call("merge", survivor="old", duplicate="new")["run_id"]
    after = state(twins)
    assert [(one["job"], one["outcome"]) for one in twins.call("runs")["runs"]] == [("merge", "changed")]

    undone = twins.call("undo", run_id=run)
    assert {"old", "new"} <= set(undone["restored"])
    assert undone["left"] == []
    assert state(twins) == before

    assert twins.call("undo", run_id=undone["run_id"])["left"] == []
    assert state(twins) == after


def test_a_survivor_that_was_edited_since_keeps_its_text_and_the_duplicate_comes_back(twins: Daemon) -> None:
    run = twins.call("merge", survivor="old", duplicate="new")["run_id"]
    twins.call("update", id="old", content="Ada likes green tea")

    undone = twins.call("undo", run_id=run)

    assert undone["left"] == ["old"]
    assert twins.call("get", id="old")["content"] == "Ada likes green tea"
    assert not twins.call("get", id="old")["pinned"]
    back = twins.call("get", id="new")
    assert (back["state"], back["content"], back["pinned"]) == ("live", "Ada is very fond of tea", True)


def test_what_was_recalled_a_moment_ago_is_added_up_as_well(twins: Daemon) -> None:
    """The learn buffer has not been folded; the duplicate's accesses would be lost in the bin."""
    for memory in ("old", "new"):
        twins.call("recall", query=twins.call("get", id=memory)["content"], k=1)

    answer = twins.call("merge", survivor="old", duplicate="new")

    assert answer["access_count"] >= 2
    assert answer["accessed_at"] == "2026-01-01T00:01:00Z"
    assert len(twins.parts.learn) == 0


def test_a_retry_gets_the_first_answer_and_merges_once(twins: Daemon) -> None:
    params = {"survivor": "old", "duplicate": "new"}
    first = ask(twins, "merge", params, key="once")

    assert ask(twins, "merge", params, key="once") == first
    assert twins.call("get", id="old")["version"] == first["version"]
    assert b"fond" not in b"".join(
        str(twins.in_lane(lambda: twins.stores.ledger.answer("once", since=0.0))).encode().splitlines()
    )


def test_two_merges_of_one_pair_at_once_are_one_and_a_conflict(twins: Daemon) -> None:
    one, other = at_once(
        twins, ("merge", {"survivor": "old", "duplicate": "new"}), ("merge", {"survivor": "new", "duplicate": "old"})
    )

    assert one["id"] == "old"
    assert other.kind == "conflict"
    assert [memory["id"] for memory in twins.call("list")["memories"] if memory["id"] != "sugar"] == ["old"]


def test_a_merge_counts_as_superseded_and_is_told_as_an_event_with_both_ids(twins: Daemon) -> None:
    twins.call("merge", survivor="old", duplicate="new")

    text = twins.run(twins.app.service.metrics(""))[0].decode()
    assert 'dreamd_forgotten_total{reason="superseded"} 1.0' in text
    assert 'dreamd_job_runs_total{job_name="merge",outcome="changed"} 1.0' in text
    events = twins.parts.events
    told = [event for event in events._ring if event.type == "merged"]
    assert [(event.scope, event.ids) for event in told] == [("default", ("old", "new"))]


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (("old", "old"), "conflict"),
        (("old", "binned"), "conflict"),
        (("binned", "old"), "conflict"),
        (("old", "elsewhere"), "refused"),
        (("old", "nobody"), "not_found"),
        (("nobody", "old"), "not_found"),
        (("old", "hidden"), "not_found"),
        (("hidden", "old"), "not_found"),
    ],
)
def test_a15_what_cannot_be_merged_is_refused_and_nothing_is_recorded(twins: Daemon, pair, kind) -> None:
    twins.remember("a secret", id="hidden", sensitivity="secret")
    twins.remember("elsewhere", id="elsewhere", scope="other")
    twins.call("forget", id=twins.remember("binned", id="binned"))
    before = state(twins)

    refused(twins, kind, "merge", survivor=pair[0], duplicate=pair[1], clearance="personal")

    assert state(twins) == before
    assert twins.call("runs")["runs"] == []


def test_a_survivor_that_is_erased_right_behind_does_not_turn_the_answer_into_a_failure(twins: Daemon) -> None:
    """Both calls wait for the lane: the erasure is done before anybody could look at the survivor again."""
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go.wait(60)

    blocked = twins.parts.lane.submit(hold)
    assert held.wait(60)
    service = twins.app.service
    merging = service.call("merge", {"survivor": "old", "duplicate": "new"}, Caller(0, 0, ""))
    erasing = service.call("forget", {"id": "old", "hard": True}, Caller(0, 0, ""))
    waiting = []
    for call in (merging, erasing):
        waiting.append(asyncio.run_coroutine_threadsafe(call, twins._loop))
        while len(twins.parts.lane._urgent) < len(waiting):
            twins.run(asyncio.sleep(0))
    go.set()

    merged, forgotten = (call.result(60) for call in waiting)
    blocked.result(60)
    assert (merged["id"], merged["tags"], merged["change_summary"]) == ("old", ["tea", "drink"], "merged with new")
    assert forgotten["forgotten"] == ["old", "new"]
    refused(twins, "not_found", "get", id="old")


def test_the_version_told_by_a_merge_is_no_key_to_what_an_undo_made_of_it(twins: Daemon) -> None:
    answer = twins.call("merge", survivor="old", duplicate="new")
    twins.call("undo", run_id=answer["run_id"])

    refused(twins, "conflict", "update", id="old", content="Ada drinks tea", if_version=answer["version"])
    assert twins.call("get", id="old")["version"] == answer["version"] + 1


def test_the_answer_is_a_memory(twins: Daemon) -> None:
    answer = twins.call("merge", survivor="old", duplicate="new")

    assert answer.keys() - {"run_id"} <= MemoryShape.__annotations__.keys()
