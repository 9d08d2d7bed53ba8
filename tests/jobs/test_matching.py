"""Who is looked at for twins: what is new or changed and those that may say the same, and no twin is ever passed over."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest

from jobs import dedup
from jobs.matching import LOOKED_AT, Matching
from jobs.proposing import IN_ALL
from storage.errors import Conflict
from storage.model import Memory
from storage.proposals import Proposal
from storage.twins import twins
from tests.harness import Daemon
from tests.jobs.by_hand import context

TEXT = "Deploys on Fridays are forbidden for the billing team"
SMALL = "deploys on fridays are forbidden for the billing team."


@pytest.fixture
def daemon(daemon: Daemon) -> Daemon:
    """A daemon that has looked at nothing, and remembers no merge."""

    def empty() -> None:
        ledger = daemon.stores.ledger
        ledger.trim(images_before=float("inf"), runs_before=0.0, requests_before=0.0)
        ledger.proposals.settle([(one.a, one.b) for one in ledger.proposals.waiting()])
        ledger.examined.drop(LOOKED_AT, ledger.examined.of(LOOKED_AT))

    daemon.in_lane(empty)
    return daemon


def run(daemon: Daemon, **options: Any) -> dict[str, int]:
    counts: dict[str, int] = daemon.call("run_job", name="dedup", **options)["counts"]
    return counts


def rows_of(daemon: Daemon) -> list[Memory]:
    return daemon.in_lane(lambda: list(daemon.stores.catalogue.rows()))


def live(daemon: Daemon) -> set[str]:
    return {row.id for row in rows_of(daemon)}


def notes(daemon: Daemon, count: int) -> None:
    items = [{"content": f"note number {n} of the harbour master", "id": f"n{n:03}"} for n in range(count)]
    daemon.call("remember_many", items=items)


def read(daemon: Daemon, *out: str, dry_run: bool = False) -> set[str]:
    """Whose texts are read by a run that merges nobody."""
    rows = rows_of(daemon)
    matching = Matching(context(daemon, dry_run=dry_run), rows)
    essences = matching.essences(rows)
    matching.note(rows, out)
    return set(essences)


def test_one_new_memory_costs_its_own_text_and_those_of_its_class(daemon: Daemon) -> None:
    notes(daemon, 300)
    daemon.remember(TEXT, id="a")
    daemon.remember(SMALL, id="b", author="Ada")
    assert len(read(daemon)) == 302
    assert read(daemon) == set()

    daemon.remember("something new", id="alone")
    assert read(daemon) == {"alone"}
    daemon.remember(SMALL.upper(), id="c")
    assert read(daemon) == {"a", "c"}
    daemon.call("update", id="b", content=f"{TEXT}, says Ada")
    assert read(daemon) == {"b"}
    assert read(daemon) == set()


def test_who_was_merged_or_waits_for_it_is_new_again(daemon: Daemon) -> None:
    notes(daemon, 3)
    read(daemon)
    daemon.remember("note number 2 of the harbour master!", id="m", author="")
    assert read(daemon, "n002") == {"m", "n002"}

    assert read(daemon) == {"m", "n002"}
    assert read(daemon) == set()


def test_who_changed_while_it_was_looked_at_is_looked_at_again(daemon: Daemon) -> None:
    notes(daemon, 3)
    rows = rows_of(daemon)
    matching = Matching(context(daemon), rows)
    daemon.call("update", id="n001", content="another text")
    daemon.call("forget", id="n002")
    assert set(matching.essences(rows)) == {"n000", "n001", "n002"}
    matching.note(rows, ())

    assert read(daemon) == {"n001"}


def test_marks_of_what_is_there_no_more_are_let_go_of(daemon: Daemon) -> None:
    notes(daemon, 3)
    read(daemon)
    daemon.call("forget", id="n000")
    assert read(daemon) == set()

    assert len(daemon.in_lane(daemon.stores.ledger.examined.of, LOOKED_AT)) == 2
    daemon.call("restore", id="n000")
    assert read(daemon) == {"n000"}


def test_a_dry_run_notes_nothing_and_lets_go_of_nothing(daemon: Daemon) -> None:
    notes(daemon, 3)
    assert len(read(daemon, dry_run=True)) == len(read(daemon)) == 3
    daemon.call("forget", id="n000")
    read(daemon, "n001", dry_run=True)

    assert len(daemon.in_lane(daemon.stores.ledger.examined.of, LOOKED_AT)) == 3


@pytest.mark.parametrize(
    "changed",
    [{"context": "said"}, {"author": "Ada"}, {"sensitivity": "secret"}, {"metadata": {"team": "a"}}, {"pinned": True}],
    ids=str,
)
def test_whatever_decides_on_twins_is_a_reason_to_look_again(daemon: Daemon, changed: dict[str, Any]) -> None:
    notes(daemon, 3)
    read(daemon)
    daemon.call("update", id="n001", **changed)

    assert read(daemon) == {"n001"}


def test_nothing_is_read_again_while_no_more_pairs_may_wait_and_twins_are_still_merged(daemon: Daemon) -> None:
    """What is not compared for want of room was looked at for twins all the same."""
    notes(daemon, 65)
    pairs = [*combinations(sorted(live(daemon)), 2)][:IN_ALL]
    waiting = [Proposal(a, b, "default", 0.76, 1.0, "former") for a, b in pairs]
    daemon.in_lane(daemon.stores.ledger.proposals.add, waiting)
    run(daemon)
    assert daemon.in_lane(daemon.stores.ledger.proposals.count) == IN_ALL
    assert read(daemon) == set()

    turns: list[None] = []
    dedup.run(context(daemon, pace=lambda: turns.append(None)))
    assert len(turns) == 4  # the rows, the embedder, the room, the end: of the scope itself, nothing
    daemon.remember("note number 64 of the Harbour Master", id="z", tier="long")
    assert run(daemon)["merged"] == 1
    assert "n064" not in live(daemon)


def test_who_waits_because_it_is_in_use_is_seen_again_though_only_its_twin_was_new(daemon: Daemon) -> None:
    daemon.remember(SMALL, id="b")
    run(daemon)
    daemon.remember(TEXT, id="a", tier="long")
    daemon.parts.learn.note(["b"], daemon.clock.now())
    assert (run(daemon)["merged"], live(daemon)) == (0, {"a", "b"})
    daemon.call("run_job", name="hebbian")

    assert (run(daemon)["merged"], live(daemon)) == (1, {"a"})


def test_a_context_that_is_the_same_now_makes_twins(daemon: Daemon) -> None:
    daemon.remember(TEXT, id="a", context="one")
    daemon.remember(SMALL, id="b", context="another")
    assert run(daemon)["merged"] == 0
    daemon.call("update", id="b", context="one")

    assert run(daemon)["merged"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_no_twin_is_passed_over_in_whichever_order_they_come_and_change(daemon: Daemon, seed: int) -> None:
    dice = random.Random(seed)
    said = [TEXT, SMALL, TEXT.upper(), "Deploys are fine", "deploys are fine.", "Tea is at four"]
    for number in range(12):
        some = sorted(live(daemon))
        if some and dice.random() < 0.4:
            chosen = {"author": dice.choice(["", "Ada"]), "context": dice.choice(["", "as said"])}
            with suppress(Conflict):  # it would be one of the others, letter for letter
                daemon.call("update", id=dice.choice(some), **chosen)
        else:
            chosen = {"author": dice.choice(["", "Ada"]), "tier": dice.choice(["short", "long"])}
            daemon.call("remember", content=f"{dice.choice(said)} in {seed}", id=f"m{number:02}", **chosen)
        if dice.random() < 0.7:
            run(daemon)
    run(daemon)

    whole = daemon.in_lane(daemon.stores.memories.read, live(daemon)).values()
    assert not any(twins(a, b) for a, b in combinations(whole, 2))
