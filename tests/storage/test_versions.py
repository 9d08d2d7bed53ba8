"""Former texts: every edit of what a memory says leaves one behind, and nothing that only looks at them counts as use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon import problem
from storage.errors import Conflict
from storage.model import Version
from tests.harness import Daemon
from tests.storage.opened import Opened


def versions(opened: Opened, memory: str) -> list[Version]:
    return opened.stores.records.versions(memory)


def test_b18_a_chain_of_four_texts_is_whole_newest_first(opened) -> None:
    memory = opened.add("A")
    for text in "BCD":
        opened.clock.advance(60)
        opened.update(memory, content=text)

    assert [(one.number, one.content) for one in versions(opened, memory)] == [(3, "C"), (2, "B"), (1, "A")]
    assert [one.change_summary for one in versions(opened, memory)] == ["content changed", "content changed", ""]
    assert (opened.read(memory).content, opened.row(memory).version) == ("D", 4)
    spans = [(one.created_at, one.replaced_at) for one in reversed(versions(opened, memory))]
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    opened.reopen()
    assert [one.content for one in versions(opened, memory)] == ["C", "B", "A"]


edits = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "content": st.sampled_from(["one", "two", "three"]), "type": st.sampled_from(["semantic", "procedural"]),
            "tags": st.lists(st.sampled_from("xy"), max_size=2), "metadata": st.dictionaries(st.just("k"), st.integers(0, 2)),
            "sensitivity": st.sampled_from(["public", "personal", "secret"]), "importance": st.sampled_from([0.1, 0.9]),
            "pinned": st.booleans(), "context": st.sampled_from(["", "long"]),
        },
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits)
def test_b18_whatever_the_edits_the_history_is_all_that_it_ever_said_in_order(shared, some) -> None:
    memory = shared.add("zero", scope=shared.clock.new_id(), emotion=0.5)
    said: list[tuple[Any, ...]] = []
    for edit in some:
        former = shared.read(memory)
        shared.clock.advance(1)
        edited = shared.update(memory, **edit)
        names = ("content", "type", "tags", "metadata", "sensitivity")
        differing = [name for name in names if getattr(former, name) != getattr(edited, name)]
        assert edited.version == former.version + bool(differing)
        if differing:
            said.append((former.version, *(getattr(former, name) for name in names), former.context))
            assert edited.change_summary == f"{', '.join(differing)} changed"

    told = [(one.number, one.content, one.type, one.tags, one.metadata, one.sensitivity, one.context)
            for one in versions(shared, memory)]  # fmt: skip
    assert told == said[::-1]
    shared.stores.changer.erase([memory])


def test_an_edit_at_another_version_than_expected_is_answered_with_the_current_one(opened) -> None:
    memory = opened.add("A")
    opened.update(memory, content="B", if_version=1)

    with pytest.raises(Conflict) as refused:
        opened.update(memory, content="C", if_version=1)

    told = problem.document(refused.value)
    assert (told["kind"], told["status"], told["version"]) == ("conflict", 409, 2)
    assert told["hint"] == f"dreamctl get {memory}"
    assert [one.content for one in versions(opened, memory)] == ["A"]
    assert opened.update(memory, content="C", if_version=told["version"]).version == 3


def test_c18_no_administrative_read_of_a_memory_or_its_history_counts_as_access(daemon: Daemon) -> None:
    """Ten versions long, and asked for in every way there is: neither access nor heat nor any date moves."""
    memory = daemon.remember("text 0", id="note", session="s", sensitivity="public")
    daemon.remember("text beside", session="s", connect_to=["note"])
    for n in range(10):
        daemon.call("update", id=memory, content=f"text {n + 1}")
    before = daemon.call("get", id=memory)
    daemon.clock.advance(60)

    for _ in range(5):
        daemon.call("get", id=memory)
        daemon.call("history", id=memory, limit=20)
        daemon.call("list", sort="accessed")
        daemon.call("neighbors", id=memory)
        daemon.call("stats")
        daemon.call("fading", days=365)
        daemon.call("recall", query="text", learn=False)
    daemon.call("run_job", name="hebbian")
    daemon.call("run_job", name="demote")

    after = daemon.call("get", id=memory)
    assert {name for name in after if after[name] != before[name]} <= {"retention"}
    assert (after["access_count"], after["accessed_at"], after["heat"]) == (0, None, "warm")
    assert len(daemon.call("history", id=memory, limit=20)["versions"]) == 10


def test_b18_a_revert_is_an_edit_that_keeps_what_it_replaces(daemon: Daemon) -> None:
    daemon.remember("A", id="note", tags=["first"])
    daemon.call("update", id="note", content="B", tags=["second"])
    daemon.call("update", id="note", content="C")

    back = daemon.call("revert", id="note", version=1)

    assert (back["content"], back["tags"], back["version"]) == ("A", ["first"], 4)
    history = daemon.call("history", id="note")["versions"]
    assert [(one["version"], one["content"]) for one in history] == [(3, "C"), (2, "B"), (1, "A")]
    assert daemon.call("revert", id="note", version=3)["content"] == "C"


def test_c6_neither_edit_nor_revert_nor_merge_lowers_the_sensitivity(daemon: Daemon) -> None:
    daemon.remember("A", id="note", sensitivity="public")
    daemon.remember("B", id="twin", sensitivity="confidential")
    daemon.call("update", id="note", content="C")
    daemon.call("merge", survivor="note", duplicate="twin")

    daemon.call("update", id="note", content="D")
    assert daemon.call("get", id="note")["sensitivity"] == "confidential"
    assert daemon.call("revert", id="note", version=1)["sensitivity"] == "confidential"
    shown = daemon.call("history", id="note", limit=20)["versions"]
    assert {one["sensitivity"] for one in shown if one["content"] in ("A", "C")} >= {"public"}


def test_history_goes_with_the_memory_into_the_bin_and_out_of_it(opened) -> None:
    memory = opened.add("A")
    opened.update(memory, content="B")

    opened.forget(memory)
    assert [one.content for one in versions(opened, memory)] == ["A"]
    opened.forget(memory, hard=True)
    assert versions(opened, memory) == []
