"""New vectors for every memory: the old ones serve meanwhile, nothing that happens meanwhile is lost, a kill costs little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from daemon.rpc import Caller
from jobs.reindex import CHARS, Plan, plan, slices
from storage.memories import BIN, LIVE
from storage.rebuild import Copied, Source
from storage.swap import NEXT, PROGRESS, STORE
from tests.daemon.methods.asking import refused
from tests.daemon.methods.providers import USE, WORDLLAMA, Providers
from tests.harness import BY_HAND, Daemon
from tests.jobs.reindexed import closest, everything, fill, made_with_another
from tests.jobs.world import for_all

Make = Callable[..., Daemon]

points = st.sampled_from("abcdefgh")
states = st.builds(Copied, st.sampled_from([LIVE, BIN]), st.integers(1, 3), st.sampled_from([0.0, 1.0]))
several = st.dictionaries(points, states)


@for_all(several, several)
def test_a_plan_carried_out_leaves_copies_of_all_that_is_there_and_of_nothing_else(present, copied) -> None:
    planned = plan(present, copied)

    after = {point: state for point, state in copied.items() if point not in planned.drop}
    after |= {point: present[point] for point in planned.make}
    assert after == present
    assert plan(present, after) == Plan([], [])


@for_all(several, several)
def test_what_was_copied_as_it_is_is_not_copied_again(present, copied) -> None:
    planned = plan(present, copied)

    assert {point for point in present if copied.get(point) == present[point]}.isdisjoint(planned.make)


@for_all(st.lists(st.integers(0, 2 * CHARS), max_size=20))
def test_parts_keep_the_order_and_none_is_too_large_but_of_one_text(sizes) -> None:
    sources = [Source(str(n), Copied(LIVE, 1, 0.0), {}, "x" * size) for n, size in enumerate(sizes)]

    parts = list(slices(sources))

    assert [one for part in parts for one in part] == sources
    assert all(part for part in parts)
    assert all(len(part) == 1 or sum(len(one.text) for one in part) <= CHARS for part in parts)
    assert all(sum(len(one.text) for one in [*part, following[0]]) > CHARS for part, following in pairwise(parts))


# -- a whole reindex


@pytest.fixture
def providers() -> Providers:
    return Providers()


@pytest.fixture
def changed(daemons: Make, providers: Providers) -> Daemon:
    return made_with_another(daemons, providers)


def test_case52_another_embedder_takes_effect_by_a_reindex_alone(changed: Daemon, providers: Providers) -> None:
    """Case 52: another dimension gave shape errors, another model of the same dimension silent noise."""
    health = changed.call("health")
    assert (health["embedder"], health["reasons"][0]["hint"]) == ("use", "dreamctl reindex")
    before = everything(changed)

    done = changed.call("reindex")

    assert done == {
        "run_id": done["run_id"], "outcome": "changed", "reason": None, "memories": 60, "embedder": "wordllama",
    }  # fmt: skip
    assert everything(changed) == before
    health = changed.call("health")
    assert (health["status"], health["embedder"]) == ("ok", "wordllama")
    assert changed.call("version")["embedder"] == "wordllama"
    assert closest(changed, "note 40 about topic40") == "n40"
    assert changed.parts.runner.settings.near == 0.75
    metrics = changed.run(changed.app.service.metrics(""))[0].decode()
    assert 'embedder="wordllama"' in metrics
    assert 'embedder="use"' not in metrics
    (former,) = changed.call("snapshots")["snapshots"]
    assert (former["label"], former["damaged"], former["memories"], former["bin"]) == ("before-reindex", False, 57, 3)
    assert not (changed.folder / "state" / NEXT).exists()
    assert not (changed.folder / "state" / STORE / PROGRESS).exists()
    providers.loaded.clear()
    changed.restart()
    assert providers.loaded == ["wordllama"]
    assert changed.call("health")["status"] == "ok"
    assert everything(changed) == before
    changed.call("restore", id="n4")
    assert closest(changed, "note 4 about topic4") == "n4"


@pytest.mark.parametrize("dimensions", [{"use": 64, "wordllama": 64}, {"use": 32, "wordllama": 64}])
def test_case52_also_where_both_have_one_dimension(daemons: Make, dimensions: dict[str, int]) -> None:
    providers = Providers(**dimensions)
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 20)
    first.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()

    assert closest(daemon, "note 7 about topic7") == "n7"
    assert daemon.call("reindex")["outcome"] == "changed"

    assert closest(daemon, "note 7 about topic7") == "n7"
    daemon.restart()
    assert closest(daemon, "note 7 about topic7") == "n7"


def test_with_the_same_embedder_there_is_nothing_to_do(changed: Daemon) -> None:
    changed.call("reindex")

    again = changed.call("reindex")

    assert (again["outcome"], again["memories"], again["embedder"]) == ("unchanged", 0, "wordllama")
    assert len(changed.call("snapshots")["snapshots"]) == 1
    assert [one["job"] for one in changed.call("runs")["runs"]] == ["reindex", "reindex"]


def test_an_empty_store_is_reindexed_too(daemons: Make, providers: Providers) -> None:
    daemons(options=BY_HAND | USE, embedder=providers.load).start().stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load).start()

    assert daemon.call("reindex")["outcome"] == "changed"

    assert daemon.call("health")["status"] == "ok"
    daemon.remember("the first one")


def test_an_embedder_that_cannot_be_loaded_changes_nothing(changed: Daemon, providers: Providers) -> None:
    providers.away.add("wordllama")

    assert "away" in refused(changed, "unavailable", "reindex").detail

    assert changed.call("health")["embedder"] == "use"
    assert changed.call("runs")["runs"] == []
    assert changed.call("recall", query="topic40")["hits"][0]["id"] == "n40"


def test_a_reindex_tells_how_far_it_is(changed: Daemon) -> None:
    told: list[dict[str, Any]] = []
    changed.run(changed.app.service.call("reindex", {}, Caller(0, 0, ""), told.append))

    assert [(one["job"], one["done"], one["total"]) for one in told] == [("reindex", 32, 60), ("reindex", 60, 60)]


def test_a_memory_that_the_store_has_lost_ends_the_run_and_leaves_the_store_as_it_is(changed: Daemon) -> None:
    changed.in_lane(changed.stores.engine.delete, LIVE, [changed.stores.catalogue.point("n9")])

    done = changed.call("reindex")

    assert (done["outcome"], done["reason"], done["embedder"]) == ("failed", "corrupt", "use")
    assert closest(changed, "note 8 about topic8") == "n8"
    assert changed.call("snapshots")["snapshots"] == []


def test_instants_finer_than_the_store_keeps_them_are_copied_once(changed: Daemon) -> None:
    """The engine may alter the last digit of a number, which is no change of a memory."""
    row = changed.stores.catalogue.get("n9")
    odd = replace(row, created_at=row.created_at + 1e-7)
    changed.in_lane(changed.stores.catalogue.put, odd)

    assert changed.call("reindex")["memories"] == 60
