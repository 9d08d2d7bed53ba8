"""Heat by hand: a step at a time, and past either end nothing."""

from __future__ import annotations

import pytest

from tests.daemon.methods.asking import ask, refused
from tests.harness import Daemon


@pytest.fixture
def tea(daemon: Daemon) -> Daemon:
    daemon.remember("Ada likes tea", id="tea")
    return daemon


def test_each_step_is_one_and_past_either_end_nothing_changes_and_it_says_so(tea: Daemon) -> None:
    for method, heats in (("promote_heat", ["hot", "hot"]), ("demote_heat", ["warm", "cold", "cold"]),
                          ("promote_heat", ["warm", "hot", "hot"])):  # fmt: skip
        for number, heat in enumerate(heats):
            before = tea.call("get", id="tea")
            answer = tea.call(method, id="tea")

            last = number == len(heats) - 1
            assert (answer["heat"], answer["changed"]) == (heat, not last)
            assert ("note" in answer) is last
            after = tea.call("get", id="tea")
            assert {name for name in after if after[name] != before[name]} == (set() if last else {"heat"})
    assert heat in answer["note"]


def test_warming_is_no_access_and_no_edit(tea: Daemon) -> None:
    tea.call("promote_heat", id="tea")

    memory = tea.call("get", id="tea")
    assert (memory["access_count"], memory["accessed_at"], memory["version"]) == (0, None, 1)
    assert tea.call("history", id="tea")["versions"] == []


def test_what_was_cooled_by_hand_is_not_warmed_again_by_the_accesses_of_before(tea: Daemon) -> None:
    for _ in range(3):
        tea.call("recall", query="tea")
    tea.call("run_job", name="hebbian")
    tea.call("run_job", name="demote")
    assert tea.call("get", id="tea")["heat"] == "hot"

    tea.call("demote_heat", id="tea")
    tea.call("run_job", name="demote")

    assert tea.call("get", id="tea")["heat"] == "warm"


def test_each_step_is_told_as_an_event_and_no_step_is_not(tea: Daemon) -> None:
    tea.call("promote_heat", id="tea")
    tea.call("promote_heat", id="tea")

    told = [event for event in tea.parts.events._ring if event.type == "heat_changed"]
    assert [(event.scope, event.ids) for event in told] == [("default", ("tea",))]


@pytest.mark.parametrize("method", ["promote_heat", "demote_heat"])
def test_a15_only_a_live_memory_that_the_caller_sees_has_a_heat_to_change(tea: Daemon, method: str) -> None:
    tea.remember("a secret", id="hidden", sensitivity="secret")
    tea.call("forget", id=tea.remember("binned", id="binned"))

    for memory, kind in (("hidden", "not_found"), ("nobody", "not_found"), ("binned", "conflict")):
        refused(tea, kind, method, id=memory, clearance="personal")


def test_a_retry_makes_no_second_step(tea: Daemon) -> None:
    tea.call("demote_heat", id="tea")
    first = ask(tea, "promote_heat", {"id": "tea"}, key="once")

    assert ask(tea, "promote_heat", {"id": "tea"}, key="once") == first
    assert first["changed"]
    assert tea.call("get", id="tea")["heat"] == "warm"
    ask(tea, "promote_heat", {"id": "tea"}, key="twice")
    none = ask(tea, "promote_heat", {"id": "tea"}, key="thrice")
    assert ask(tea, "promote_heat", {"id": "tea"}, key="thrice") == none
    assert "note" in none
