"""All stores together: opened in order, mended after a crash, read-only where something was lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import pairwise

import pytest

from storage import edge_files
from storage.catalogue import Catalogue
from storage.embed import Fingerprint
from storage.errors import Corrupt
from storage.memories import LIVE
from storage.model import point_id
from storage.store import COLLECTIONS, MARKS, collections
from storage.synapses import Synapses, associate
from tests.storage.opened import Opened


@pytest.fixture
def opened(fresh) -> Opened:
    return fresh


def everything(opened: Opened) -> tuple[object, ...]:
    stores = opened.stores
    ids = [row.id for row in stores.catalogue.every()]
    return (
        stores.memories.read(ids),
        {row.id: row for row in stores.catalogue.every()},
        dict(stores.synapses.every()),
        {memory: stores.records.versions(memory) for memory in ids},
    )


def test_a_restart_changes_nothing(opened) -> None:
    a = opened.add("alpha", session="s", author="Ann", tags=["x"], metadata={"k": [1, None]})
    b = opened.add("beta", session="s", connect_to=[a], event_at=5.0)
    gone = opened.add("gone")
    opened.update(a, content="alpha anew")
    opened.forget(gone)
    opened.forget(opened.add("old"), superseded_by=b)
    before = everything(opened)
    found = opened.found("alpha")

    opened.reopen()

    assert everything(opened) == before
    assert opened.found("alpha") == found
    assert opened.stores.damage == []


def test_a1_a_dangling_edge_is_dropped_at_the_next_start(opened) -> None:
    """A process killed between two writes of an erasure, from either end."""
    a, b = opened.add("alpha"), opened.add("beta")
    opened.stores.synapses.put(
        [associate(a, b, "manual", 2.0, opened.now), associate(a, "never there", "similar", 0.3, opened.now)]
    )
    opened.engine.delete(LIVE, [point_id(b)])

    opened.reopen()

    assert len(opened.stores.synapses) == 0
    assert opened.found("alpha beta") == [a]
    opened.reopen()
    assert len(opened.stores.synapses) == 0


def test_an_edge_to_a_memory_in_the_bin_is_no_dangling_one(opened) -> None:
    a, b = opened.add("alpha"), opened.add("beta")
    opened.stores.synapses.put([associate(a, b, "manual", 2.0, opened.now)])
    opened.forget(b)

    opened.reopen()

    assert len(opened.stores.synapses) == 1


def damaged(opened: Opened) -> None:
    """Cut the id tracker of the memories, which the engine loads without a word."""
    opened.stores.flush()
    opened.close()
    (segment,) = edge_files.segments(opened.folder / "store" / LIVE).values()
    mappings = segment / "mutable_id_tracker.mappings"
    os.truncate(mappings, mappings.stat().st_size // 2)
    opened.open()


def test_a_store_that_lost_something_is_read_only_and_says_so(opened) -> None:
    ids = [opened.add(f"alpha {n}") for n in range(40)]
    opened.stores.synapses.put([associate(a, b, "manual", 2.0, opened.now) for a, b in pairwise(ids)])
    damaged(opened)

    assert opened.stores.damage
    with pytest.raises(Corrupt) as refused:
        opened.stores.check_writable()
    assert "restore_snapshot" in refused.value.hint
    assert opened.found("alpha")
    assert len(opened.stores.synapses) == 39
    marks = opened.ledger.fact(MARKS)
    opened.stores.flush()
    assert opened.ledger.fact(MARKS) == marks
    opened.reopen()
    assert opened.stores.damage


def test_a_whole_store_may_be_written_after_deletes_moves_and_rewrites(opened) -> None:
    ids = [opened.add(f"alpha {n}") for n in range(20)]
    opened.stores.flush()
    opened.forget(*ids[:10])
    opened.forget(*ids[10:15], hard=True)
    assert opened.stores.rewrite(LIVE)
    opened.reopen()
    opened.stores.check_writable()

    opened.stores.rewrite(LIVE, scrub=True)
    opened.reopen()

    opened.stores.check_writable()
    assert len(opened.stores.catalogue) == 5
    assert not opened.stores.rewrite("synapses")


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from tests.storage.opened import Opened

    opened = Opened(Path(sys.argv[1]))
    ids = [opened.add(f"alpha {n}", session="s") for n in range(30)]
    opened.stores.flush()
    opened.forget(*ids[:8])
    opened.forget(*ids[8:12], hard=True)
    opened.update(ids[12], content="alpha anew", tags=["x"])
    opened.add("the last one", id="last", connect_to=[ids[13]])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_acknowledged_survives_a_kill_and_deletes_are_no_damage(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], check=False, timeout=100)
    assert done.returncode == -signal.SIGKILL

    opened = Opened(tmp_path)

    assert opened.stores.damage == []
    assert (len(opened.stores.catalogue), opened.stores.catalogue.gone_count) == (19, 8)
    assert opened.read("last").content == "the last one"
    assert sum(edge.kind == "manual" for edge in opened.stores.synapses.of("last")) == 1
    assert [row.version for row in opened.stores.catalogue.rows() if row.tags == ("x",)] == [2]
    opened.close()


def test_of_a_store_that_was_replaced_nothing_stays_in_ram(opened) -> None:
    opened.add("alpha", id="a", session="s", author="Ann")
    opened.add("beta", id="b", session="s", connect_to=["a"])
    opened.forget(opened.add("gone"))
    fingerprint = opened.stores.settle_fingerprint(opened.embedder.fingerprint)
    for name in COLLECTIONS:
        for batch in list(opened.engine.scroll(name, fields=[])):
            opened.engine.delete(name, [record.id for record in batch])
    opened.stores.damage = ["until now"]

    opened.stores.reload()

    for one, new in ((opened.stores.catalogue, Catalogue()), (opened.stores.synapses, Synapses(opened.engine))):
        assert vars(one) | {"_latest": 0.0} == vars(new) | {"_latest": 0.0}
    assert fingerprint is not None
    assert opened.stores.records.fingerprint() is None
    assert opened.stores.damage == []
    assert opened.found("alpha") == []
    opened.add("alpha", id="a")
    assert opened.found("alpha") == ["a"]


def test_an_absence_counts_from_the_moment_it_is_taken_in(opened) -> None:
    opened.ledger.add_absence(opened.now, opened.now + 3600)
    assert opened.stores.awake.absences == ()

    opened.stores.reload_absences()

    assert opened.stores.awake.seconds(opened.now, opened.now + 7200) == 3600


def test_a_new_store_takes_the_embedders_fingerprint_and_an_old_one_keeps_its_own(opened) -> None:
    first = opened.embedder.fingerprint
    assert opened.stores.settle_fingerprint(None) is None

    assert opened.stores.settle_fingerprint(first) == first
    assert opened.stores.settle_fingerprint(replace(first, model="other")) == first
    opened.reopen()
    assert opened.stores.settle_fingerprint(None) == first
    assert isinstance(opened.stores.settle_fingerprint(None), Fingerprint)


def test_whole_memories_are_read_for_rows(opened) -> None:
    opened.add("alpha", id="a")
    opened.add("beta", id="b")

    texts = opened.stores.texts(opened.stores.catalogue.rows())

    assert {memory: texts[memory].content for memory in texts} == {"a": "alpha", "b": "beta"}


def test_every_collection_is_declared() -> None:
    assert tuple(one.name for one in collections(64)) == COLLECTIONS
    assert {one.name: one.dimension for one in collections(64)} == {LIVE: 64, "bin": 64, "synapses": 0, "records": 0}
