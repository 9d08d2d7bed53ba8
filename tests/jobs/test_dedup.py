"""Dedup: of twins one stays, whichever way they are looked at; what is only near is proposed; every merge can be undone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from jobs import dedup, unfinished
from jobs.context import Context, Settings
from jobs.decay import LEAST, room
from jobs.matching import LOOKED_AT
from jobs.proposing import NAME, PROPOSED
from storage import merge
from storage.changes import same
from storage.fading import Awake
from storage.graph import connect
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.model import DAY, TIERS, Memory
from storage.rank import Weights
from storage.store import Stores
from storage.twins import essence, is_kept, twins
from tests.fakes import Killed, MortalEngine
from tests.harness import Daemon
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all
from tests.storage import merging
from tests.storage.opened import Opened

TEXT = "Deploys on Fridays are forbidden for the billing team"
SMALL = "deploys on fridays are forbidden for the billing team."

# -- the plan


@st.composite
def said(draw: st.DrawFn) -> Memory:
    """A memory that says one of a few things, in one of a few ways."""
    return Memory(
        id=draw(st.text("abcdef", min_size=1, max_size=3)), scope="a/b", created_at=NOW - draw(st.integers(0, 9)),
        content=draw(st.sampled_from([TEXT, SMALL, TEXT.upper(), TEXT.replace("F", "f"), "Deploys are fine", "deploys"])),
        author=draw(st.sampled_from(["", "Ada"])), tier=draw(st.sampled_from(TIERS)), pinned=draw(st.booleans()),
        access_count=draw(st.integers(0, 3)), metadata=draw(st.dictionaries(st.sampled_from("xy"), st.integers(0, 1))),
        entities=draw(st.sampled_from([(), ("Ada",), ("Ben",)])), type=draw(st.sampled_from(["semantic", "active"])),
    )  # fmt: skip


some_said = st.lists(said(), max_size=14, unique_by=lambda one: one.id)
spared = st.frozensets(st.text("abcdef", min_size=1, max_size=1))


def planned(memories: list[Memory], spare: frozenset[str] = frozenset(), left: int = 1_000) -> dedup.Plan:
    essences = {one.id: essence(one) for one in memories}
    return dedup.plan(memories, essences, Counter({"a": left, "a/b": left}), spare)


def pairs(plan: list[dedup.Merge]) -> list[tuple[str, str]]:
    return [(one.survivor.id, one.duplicate.id) for one in plan]


def after(memories: list[Memory], plan: dedup.Plan) -> list[Memory]:
    """The memories that are left once the merges were made, as they are then."""
    now = {one.id: one for one in memories}
    for one in plan.merges:
        survivor, duplicate = now[one.survivor.id], now.pop(one.duplicate.id)
        changes = merge.plan(survivor, duplicate, [], {}, NOW, Awake([]))
        fields = next(change.fields for change in changes if getattr(change, "memory", "") == survivor.id)
        now[survivor.id] = replace(survivor, **fields)
    return list(now.values())


@for_all(some_said, spared, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_cannot_matter(some: list[Memory], spare: frozenset[str], dice: random.Random) -> None:
    mixed = dice.sample(some, len(some))

    assert pairs(planned(mixed, spare).merges) == pairs(planned(some, spare).merges)


@for_all(some_said, spared)
def test_case3_of_every_class_of_twins_one_stays(some: list[Memory], spare: frozenset[str]) -> None:
    """Never both of a pair, nobody twice, and nobody whom somebody marked as to be kept."""
    merges = planned(some, spare).merges
    duplicates = [one.duplicate.id for one in merges]
    survivors = {one.survivor.id for one in merges}

    assert len(set(duplicates)) == len(duplicates)
    assert survivors.isdisjoint(duplicates)
    for one in merges:
        assert twins(one.survivor, one.duplicate)
        assert not is_kept(one.duplicate)
        assert one.duplicate.id not in spare
    left = after(some, planned(some, spare))
    assert {one.id for one in left} == {one.id for one in some}.difference(duplicates)
    assert {essence(one).common for one in left} == {essence(one).common for one in some}


@for_all(some_said, spared)
def test_a_second_run_finds_nothing(some: list[Memory], spare: frozenset[str]) -> None:
    assert planned(after(some, planned(some, spare)), spare).merges == []


@for_all(some_said, st.integers(0, 5))
def test_what_is_beyond_the_ceiling_waits_and_is_counted(some: list[Memory], left: int) -> None:
    every, limited = planned(some), planned(some, left=left)

    assert pairs(limited.merges) == pairs(every.merges)[:left]
    assert pairs(limited.deferred) == pairs(every.merges)[left:]


def test_a_class_of_many_ends_as_one() -> None:
    dice = random.Random(5)
    copies = [
        Memory(id=f"m{n}", scope="a/b", content=dice.choice([TEXT, SMALL, TEXT.upper()]), created_at=NOW - n % 7)
        for n in range(300)
    ]
    plan = planned(copies)

    assert len(after(copies, plan)) == 1
    assert {one.survivor.id for one in plan.merges} == {"m104"}  # of the oldest the one whose id comes first


def test_a_form_that_is_filled_in_is_merged_only_where_it_says_the_same() -> None:
    """A text with very many different metadata: each of them has twins of its own, and nobody compares them all."""
    kept = [
        Memory(id=f"m{n}", scope="a/b", content=TEXT, metadata={"seq": n // 2}) for n in range(2 * dedup.VARIANTS + 2)
    ]
    bare = Memory(id="bare", scope="a/b", content=TEXT)
    merges = planned([*kept, bare]).merges

    assert sorted(pairs(merges)) == sorted((f"m{n}", f"m{n + 1}") for n in range(0, len(kept), 2))


def test_whoever_fits_several_that_contradict_each_other_joins_the_first_and_holds_to_it() -> None:
    bare, one, other = (
        Memory(id=name, scope="a/b", content=TEXT, metadata=metadata, access_count=uses)
        for name, metadata, uses in (("bare", {}, 9), ("one", {"x": 1}, 5), ("other", {"x": 2}, 1))
    )

    assert pairs(planned([other, one, bare]).merges) == [("bare", "one")]
    assert pairs(planned([other, one, replace(bare, access_count=0)]).merges) == [("one", "bare")]


def test_the_ceiling_holds_at_every_level_and_lets_a_double_import_through_in_three_nights() -> None:
    live, nights = Counter({"a/b": 10_000}), 0
    waiting = 5_000
    while waiting:
        left = room(live, {}, dedup.CEILING)
        assert left["a"] == left["a/b"] <= max(live["a/b"] // 4, LEAST)
        gone = min(left["a/b"], waiting)
        waiting, nights = waiting - gone, nights + 1
        live["a/b"] -= gone

    assert nights == 3


# -- on a real store


@pytest.fixture
def daemon(daemon: Daemon) -> Daemon:
    """A daemon that knows of no merge and no pair, so that no test takes room from another."""

    def empty() -> None:
        ledger = daemon.stores.ledger
        ledger.trim(images_before=float("inf"), runs_before=0.0, requests_before=0.0)
        ledger.proposals.settle([(one.a, one.b) for one in ledger.proposals.waiting()])
        for name in (NAME, PROPOSED, LOOKED_AT):
            ledger.examined.drop(name, ledger.examined.of(name))

    daemon.in_lane(empty)
    return daemon


def run(daemon: Daemon, **options: Any) -> dict[str, Any]:
    return daemon.call("run_job", name="dedup", **options)


def live(daemon: Daemon) -> set[str]:
    return {memory["id"] for memory in daemon.call("list", scope="*", limit=500)["memories"]}


def proposals(daemon: Daemon) -> list[tuple[str, str]]:
    return [(one.a, one.b) for one in daemon.in_lane(daemon.stores.ledger.proposals.waiting)]


def journal(daemon: Daemon) -> int:
    return int(daemon.in_lane(daemon.stores.ledger.last_entry))


def test_case3_a10_one_survivor_has_all_that_both_had(daemon: Daemon) -> None:
    """The one that is worth more keeps text, tier, tags and context, whichever is the longer or the newer."""
    old = daemon.remember(SMALL, id="old", tags=["deploy"], metadata={"since": 2024}, emotion=0.9)
    friend = daemon.remember("The billing team eats cake")
    daemon.call("connect", a=old, b=friend)
    daemon.call("comment", id=old, content="who says so?")
    daemon.clock.advance(60)
    daemon.remember(TEXT, id="rule", tier="core", tags=["rule"], metadata={"team": "billing"})
    made = daemon.call("get", id="old")["created_at"]
    done = run(daemon)

    assert done["counts"] == {"examined": 3, "merged": 1, "proposed": 0, "deferred": 0, "left_out": 0, "skipped": 0}
    assert done["examples"] == [{"survivor": "rule", "duplicate": "old", "reason": "the same words"}]
    rule = daemon.call("get", id="rule")
    assert (rule["content"], rule["tier"], rule["created_at"], rule["emotion"]) == (TEXT, "core", made, 0.9)
    assert sorted(rule["tags"]) == ["deploy", "rule"]
    assert rule["metadata"] == {"team": "billing", "since": 2024}
    assert [one["id"] for one in daemon.call("neighbors", id="rule")["neighbors"]] == [friend]
    assert [one["content"] for one in daemon.call("comments", id="rule")["comments"]] == ["who says so?"]
    gone = daemon.call("get", id="old")
    assert (gone["state"], gone["superseded_by"]) == ("superseded", "rule")


def test_case3_two_runs_equal_one(daemon: Daemon) -> None:
    for number in range(6):
        daemon.remember([TEXT, SMALL, TEXT.upper()][number % 3], id=f"m{number}")
    first = run(daemon)
    before, entries = daemon.call("list", limit=50), journal(daemon)
    second = run(daemon)

    assert first["counts"]["merged"] == 5
    assert (second["outcome"], second["counts"]) == ("unchanged", dict.fromkeys(first["counts"], 0))
    assert (daemon.call("list", limit=50), journal(daemon)) == (before, entries)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"scope": "a"}, {"scope": "a/b"}),
        ({"author": "Ada"}, {"author": "Ben"}),
        ({"event_at": "2026-01-05T09:00:00Z"}, {"event_at": "2026-06-05T09:00:00Z"}),
        ({"metadata": {"project": "heron"}}, {"metadata": {"project": "kestrel"}}),
        ({"type": "active"}, {"type": "active"}),
        ({"pinned": True}, {"pinned": True}),
        ({"tier": "core"}, {"tier": "core"}),
        ({"expires_at": "2999-01-01T00:00:00Z"}, {}),
    ],
    ids=lambda fields: "-".join(fields) or "none",
)
def test_case7_b5_what_may_be_two_stays_two(daemon: Daemon, one: dict[str, Any], other: dict[str, Any]) -> None:
    """The same sentence of another scope, speaker, day, project, or that somebody marked; as near as can be, it is proposed."""
    daemon.remember(TEXT, id="a", **one)
    daemon.remember(SMALL, id="b", **other)
    done = run(daemon)

    assert live(daemon) == {"a", "b"}
    comparable = one.get("scope") == other.get("scope") and one.get("type") != "active"
    assert proposals(daemon) == [("a", "b")] * comparable
    assert done["counts"]["proposed"] == len(proposals(daemon))


def test_a28_nothing_is_merged_or_proposed_across_scopes(daemon: Daemon) -> None:
    for scope in ("a", "a/b", "a/b/c", "d"):
        daemon.remember(TEXT, scope=scope)
        daemon.remember("Deploys on Mondays are forbidden for the billing team", scope=scope)
    done = run(daemon)

    assert (done["counts"]["merged"], done["counts"]["proposed"]) == (0, 4)
    rows = {row.id: row.scope for row in daemon.in_lane(lambda: list(daemon.stores.catalogue.rows()))}
    assert all(rows[a] == rows[b] for a, b in proposals(daemon))


def test_a_dry_run_tells_what_the_real_one_does_and_writes_nothing(daemon: Daemon) -> None:
    for number in range(4):
        daemon.remember([TEXT, SMALL][number % 2], id=f"m{number}")
    daemon.remember("Deploys on Mondays are forbidden for the billing team", id="other")
    before = journal(daemon)
    dry = run(daemon, dry_run=True)

    assert (len(live(daemon)), proposals(daemon), journal(daemon)) == (5, [], before)
    wet = run(daemon)
    assert (dry["outcome"], dry["counts"], dry["examples"]) == (wet["outcome"], wet["counts"], wet["examples"])
    assert wet["counts"] == {"examined": 5, "merged": 3, "proposed": 1, "deferred": 0, "left_out": 0, "skipped": 0}


def superseded(daemon: Daemon) -> float:
    """How many memories the metrics know to be superseded."""
    text, _ = daemon.run(daemon.app.service.metrics(""))  # type: ignore[union-attr]
    return float(next(line for line in text.decode().splitlines() if 'reason="superseded"' in line).split()[-1])


def test_e3_the_counts_tell_what_was_done_and_the_metrics_say_the_same(daemon: Daemon) -> None:
    before = superseded(daemon)
    for number in range(3):
        daemon.remember(TEXT, id=f"m{number}", pinned=number == 2)
    done = run(daemon)

    assert done["counts"]["merged"] == 2 == len(daemon.call("list", state="superseded")["memories"])
    assert superseded(daemon) - before == 2


def test_an_undo_brings_the_twins_back_with_all_that_was_theirs(daemon: Daemon) -> None:
    opened = [daemon.remember(f"{TEXT}, says {name}", id=name, tags=[name]) for name in ("one", "two")]
    for name in opened:
        daemon.call("update", id=name, content=TEXT if name == "one" else SMALL)
        daemon.call("comment", id=name, content=f"about {name}")
        daemon.call("connect", a=name, b=daemon.remember(f"a neighbour of {name}"), weight=3.0)

    def state() -> Any:
        return [
            [
                {**daemon.call("get", id=name), "version": 0, "change_summary": ""},
                daemon.call("neighbors", id=name), daemon.call("comments", id=name),
                [one["content"] for one in daemon.call("history", id=name)["versions"]],
            ]
            for name in opened
        ]  # fmt: skip

    before = state()
    done = run(daemon)
    assert done["counts"]["merged"] == 1
    assert state() != before
    undone = daemon.call("undo", run_id=done["run_id"])

    assert undone["left"] == []
    assert state() == before


def test_whoever_was_parted_is_not_merged_again_but_proposed(daemon: Daemon) -> None:
    """By an undo, or by a hand that takes it out of the bin."""
    daemon.remember(TEXT, id="a")
    daemon.remember(SMALL, id="b")
    daemon.call("undo", run_id=run(daemon)["run_id"])
    again = run(daemon)
    assert (live(daemon), again["counts"]["merged"], again["counts"]["proposed"]) == ({"a", "b"}, 0, 1)

    daemon.call("forget", ids=["a", "b"], hard=True)
    daemon.remember(TEXT, id="c")
    daemon.remember(SMALL, id="d")
    assert run(daemon)["counts"]["merged"] == 1
    daemon.call("restore", id="d")
    assert run(daemon)["counts"]["merged"] == 0
    assert live(daemon) == {"c", "d"}


def test_what_was_just_recalled_is_not_retired_until_that_is_folded(daemon: Daemon) -> None:
    daemon.remember(TEXT, id="a", tier="long")
    daemon.remember(SMALL, id="b")
    daemon.parts.learn.note(["b"], daemon.clock.now())
    dry, wet = run(daemon, dry_run=True), run(daemon)

    assert (
        dry["counts"]
        == wet["counts"]
        == {"examined": 1, "merged": 0, "proposed": 0, "deferred": 0, "left_out": 0, "skipped": 1}
    )
    daemon.call("run_job", name="hebbian")
    assert run(daemon)["counts"]["merged"] == 1
    assert daemon.call("get", id="a")["access_count"] == 1


def test_case8_what_was_edited_meanwhile_is_left_and_counted(daemon: Daemon) -> None:
    """Between the look and the merge, one is edited, one forgotten, and one pinned."""
    for number in range(4):
        daemon.remember([TEXT, SMALL][number % 2], id=f"m{number}", scope=f"s{number // 2 * 0}")
    told: list[int] = []

    def meddle(done: int, _total: int) -> None:
        told.append(done)
        if told == [1]:
            daemon.call("update", id="m2", content=f"{TEXT} and all others")
            daemon.call("pin", id="m3")

    report = dedup.run(context(daemon, progress=meddle))

    assert (report.counts["merged"], report.counts["skipped"]) == (1, 2)
    assert live(daemon) == {"m0", "m2", "m3"}


def test_an_expired_memory_is_no_twin_and_is_counted(daemon: Daemon) -> None:
    soon = "2999-01-01T00:00:00Z"
    daemon.remember(TEXT, id="a", expires_at=soon)
    daemon.remember(SMALL, id="b", expires_at=soon)
    report = dedup.run(context(daemon, now=40e9))

    assert report.counts == {"examined": 0, "merged": 0, "proposed": 0, "deferred": 0, "left_out": 0, "skipped": 2}
    assert live(daemon) == {"a", "b"}


def test_two_that_are_over_a_limit_together_stay_two_and_are_proposed(daemon: Daemon) -> None:
    tags = [f"t{n}" for n in range(100)]
    daemon.remember(TEXT, id="a", tags=tags[:60])
    daemon.remember(SMALL, id="b", tags=tags[60:] + [f"u{n}" for n in range(20)])
    done = run(daemon)

    assert (done["counts"]["merged"], done["counts"]["skipped"], proposals(daemon)) == (0, 1, [("a", "b")])
    assert run(daemon)["counts"] == dict.fromkeys(done["counts"], 0)


def test_the_ceiling_of_a_day_holds_and_says_how_many_wait(daemon: Daemon) -> None:
    for number in range(30):
        daemon.remember(TEXT, id=f"m{number}")
    first, second = run(daemon), run(daemon)

    assert (first["counts"]["merged"], first["counts"]["deferred"]) == (LEAST, 19)
    assert first["reason"] == "19 twins wait: at most max(25%, 10) of a scope are merged in 24 hours"
    assert (second["counts"]["merged"], second["counts"]["deferred"]) == (0, 19)
    for _ in range(2):
        daemon.beat(1)
        run(daemon)
    assert len(live(daemon)) == 1


def test_case30_a_run_that_is_told_to_stop_ends_after_a_merge_and_the_next_goes_on(daemon: Daemon) -> None:
    for number in range(6):
        daemon.remember(TEXT, id=f"m{number}")
    merged: list[int] = []
    ctx = context(daemon, progress=lambda done, _: merged.append(done), stopping=lambda: merged == [1, 2])
    report = dedup.run(ctx)

    assert ctx.cut_short
    assert (report.counts["merged"], len(live(daemon))) == (2, 4)
    assert run(daemon)["counts"]["merged"] == 3
    assert len(live(daemon)) == 1


# -- cut short at every write


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Three twins, each with edges, a comment and a former text, in two sessions."""
    opened = Opened(tmp_path)
    opened.stores.settle_fingerprint(opened.embedder.fingerprint)
    opened.add("Ada said hello", id="hello", session="s")
    for number, text in enumerate((TEXT, SMALL, TEXT.upper())):
        opened.add(f"what was said first, number {number}", id=f"m{number}", tags=[f"t{number}"], session="s")
        opened.update(f"m{number}", content=text)
        merging.comment(opened, f"m{number}", f"about {number}")
        connect(opened.stores, f"m{number}", "hello", 2.0, "", opened.now, "secret")
    opened.clock.advance(2 * DAY)
    yield opened
    opened.close()


def by_hand(opened: Opened, stores: Stores, run_id: str, lane: Lane) -> Context:
    return Context(
        stores=stores, lane=lane, settings=Settings(), run_id=run_id, now=opened.now, rng=random.Random(1), dry_run=False,
        stopping=lambda: False, progress=lambda _done, _total: None, learned=LearnBuffer().take, texts=None,  # type: ignore[arg-type]
    )  # fmt: skip


def killed_after(opened: Opened, writes: float, run_id: str) -> bool:
    """A whole run, by an engine that dies after so many writes; whether it did."""
    engine = MortalEngine(opened.engine, Killed())
    stores = Stores(engine, opened.ledger, weights=Weights(), default_sensitivity="personal")
    stores.load()
    engine.writes_left = writes
    lane = Lane("test")
    died = True
    with suppress(Killed):
        dedup.run(by_hand(opened, stores, run_id, lane))
        died = False
    lane.close()
    return died


def telling(image: tuple[dict[str, Any], ...]) -> Any:
    """What an image tells, whatever numbers its versions have: those of an undone edit do not come again."""
    rows, whole, edges, records, vectors = image
    told = sorted(repr({**payload, "number": 0}) for payload in records.values())
    return rows, whole, edges, told, vectors


def test_a_kill_at_whichever_write_leaves_whole_merges_alone(opened: Opened) -> None:
    """The half one is taken back by the next start; those before it stand, and come back by an undo of the run."""
    images = [telling(merging.image(opened))]
    seen = set()
    for writes in count():
        died = killed_after(opened, writes, f"run {writes}")
        opened.reopen()
        unfinished.settle(opened.stores, opened.now)
        assert opened.ledger.fact(unfinished.PENDING) is None
        merged = sum(one.op == dedup.MERGED and not one.undone for one in opened.ledger.journal_of(f"run {writes}"))
        if merged == len(images):
            images.append(telling(merging.image(opened)))
        assert same(telling(merging.image(opened)), images[merged])
        seen.add(merged)
        if not died:
            break
        assert merging.undo(opened, f"run {writes}", by=f"undo {writes}") == []
        assert same(telling(merging.image(opened)), images[0])

    assert seen == {0, 1, 2}
    assert writes > 12
    assert [opened.row(f"m{n}").state for n in range(3)] == ["live", "superseded", "superseded"]
