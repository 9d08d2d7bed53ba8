"""One store takes another's place: wholly or not at all, whatever happens in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from storage import swap
from storage.canaries import Canary
from storage.errors import Corrupt, Unavailable
from storage.forget import SCRUB_DUE
from storage.ledger import Ledger
from storage.proposals import Proposal
from storage.store import MARKS
from storage.swap import ERASE_AGAIN, NEXT, READY, RESTORES, STORE, Arrival, exchanged, settle
from tests.disk import asked
from tests.storage.opened import Opened

OLD, NEW = {"memories/page": "old"}, {"memories/page": "new", "records/page": "new"}
SNAPSHOT = "snapshots/before/store"
ARRIVAL = Arrival(SNAPSHOT, {"memories": [1, 2]}, at=200.0, taken_at=100.0, erasures=3)
MANIFEST = '{"what": "it was"}'


def lay(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def lies(folder: Path) -> dict[str, str] | None:
    if not folder.exists():
        return None
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def two_stores(state: Path) -> None:
    """A state folder with a store, and another that is whole beside it."""
    state.mkdir(parents=True, exist_ok=True)
    lay(state / STORE, OLD)
    lay(state / NEXT, NEW)
    with closing(Ledger(state / "state.db")) as ledger:
        ledger.set_fact(MARKS, {"memories": [9, 9]})
        ledger.keep_answer("early", "remember", "-", {}, 99.0)
        ledger.keep_answer("late", "remember", "-", {}, 100.0)


@pytest.fixture
def state(tmp_path) -> Path:
    two_stores(tmp_path)
    return tmp_path


@pytest.fixture
def ledger(state) -> Iterator[Ledger]:
    with closing(Ledger(state / "state.db")) as ledger:
        yield ledger


def told(ledger: Ledger) -> bool:
    """Whether the ledger knows of the new store; it knows all of it or nothing."""
    facts = [ledger.fact(MARKS), ledger.fact(RESTORES), ledger.fact(ERASE_AGAIN), ledger.answer("late", since=0.0)]
    if facts[:3] == [{"memories": [1, 2]}, [[100.0, 200.0]], [100.0, 200.0, 3]]:
        assert facts[3] is None
        assert ledger.answer("early", since=0.0) is not None
        return True
    assert facts[:3] == [{"memories": [9, 9]}, None, None]
    assert facts[3] is not None
    return False


def test_the_new_store_takes_the_place_of_the_old_one_which_becomes_a_snapshot(state, ledger) -> None:
    with exchanged(state, ARRIVAL, ledger, lambda: MANIFEST):
        assert lies(state / STORE)["memories/page"] == "new"
        assert not told(ledger)

    assert lies(state / STORE) == NEW
    assert lies(state / SNAPSHOT) == OLD
    assert (state / "snapshots/before/manifest.json").read_text() == MANIFEST
    assert not (state / NEXT).exists()
    assert told(ledger)
    settle(state, ledger)
    assert lies(state / STORE) == NEW
    assert told(ledger)


def test_a_damaged_store_is_kept_as_it_is_under_another_name(state, ledger) -> None:
    with exchanged(state, ARRIVAL._replace(outgoing="store.corrupt-1"), ledger):
        pass

    assert lies(state / "store.corrupt-1") == OLD
    assert lies(state / STORE) == NEW


def test_a_store_that_is_not_there_any_more_goes_nowhere(state, ledger) -> None:
    (state / STORE).rename(state / "elsewhere")

    with exchanged(state, ARRIVAL._replace(outgoing=None), ledger):
        pass

    assert lies(state / STORE) == NEW
    assert told(ledger)


def test_what_was_made_of_no_snapshot_changes_nothing_else_in_the_ledger(state, ledger) -> None:
    arrival = ARRIVAL._replace(taken_at=None, scrub=True)
    with exchanged(state, arrival, ledger, lambda: MANIFEST):
        pass

    assert ledger.fact(MARKS) == {"memories": [1, 2]}
    assert ledger.fact(SCRUB_DUE) == 200.0
    assert (ledger.fact(RESTORES), ledger.fact(ERASE_AGAIN)) == (None, None)
    assert ledger.answer("late", since=0.0) is not None


class Failed(Exception):
    pass


@pytest.mark.parametrize("outgoing", [SNAPSHOT, "store.corrupt-1", None])
def test_where_the_new_store_cannot_serve_everything_is_as_it_was(state, ledger, outgoing) -> None:
    if outgoing is None:
        (state / STORE).rename(state / "elsewhere")
    manifest = (lambda: MANIFEST) if outgoing == SNAPSHOT else None
    with pytest.raises(Failed), exchanged(state, ARRIVAL._replace(outgoing=outgoing), ledger, manifest):
        raise Failed

    assert lies(state / STORE) == (None if outgoing is None else OLD)
    assert lies(state / NEXT) == NEW
    assert not (state / "snapshots/before").exists()
    assert not (state / "store.corrupt-1").exists()
    assert not told(ledger)
    with exchanged(state, ARRIVAL._replace(outgoing=outgoing), ledger, manifest):
        pass
    assert told(ledger)


def test_case45_where_the_file_system_refuses_a_move_the_error_names_it_and_everything_is_as_it_was(
    state, ledger
) -> None:
    lay(state / "store.corrupt-1", {"in": "the way"})
    with (
        pytest.raises(Unavailable, match="not empty") as refused,
        exchanged(state, ARRIVAL._replace(outgoing="store.corrupt-1"), ledger),
    ):
        pass

    assert str(state) in refused.value.hint
    assert (lies(state / STORE), lies(state / NEXT)) == (OLD, NEW)
    assert not told(ledger)


def test_without_a_new_store_the_old_one_does_not_move(state, ledger) -> None:
    (state / NEXT).rename(state / "elsewhere")

    with pytest.raises(Unavailable), exchanged(state, ARRIVAL, ledger, lambda: MANIFEST):
        pass

    assert lies(state / STORE) == OLD
    assert not (state / "snapshots").exists()


def test_a_mark_that_cannot_be_read_moves_nothing(state, ledger) -> None:
    (state / NEXT / READY).write_text("{")

    with pytest.raises(Corrupt, match="READY"):
        settle(state, ledger)

    assert lies(state / STORE) == OLD


def test_only_what_never_served_is_emptied(state) -> None:
    assert list(swap.cleared(state).iterdir()) == []
    swap.discard(state)
    swap.discard(state)

    assert lies(state / NEXT) is None
    assert lies(state / STORE) == OLD


#: Kills a child at each rename and removal in turn, and once after the last; prints how many steps there are.
KILLED = """
import os, signal, sys
from contextlib import closing
from pathlib import Path
from tests.storage import test_swap as t

def kill_at(number):
    left = [number]
    def hook(event, arguments):
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir") or (event == "open" and arguments[1] == "w"):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

number, killed = 0, True
while killed:
    number += 1
    state = Path(sys.argv[1], str(number))
    t.two_stores(state)
    child = os.fork()
    if not child:
        with closing(t.Ledger(state / "state.db")) as ledger:
            kill_at(number)
            with t.exchanged(state, t.ARRIVAL, ledger, lambda: t.MANIFEST):
                pass
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
print(number)
"""


def test_c14_a_kill_at_any_step_leaves_the_old_store_or_the_new_one_whole(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=True)
    count = int(done.stdout)
    assert count > 8
    outcomes = []
    for number in range(1, count + 1):
        state = tmp_path / str(number)
        with closing(Ledger(state / "state.db")) as ledger:
            settle(state, ledger)
            settle(state, ledger)
            came = lies(state / STORE) == NEW
            outcomes.append(came)
            assert told(ledger) == came
            assert lies(state / STORE) == (NEW if came else OLD)
            assert lies(state / SNAPSHOT) == (OLD if came else None)
            assert (state / "snapshots/before/manifest.json").exists() == came
            assert not (state / NEXT / READY).exists()
            if not came:
                with suppress(FileNotFoundError):
                    (state / NEXT / f".{READY}.new").unlink()
                assert lies(state / NEXT) == NEW
                with exchanged(state, ARRIVAL, ledger, lambda: MANIFEST):
                    pass
                assert lies(state / STORE) == NEW
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


def test_what_was_erased_after_the_snapshot_is_erased_again_and_a_scrub_is_due(fresh: Opened) -> None:
    for name in ("stays", "erased", "before"):
        fresh.add(f"text of {name}", id=name)
    fresh.stores.records.put({"00000000-0000-0000-0000-00000000000f": {"kind": "odd", "owner": "x"}})
    fresh.ledger.note_erased([fresh.stores.catalogue.point("before")], 50.0)
    erasures = fresh.ledger.last_erasure()
    fresh.ledger.note_erased([fresh.stores.catalogue.point("erased"), "00000000-0000-0000-0000-00000000000f"], 60.0)
    fresh.ledger.set_fact(ERASE_AGAIN, [100.0, 200.0, erasures])
    fresh.ledger.proposals.add(
        [Proposal(*pair, "s", 0.9, 1.0, "r") for pair in (("before", "erased"), ("before", "stays"))]
    )
    dense, terms = fresh.gate.question("where did the secret ship sail")
    fresh.ledger.canaries.add([Canary(50.0, "s", "secret", dense, terms, ("erased",))])
    assert asked(fresh.folder, dense) != []

    swap.erase_again(fresh.stores)

    assert {row.id for row in fresh.stores.catalogue.every()} == {"stays", "before"}
    assert fresh.stores.records.get(["00000000-0000-0000-0000-00000000000f"]) == {}
    assert fresh.ledger.fact(SCRUB_DUE) == 200.0
    assert fresh.ledger.fact(ERASE_AGAIN) is None
    assert [one.b for one in fresh.ledger.proposals.waiting()] == ["stays"]
    assert asked(fresh.folder, dense) == []
    fresh.ledger.set_fact(SCRUB_DUE, None)
    swap.erase_again(fresh.stores)
    assert fresh.ledger.fact(SCRUB_DUE) is None
