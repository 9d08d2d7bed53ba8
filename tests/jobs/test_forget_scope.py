"""Forgetting a scope: all that lies in it and below it and nothing else, to come back by an undo, or gone for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from jobs import forget_scope
from jobs.context import BATCH
from jobs.forget_scope import Outcome, Rule
from storage.canaries import Canary
from storage.changes import Erase, Move, RecordChange
from storage.forget import SCRUB_DUE
from storage.ledger import Entry
from storage.model import Memory, point_id
from storage.proposals import Proposal
from storage.records import RECORDS, owner_of, record_key
from tests.disk import asked
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all, row

PLANTED = "xylophone-quartz-4711"


@pytest.fixture
def daemon(daemon: Daemon) -> Daemon:
    """The emptied daemon without what belonged to no memory, too."""
    daemon.in_lane(daemon.stores.records.drop, list(stored(daemon)))
    return daemon


def kept(scope: str, name: str, kind: str = "fact", **fields: Any) -> dict[str, dict[str, Any]]:
    """A record that belongs to a scope, by its key."""
    owner = owner_of(kind, scope)
    payload = {"kind": "note", "owner": owner, "scope": scope, "text": f"{name} {PLANTED}", "sensitivity": "personal"}
    return {record_key(owner, name): {**payload, **fields}}


records = st.dictionaries(st.text("abc", min_size=1, max_size=3), world.scopes, max_size=5).map(
    lambda some: {key: {"kind": "note", "owner": owner_of("x", scope), "scope": scope} for key, scope in some.items()}
)


@for_all(world.rows, records)
def test_every_live_row_goes_to_the_bin_whatever_protects_it_and_every_record_is_journalled(rows, some) -> None:
    changes = forget_scope.plan(rows, some, NOW)

    moves = [change for change in changes if isinstance(change, Move)]
    taken = [change for change in changes if isinstance(change, RecordChange)]
    assert [(move.memory, move.seq) for move in moves] == [(one.id, one.seq) for one in rows]
    assert {move.op for move in moves} <= {"clear"}
    assert {move.fields["forgotten_reason"] for move in moves} <= {"scope"}
    assert {change.key: change.before for change in taken} == some
    assert {change.scope for change in taken} == {payload["scope"] for payload in some.values()}
    assert not [change for change in taken if change.after is not None]


@for_all(world.rows, records)
def test_what_goes_for_good_is_erased_and_no_text_is_journalled(rows, some) -> None:
    assert forget_scope.plan(rows, some, NOW, hard=True) == [Erase(one.id, one.seq) for one in rows]


def test_what_lies_in_the_bin_already_stays_as_it_is_unless_it_goes_for_good() -> None:
    rows: list[Memory] = [row("live"), row("forgotten", forgotten_at=1.0), row("superseded", invalid_at=1.0)]

    assert [one.memory for one in forget_scope.plan(rows, {}, NOW)] == ["live"]
    assert len(forget_scope.plan(rows, {}, NOW, hard=True)) == 3


# -- runs


def put(daemon: Daemon, some: Mapping[str, dict[str, Any]]) -> None:
    daemon.in_lane(daemon.stores.records.put, some)


def stored(daemon: Daemon) -> dict[str, Any]:
    """All records that are there, by key."""

    def look() -> dict[str, Any]:
        batches = daemon.stores.engine.scroll(RECORDS)
        return {one.id: one.payload for batch in batches for one in batch if one.payload["kind"] != "fingerprint"}

    return daemon.in_lane(look)


def images(daemon: Daemon) -> list[Entry]:
    """All that is journalled."""
    return daemon.in_lane(
        lambda: [entry for run in ledger_runs(daemon) for entry in daemon.stores.ledger.journal_of(run)]
    )


def ledger_runs(daemon: Daemon) -> list[str]:
    """Every run that journalled anything, also one that a test made itself."""
    return [row[0] for row in daemon.stores.ledger._db.all("SELECT DISTINCT run FROM journal")]


def run(daemon: Daemon, scope: str, clearance: str = "secret", *, hard: bool = False, **options: Any):
    """The report of a run, all that it did, and its context."""
    outcome = Outcome()
    rule = Rule(scope, clearance, hard)
    ctx = context(daemon, **options)
    report = forget_scope.run(ctx, rule, outcome)
    return report, outcome, ctx


def peopled(daemon: Daemon) -> set[str]:
    """Memories, edges, edits and records in and around the scope `a/b`; returns the ids in it and below it."""
    for scope in ("a", "a/b", "a/b/c", "ab", "a/bc"):
        for n in range(3):
            daemon.remember(f"{PLANTED} note {n} of {scope}", id=f"{scope}-{n}", scope=scope, pinned=n == 0,
                            tier="core" if n == 1 else "short", session="s")  # fmt: skip
        daemon.call("connect", a=f"{scope}-0", b=f"{scope}-2", label=PLANTED)
        daemon.call("update", id=f"{scope}-2", content=f"{PLANTED} edit of {scope}")
        put(daemon, kept(scope, "one") | kept(scope, "two", "turn"))
    return {f"{scope}-{n}" for scope in ("a/b", "a/b/c") for n in range(3)}


def test_row_9_everything_in_the_scope_and_below_it_goes_and_nothing_beside_it(daemon: Daemon) -> None:
    inside = peopled(daemon)
    outside = {key for key, payload in stored(daemon).items() if not payload.get("scope", "").startswith("a/b")
               or payload["scope"] == "a/bc"}  # fmt: skip

    report, outcome, _ = run(daemon, "a/b")

    live = {one["id"] for one in daemon.call("list", scope="*", limit=50)["memories"]}
    assert set(outcome.forgotten) == inside
    assert (outcome.live, outcome.records) == (6, 4)
    assert report.counts == {"forgotten": 6, "records": 4}
    assert len(live) == 9
    assert not live & inside
    assert stored(daemon).keys() == outside
    assert {daemon.call("get", id=memory)["forgotten_reason"] for memory in inside} == {"scope"}
    assert len(daemon.call("history", id="a/b-2")["versions"]) == 1
    assert daemon.call("run_job", name="decay", dry_run=True)["counts"]["deferred"] == 0


def test_what_was_recalled_a_moment_ago_goes_too(daemon: Daemon) -> None:
    """A rule would leave it as in use; here the whole scope was spelt out."""
    daemon.remember("a note", id="m", scope="a")
    daemon.call("recall", query="note", scope="a")

    assert run(daemon, "a")[1].forgotten == ["m"]


def test_above_the_clearance_everything_stays_and_is_told_nowhere(daemon: Daemon) -> None:
    daemon.remember("seen", id="seen", scope="a", sensitivity="public")
    daemon.remember("hidden", id="hidden", scope="a", sensitivity="secret")
    put(daemon, kept("a", "seen", sensitivity="public") | kept("a", "hidden", sensitivity="secret"))

    report, outcome, _ = run(daemon, "a", "public")
    assert (outcome.forgotten, outcome.records) == (["seen"], 1)
    assert "hidden" not in str(report)
    assert {one["id"] for one in daemon.call("list", scope="a")["memories"]} == {"hidden"}

    daemon.remember("seen", id="again", scope="a", sensitivity="public")
    assert sorted(run(daemon, "a", "public", hard=True)[1].forgotten) == ["again", "seen"]
    assert {payload["text"] for payload in stored(daemon).values()} == {f"hidden {PLANTED}"}
    assert daemon.call("get", id="hidden")["state"] == "live"


def test_more_than_one_batch_goes_and_a_stop_ends_it_between_two(daemon: Daemon) -> None:
    daemon.call("remember_many", items=[{"content": f"note {n}", "scope": "a"} for n in range(2 * BATCH + 5)])
    put(daemon, {key: payload for n in range(BATCH + 1) for key, payload in kept("a", f"r{n}").items()})
    asked: list[None] = []

    def stopping() -> bool:
        asked.append(None)
        return len(asked) > 1

    _, first, ctx = run(daemon, "a", stopping=stopping)
    assert (len(first.forgotten), first.records, ctx.cut_short) == (BATCH, 0, True)
    _, second, ctx = run(daemon, "a")
    assert (len(second.forgotten), second.records, ctx.cut_short) == (BATCH + 5, BATCH + 1, False)
    assert stored(daemon) == {}


def test_gone_for_good_leaves_nothing_anywhere_but_in_the_other_scopes(daemon: Daemon) -> None:
    inside = peopled(daemon)
    daemon.call("forget", id="a/b-0")
    daemon.call("merge", survivor="a/b-1", duplicate="a/b-2")
    daemon.call("merge", survivor="a-1", duplicate="a-2")
    run(daemon, "a/b/c")
    daemon.in_lane(daemon.stores.ledger.set_fact, SCRUB_DUE, None)

    report, outcome, _ = run(daemon, "a/b", hard=True)

    assert set(outcome.forgotten) == inside
    assert outcome.live == 1
    assert report.changed == 6 + 2
    assert not [key for key, payload in stored(daemon).items() if payload.get("scope", "").startswith("a/b/")]
    assert not inside & {payload["owner"] for payload in stored(daemon).values()}
    assert not inside & {
        end for _, edge in daemon.in_lane(lambda: list(daemon.stores.synapses.every())) for end in edge[:2]
    }
    assert daemon.in_lane(daemon.stores.ledger.fact, SCRUB_DUE) == daemon.clock.now()
    texts = [one for one in images(daemon) if one.scope in ("a/b", "a/b/c") and (one.before, one.after) != (None, None)]
    assert texts == []
    assert any(PLANTED in str(one.before) for one in images(daemon) if one.scope == "a")
    erased = daemon.in_lane(daemon.stores.ledger.erased_since, 0.0, 0)
    assert {point_id(memory) for memory in inside} <= set(erased)


def test_gone_for_good_leaves_no_pair_that_waits_and_no_question_of_the_scope(daemon: Daemon) -> None:
    """Nor one that was asked above it and found something in it."""
    for scope in ("a/b", "a/b/c", "a"):
        for n in range(2):
            daemon.remember(f"note {n} of {scope}", id=f"{scope}-{n}", scope=scope)
    pairs = [Proposal(f"{scope}-0", f"{scope}-1", scope, 0.9, NOW, "r") for scope in ("a/b", "a/b/c", "a")]
    dense, terms = daemon.parts.gate.question("a note")
    asked = {"a/b": (), "a": ("a-0",), "*": ("a-0", "a/b-0"), "ab": ("a-1",)}
    canaries = [Canary(NOW, scope, "secret", dense, terms, found) for scope, found in asked.items()]
    ledger = daemon.stores.ledger
    daemon.in_lane(ledger.canaries.clear)
    daemon.in_lane(ledger.canaries.add, canaries)
    daemon.in_lane(ledger.proposals.add, pairs)
    run(daemon, "a/b")
    assert len(daemon.in_lane(ledger.proposals.waiting)) == 3
    run(daemon, "a/b", hard=True)

    assert daemon.in_lane(ledger.proposals.waiting) == [pairs[2]]
    assert {one.scope for one in daemon.in_lane(ledger.canaries.every)} == {"a", "ab"}


def test_gone_for_good_leaves_no_byte_of_a_question_of_the_scope_in_any_file(daemon: Daemon) -> None:
    """Neither in the ledger nor in its log, without any scrub."""
    daemon.remember("a note", id="m", scope="a/b")
    ledger = daemon.stores.ledger
    questions = {"a/b": (), "*": ("m",)}
    vectors = [daemon.parts.gate.question(f"which secret is asked in {scope}") for scope in questions]
    canaries = [
        Canary(NOW, scope, "secret", dense, terms, found)
        for (scope, found), (dense, terms) in zip(questions.items(), vectors, strict=True)
    ]
    daemon.in_lane(ledger.canaries.add, canaries)
    assert all(asked(daemon.folder, dense) for dense, _ in vectors)

    run(daemon, "a/b", hard=True)

    assert [asked(daemon.folder, dense) for dense, _ in vectors] == [[], []]


def test_text_that_was_forgotten_before_with_its_scope_is_erased_from_the_journal_too(daemon: Daemon) -> None:
    """The records of the first run are nowhere but in its images."""
    daemon.remember("a note", id="m", scope="x/y")
    put(daemon, kept("x/y", "one") | kept("x", "two"))
    daemon.call("forget_scope", scope="x", confirm="x")
    assert stored(daemon) == {}
    assert len([one for one in images(daemon) if one.before and PLANTED in str(one.before)]) >= 2

    daemon.call("forget_scope", scope="x/y", confirm="x/y", hard=True)

    left = {one.scope: one.before for one in images(daemon) if one.scope in ("x", "x/y") and one.before}
    assert {scope: before["text"] for scope, before in left.items()} == {"x": f"two {PLANTED}"}


def test_a_scope_that_is_gone_for_good_leaves_no_id_in_the_ledger(daemon: Daemon) -> None:
    """Neither of what runs did before, nor of the run that erased it."""
    for name in (f"one-{PLANTED}", f"two-{PLANTED}"):
        daemon.remember("we met at the lake", id=name, scope="x")
    assert daemon.call("run_job", name="dedup")["counts"]["merged"] == 1

    daemon.call("forget_scope", scope="x", confirm="x", hard=True)

    assert PLANTED not in str(daemon.call("runs"))
    written = b"".join(file.read_bytes() for file in (daemon.folder / "state").glob("state.db*"))
    assert PLANTED.encode() not in written


def test_gone_for_good_takes_along_what_a_merge_brought_above_the_clearance(daemon: Daemon) -> None:
    """The survivor is hidden and stays; what was said in the memory that goes must not stay with it."""
    daemon.remember(f"first {PLANTED}", id="twin", scope="a")
    daemon.call("update", id="twin", content="a note")
    daemon.call("comment", id="twin", content=f"remark {PLANTED}")
    daemon.remember("the note", id="kept", scope="a", sensitivity="secret")
    daemon.call("merge", survivor="kept", duplicate="twin")

    daemon.call("forget_scope", scope="a", confirm="a", hard=True, clearance="personal")

    assert [row.id for row in daemon.in_lane(lambda: list(daemon.stores.catalogue.every()))] == ["kept"]
    assert PLANTED not in str(stored(daemon))
    (run,) = daemon.in_lane(lambda: daemon.stores.ledger.runs(job="merge", limit=1))
    assert PLANTED not in str(daemon.in_lane(daemon.stores.ledger.journal_of, run.id))


def test_e10_a_scope_that_is_used_again_revives_nothing(daemon: Daemon) -> None:
    peopled(daemon)
    run(daemon, "a/b", hard=True)
    daemon.remember("a new beginning", id="a/b-2", scope="a/b")

    assert daemon.call("history", id="a/b-2")["versions"] == []
    assert daemon.call("neighbors", id="a/b-2")["neighbors"] == []
    assert [hit["id"] for hit in daemon.call("recall", query=PLANTED, scope="a/b")["hits"]] in ([], ["a/b-2"])
