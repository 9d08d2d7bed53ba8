"""What a run had written that a kill cut short is taken back by the next start."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from daemon.client import CallError
from jobs import unfinished
from storage import merge
from storage.changes import Edge, Insert, Patch, RecordChange
from storage.errors import Unavailable
from storage.exchange.census import memory_of
from storage.facts import fact_payload
from storage.memories import Vectors
from storage.model import scored_text
from storage.rank import Weights
from storage.store import Stores
from storage.synapses import associate
from tests.bench.process import Process
from tests.fakes import Killed, MortalEngine
from tests.harness import Daemon
from tests.storage import merging
from tests.storage.opened import Opened

WORDLLAMA = {"DREAMD_EMBEDDING__PROVIDER": "wordllama", "DREAMD_STORAGE__RESERVE_MB": "16"}
COUNT = 2_000


@pytest.fixture
def process(folder: Path) -> Iterator[Process]:
    """A real daemon with the quicker embedder, not started yet."""
    process = Process(folder, WORDLLAMA)
    yield process
    process.kill()


@pytest.mark.parametrize("progress", [1, COUNT // 2, COUNT + 200])
def test_an_import_that_is_killed_half_way_leaves_nothing_behind(process: Process, folder: Path, progress: int) -> None:
    """Killed among the first memories, in the middle of them, and among the edges."""
    path = folder / "big.jsonl"
    with path.open("w") as file:
        for n in range(COUNT):
            file.write(json.dumps({"id": f"m{n}", "content": f"locker {n} is on floor {n % 7}"}) + "\n")
        for n in range(COUNT - 1):
            file.write(json.dumps({"kind": "edge", "a": f"m{n}", "b": f"m{n + 1}", "weight": 1.5}) + "\n")
        for n in range(50):
            file.write(json.dumps({"kind": "fact", "key": f"k{n}", "value": n}) + "\n")
    process.start()
    with process.client() as client:
        client.call("remember", content="mine", id="mine")
        client.call("fact_set", key="k0", value="ours")
        with suppress(CallError):  # the answer never comes
            for told in client.stream("import", path=str(path)):
                assert told.keys() == {"progress"}
                if told["progress"]["total"] and told["progress"]["done"] >= progress:
                    process.kill()
    assert process.process is None
    process.start()
    with process.client() as client:
        assert client.call("stats", scope="*")["total"] == 1
        assert client.call("list", scope="*", state="forgotten")["memories"] == []
        assert client.call("graph_stats")["edges"] == 0
        assert client.call("fact_list")["facts"] == {"k0": "ours"}
        run = client.call("runs", job="import")["runs"][0]
        assert (run["outcome"], run["reason"]) == ("cancelled", "cut_off")
        assert client.call("health")["status"] == "ok"
        again = client.call("import", path=str(path))
        assert (again["imported"], again["skipped"], again["failed"]) == (COUNT, 0, [])
        assert again["kept"] == {"fact": 1}


def half(process: Process) -> dict[str, object]:
    """What a merge would have changed, as the wire tells it."""
    with process.client() as client:
        memories = {one: client.call("get", id=one) for one in ("kept", "twin")}
        return {
            "states": {one: memory["state"] for one, memory in memories.items()},
            "tags": {one: sorted(memory["tags"]) for one, memory in memories.items()},
            "degrees": {one: len(client.call("neighbors", id=one)["neighbors"]) for one in memories},
            "versions": {one: len(client.call("history", id=one, limit=100)["versions"]) for one in memories},
            "comments": {one: len(client.call("comments", id=one)["comments"]) for one in memories},
        }


def test_a_merge_that_is_killed_half_way_is_whole_or_was_never_made(process: Process, folder: Path) -> None:
    """Killed as soon as its images are in the journal, 700 edges and a history before it would be through."""
    path = folder / "twins.jsonl"
    memories = [{"id": one, "content": f"Ada likes tea, {one}", "tags": [one]} for one in ("kept", "twin")]
    memories += [{"id": f"m{n}", "content": f"locker {n} is on floor {n % 7}"} for n in range(700)]
    edges = [{"kind": "edge", "a": "twin", "b": f"m{n}", "weight": 1.5} for n in range(700)]
    path.write_text("\n".join(map(json.dumps, memories + edges)))
    process.start()
    with process.client() as client:
        client.call("import", path=str(path))
        client.call("update", id="twin", content="Ada likes green tea")
        client.call("comment", id="twin", content="which?")
    before = half(process)
    with process.client() as client, ThreadPoolExecutor(1) as pool:
        merge = pool.submit(client.call, "merge", survivor="kept", duplicate="twin")
        ledger = sqlite3.connect(folder / "state" / "state.db")
        while not ledger.execute("SELECT 1 FROM journal JOIN runs ON run = id WHERE job = 'merge'").fetchone():
            assert not merge.done()
        process.kill()
        ledger.close()
        with suppress(CallError):
            merge.result(60)
    process.start()

    after = half(process)
    with process.client() as client:
        assert client.call("health")["status"] == "ok"
        if after != before:
            assert after["states"] == {"kept": "live", "twin": "superseded"}
            assert after["degrees"] == {"kept": 700, "twin": 0}
            assert after["comments"] == {"kept": 1, "twin": 0}
            (run, *_) = client.call("runs", job="merge")["runs"]
            assert run["outcome"] == "changed"
        else:
            client.call("merge", survivor="kept", duplicate="twin")
            assert half(process)["degrees"] == {"kept": 700, "twin": 0}


# -- by hand


def written(daemon: Daemon, run: str) -> None:
    """What a run wrote: two memories, an edge between them and a fact."""

    def write() -> None:
        now = daemon.clock.now()
        memories = [memory_of({"id": one, "content": f"note {one}", "sensitivity": "personal"}, now) for one in "ab"]
        texts = [scored_text(one.author, one.content) for one in memories]
        vectors: list[Vectors] = daemon.parts.gate.vectors(texts)
        edge = associate("a", "b", "manual", 1.0, now)
        key, payload = fact_payload("unfinished", "k", 1, "personal", now, now)
        unfinished.begin(daemon.stores, run)
        daemon.stores.changer.apply(run, [Insert(*one) for one in zip(memories, vectors, strict=True)], now)
        changes = [Edge(edge.key, None, edge, "default"), RecordChange(key, None, payload, "unfinished")]
        daemon.stores.changer.apply(run, changes, now)

    daemon.in_lane(write)


def settled(daemon: Daemon) -> tuple[set[str], int, bool]:
    """The memories, how many edges, and whether the fact is there, after a start."""
    daemon.in_lane(unfinished.settle, daemon.stores, daemon.clock.now())
    rows = daemon.in_lane(lambda: {row.id for row in daemon.stores.catalogue.every()})
    facts = daemon.call("fact_list", scope="unfinished")["facts"]
    assert daemon.in_lane(daemon.stores.ledger.fact, unfinished.PENDING) is None
    return rows, daemon.in_lane(lambda: len(daemon.stores.synapses)), "k" in facts


def test_what_a_run_wrote_that_is_not_through_goes(daemon: Daemon) -> None:
    written(daemon, "r1")

    assert settled(daemon) == (set(), 0, False)
    assert settled(daemon) == (set(), 0, False)


def test_what_a_run_wrote_that_is_through_stays(daemon: Daemon) -> None:
    written(daemon, "r2")
    daemon.in_lane(unfinished.end, daemon.stores, "r2")

    assert settled(daemon) == ({"a", "b"}, 1, True)
    daemon.call("fact_delete", key="k", scope="unfinished")


def test_what_was_changed_since_stays_with_what_it_stands_on(daemon: Daemon) -> None:
    written(daemon, "r3")
    daemon.call("update", id="a", content="edited")
    daemon.call("fact_set", key="k", value=2, scope="unfinished")

    assert settled(daemon) == ({"a"}, 0, True)
    daemon.call("fact_delete", key="k", scope="unfinished")


def test_without_a_run_there_is_nothing_to_settle(daemon: Daemon) -> None:
    memory = daemon.remember("mine")

    assert settled(daemon) == ({memory}, 0, False)


# -- cut short at every write


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Opened]:
    """Two memories that say the same, with all that a merge moves, and edges in more than one batch of writes."""
    opened = merging.twins(Opened(tmp_path))
    others = [opened.add(f"locker {n}") for n in range(300)]
    opened.stores.synapses.put([associate("d", other, "manual", 1.0, opened.now) for other in others])
    yield opened
    opened.close()


def killed_after(opened: Opened, writes: int) -> bool:
    """Merge as the runner does it, by an engine that dies after so many writes; whether it did."""
    engine = MortalEngine(opened.engine, Killed())
    stores = Stores(engine, opened.ledger, weights=Weights(), default_sensitivity="personal")
    stores.load()
    engine.writes_left = writes
    changes = merge.intended(stores, "s", "d", "secret", opened.now)
    unfinished.begin(stores, f"run {writes}")
    try:
        stores.changer.apply(f"run {writes}", changes, opened.now)
    except Killed:
        return True
    unfinished.end(stores, f"run {writes}")
    return False


def test_a_merge_that_is_cut_short_at_whichever_write_was_never_made(cut: Opened) -> None:
    before = merging.image(cut)
    for writes in count():
        died = killed_after(cut, writes)
        cut.reopen()
        unfinished.settle(cut.stores, cut.now)
        assert cut.ledger.fact(unfinished.PENDING) is None
        if not died:
            break
        assert merging.image(cut) == before
        unfinished.settle(cut.stores, cut.now)
        assert all(entry.undone for entry in cut.ledger.journal_of(f"run {writes}"))

    assert writes > 8
    assert cut.row("d").superseded_by == "s"
    assert merging.undo(cut, f"run {writes}") == []
    assert merging.image(cut) == before


def test_what_takes_back_a_merge_may_be_cut_short_at_whichever_write_too(cut: Opened) -> None:
    before = merging.image(cut)
    assert killed_after(cut, 8)
    for writes in count():
        cut.reopen()
        engine = MortalEngine(cut.engine, Killed())
        stores = Stores(engine, cut.ledger, weights=Weights(), default_sensitivity="personal")
        stores.load()
        engine.writes_left = writes
        with suppress(Killed):
            unfinished.settle(stores, cut.now)
            break
    cut.reopen()

    assert writes > 1
    assert merging.image(cut) == before
    assert merging.undo(cut, "run 8") == []
    assert merging.image(cut) == before


def test_an_undo_says_nothing_of_what_a_cut_off_run_never_came_to(cut: Opened) -> None:
    """Neither restored nor left: it is as it was before."""
    before = merging.image(cut)
    assert killed_after(cut, 3)
    cut.reopen()

    assert merging.undo(cut, "run 3") == []
    assert merging.image(cut) == before


def test_several_runs_are_taken_back_and_one_that_is_through_takes_no_other_with_it(daemon: Daemon) -> None:
    """A merge by hand comes and goes while an import is under way."""
    written(daemon, "import")
    daemon.in_lane(unfinished.begin, daemon.stores, "merge")
    daemon.in_lane(unfinished.end, daemon.stores, "merge")
    assert daemon.in_lane(daemon.stores.ledger.fact, unfinished.PENDING) == {"import": 0}

    assert settled(daemon) == (set(), 0, False)


def test_what_a_release_before_noted_is_taken_back_too(daemon: Daemon) -> None:
    written(daemon, "r4")
    daemon.in_lane(daemon.stores.ledger.set_fact, unfinished.PENDING, ["r4"])

    assert settled(daemon) == (set(), 0, False)


# -- a run of several parts


def tagged(daemon: Daemon, run: str, tag: str, error: BaseException | None = None) -> None:
    """One part of a run, which fails once it is written where an error is given."""

    def write() -> None:
        row, now = daemon.stores.memories.row("m"), daemon.clock.now()
        with unfinished.whole(daemon.stores, run, now):
            daemon.stores.changer.apply(run, [Patch("m", row.seq, {"tags": (*row.tags, tag)})], now)
            if error is not None:
                raise error

    daemon.in_lane(write)


def tags(daemon: Daemon) -> list[str]:
    found: list[str] = daemon.call("get", id="m")["tags"]
    return found


def test_of_a_run_of_several_parts_the_next_start_takes_back_the_one_that_was_cut_short(daemon: Daemon) -> None:
    daemon.remember("mine", id="m")
    for part in ("one", "two"):
        tagged(daemon, "parts", part)
    with pytest.raises(Killed):
        tagged(daemon, "parts", "three", Killed())
    assert tags(daemon) == ["one", "two", "three"]
    settled(daemon)

    assert tags(daemon) == ["one", "two"]
    told = daemon.in_lane(daemon.stores.ledger.journal_of, "parts")
    assert [one.undone for one in told] == [True, True, False, False]  # what took it back, and three; two and one
    settled(daemon)
    assert tags(daemon) == ["one", "two"]


def test_a_part_that_fails_is_taken_back_at_once(daemon: Daemon) -> None:
    daemon.remember("mine", id="m")
    tagged(daemon, "fails", "one")
    with pytest.raises(Unavailable):
        tagged(daemon, "fails", "two", Unavailable("no room", hint="make some"))

    assert tags(daemon) == ["one"]
    assert daemon.in_lane(daemon.stores.ledger.fact, unfinished.PENDING) is None
    tagged(daemon, "fails", "three")
    assert tags(daemon) == ["one", "three"]
