"""Snapshots: whole copies that tell what they are, are trusted only as far as they hold what they held, and come back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import edge_files, snapshots, swap
from storage.edge import EdgeEngine
from storage.embed import Fingerprint
from storage.errors import Corrupt, Invalid, NotFound, Refused, Unavailable
from storage.forget import SCRUB_DUE
from storage.manifest import Manifest
from storage.memories import LIVE
from storage.model import DAY
from storage.snapshots import SNAPSHOTS, Coming
from storage.store import COLLECTIONS, collections
from storage.swap import MANIFEST, NEXT, PROGRESS, STORE
from tests.storage.kept import MADE_BY, cut, everything, filled, manifest_path, restore, take, tracker, unpack
from tests.storage.opened import Opened

Damage = Callable[[Path], None]


@pytest.fixture
def opened(fresh: Opened) -> Opened:
    """A store of three memories, one of them in the bin, an edge and a former version."""
    return filled(fresh)


# -- names and lists


def test_a_snapshot_tells_when_it_was_taken_by_what_and_what_it_holds(opened) -> None:
    taken = take(opened, "before-the-move")

    assert taken.name == "20260101T000000Z-before-the-move"
    assert (taken.fault, taken.damaged) == ("", False)
    assert taken.bytes < 2 << 20
    (listed,) = snapshots.every(opened.folder)
    assert listed == taken
    manifest = listed.manifest
    assert manifest is not None
    assert (manifest.taken_at, manifest.label, manifest.made_by) == (opened.now, "before-the-move", MADE_BY)
    assert manifest.embedder == opened.embedder.fingerprint
    assert {name: manifest.points(name) for name in COLLECTIONS} == opened.engine.counts()
    assert json.loads(manifest_path(opened, taken.name).read_text())["memories"] == 2
    assert {path.stat().st_mode & 0o777 for path in (opened.folder / SNAPSHOTS).rglob(".partial*")} == set()


def test_names_sort_by_time_and_two_of_one_second_differ(opened) -> None:
    names = [take(opened, "b").name, take(opened, "a").name, take(opened).name]
    opened.clock.advance(60)
    names.append(take(opened).name)

    assert names == sorted(names)
    assert len({name[:16] for name in names}) == 4
    assert [one.name for one in snapshots.every(opened.folder)] == names[::-1]


@settings(deadline=None)
@given(st.text(max_size=80))
def test_a_label_becomes_a_part_of_a_file_name_or_is_refused(label) -> None:
    try:
        cleaned = snapshots.clean_label(label)
    except Invalid:
        assert not set(label.lower()) & set("abcdefghijklmnopqrstuvwxyz0123456789")
    else:
        assert set(cleaned) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(cleaned) <= 40
        assert cleaned == cleaned.strip("-")
        assert snapshots.clean_label(cleaned) == cleaned


@pytest.mark.parametrize(
    ("label", "cleaned"),
    [("", ""), ("  ", ""), ("Before the Move!", "before-the-move"), ("../../etc", "etc"), ("Été 2026", "ete-2026")],
)
def test_labels(label, cleaned) -> None:
    assert snapshots.clean_label(label) == cleaned


def test_a_label_of_another_script_is_refused_rather_than_lost() -> None:
    with pytest.raises(Invalid, match="a-z"):
        snapshots.clean_label("搬家之前")


def test_an_unknown_name_is_not_found_and_the_known_ones_are_told(opened) -> None:
    with pytest.raises(NotFound, match="none yet"):
        snapshots.find(opened.folder, "x")
    name = take(opened).name

    for unknown in ("x", "../store", f"{name}/store", "", "."):
        with pytest.raises(NotFound, match=name):
            snapshots.find(opened.folder, unknown)


def test_snapshots_that_hold_what_was_there_at_a_time_are_counted(opened) -> None:
    then = opened.now
    take(opened)
    opened.clock.advance(100)
    broken = take(opened).name
    manifest_path(opened, broken).write_text("{")

    assert snapshots.holding(opened.folder, then) == 2
    assert snapshots.holding(opened.folder, then + 50) == 1
    assert snapshots.holding(opened.folder, then + 500) == 1  # one that does not tell its time may


def test_the_newest_good_one_of_the_last_day_is_fresh(opened) -> None:
    assert snapshots.fresh(opened.folder, opened.now) is None
    first = take(opened, "by-hand").name
    opened.clock.advance(3600)
    second = take(opened, snapshots.NIGHTLY).name
    now = opened.now

    assert snapshots.fresh(opened.folder, now - 3600) == first  # the second is from the future then
    assert snapshots.fresh(opened.folder, now) == second
    assert snapshots.fresh(opened.folder, now + DAY) == second
    assert snapshots.fresh(opened.folder, now + DAY + 1) is None
    assert snapshots.fresh(opened.folder, now - 3601) is None
    cut(opened.folder / SNAPSHOTS / second)
    assert snapshots.fresh(opened.folder, now) == first
    manifest_path(opened, first).write_text("{")
    assert snapshots.fresh(opened.folder, now) is None


# -- room, and what is left behind


def test_without_room_nothing_is_left_behind(opened) -> None:
    engine, opened.stores.engine = opened.stores.engine, NoRoom(opened.stores.engine)
    with pytest.raises(Unavailable):
        take(opened)
    opened.stores.engine = engine
    name = take(opened).name

    with pytest.raises(Unavailable, match="MiB are needed"):
        unpack(opened, name, reserve_mb=1 << 40)

    assert [path.name for path in (opened.folder / SNAPSHOTS).iterdir()] == [name]
    assert not (opened.folder / NEXT).exists()


class NoRoom:
    """An engine that has no room for a copy, half way through it."""

    def __init__(self, engine: EdgeEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def copy_to(self, target: Path) -> None:
        self._engine.copy_to(target, LIVE)
        raise Unavailable("no room", hint="df")


def test_a_copy_that_is_not_whole_gets_no_name(opened) -> None:
    draft = snapshots.copied(opened.stores, "", opened.now, MADE_BY)
    (segment,) = edge_files.segments(draft.folder / STORE / LIVE).values()
    os.truncate(segment / "mutable_id_tracker.mappings", 10)

    with pytest.raises(Unavailable, match="not whole"):
        snapshots.finished(draft)

    assert snapshots.every(opened.folder) == []
    assert list((opened.folder / SNAPSHOTS).iterdir()) == []


def test_what_a_kill_left_of_a_copy_is_scrap_and_a_reindex_may_go_on(opened) -> None:
    draft = snapshots.copied(opened.stores, "", opened.now, MADE_BY)
    swap.cleared(opened.folder).joinpath("half").touch()
    (opened.folder / SNAPSHOTS / ".leaving-x").mkdir()
    (opened.folder / SNAPSHOTS / ".leaving-x" / "rest").touch()
    assert snapshots.every(opened.folder) == []

    snapshots.clear_scrap(opened.folder)

    assert list((opened.folder / SNAPSHOTS).iterdir()) == []
    assert not draft.folder.exists()
    assert not (opened.folder / NEXT).exists()
    swap.cleared(opened.folder).joinpath(PROGRESS).touch()
    snapshots.clear_scrap(opened.folder)
    assert (opened.folder / NEXT / PROGRESS).exists()


# -- restoring


def test_a_restore_brings_everything_back_and_keeps_what_was_there_as_a_snapshot(opened) -> None:
    before, found = everything(opened), opened.found("green tea")
    name = take(opened).name
    opened.clock.advance(60)
    opened.update("tea", content="washed away")
    opened.forget("cake", hard=False)
    opened.add("later", id="later")
    later = everything(opened)

    former = restore(opened, name)

    assert everything(opened) == before
    assert opened.found("green tea") == found
    assert former == "20260101T000100Z-before-restore"
    opened.reopen()
    assert opened.stores.damage == []
    assert everything(opened) == before
    opened.add("it can be written", id="new")
    assert restore(opened, former) is not None
    assert everything(opened) == later
    assert not (opened.folder / NEXT).exists()
    assert [one.fault for one in snapshots.every(opened.folder)] == ["", "", ""]


def test_what_was_erased_for_good_since_does_not_come_back(opened) -> None:
    name = take(opened).name
    opened.clock.advance(60)
    opened.forget("cake", hard=True)
    opened.ledger.set_fact(SCRUB_DUE, None)

    restore(opened, name)

    assert {row.id for row in opened.stores.catalogue.every()} == {"tea", "gone"}
    assert len(opened.stores.synapses) == 0
    assert opened.found("cake") == ["tea"]
    assert opened.ledger.fact(SCRUB_DUE) == opened.now
    opened.reopen()
    assert opened.stores.damage == []
    assert len(opened.stores.catalogue) == 1


def test_what_was_erased_before_and_remembered_again_comes_back(opened) -> None:
    opened.forget("cake", hard=True)
    opened.clock.advance(1)
    opened.add("Ada bakes bread", id="cake")
    opened.clock.advance(1)
    name = take(opened).name
    opened.clock.advance(60)

    restore(opened, name)

    assert opened.read("cake").content == "Ada bakes bread"


def rewritten(**members: object) -> Damage:
    def damage(snapshot: Path) -> None:
        stored = json.loads((snapshot / MANIFEST).read_text())
        (snapshot / MANIFEST).write_text(json.dumps(stored | members))

    return damage


def without(member: str) -> Damage:
    def damage(snapshot: Path) -> None:
        stored = json.loads((snapshot / MANIFEST).read_text())
        del stored[member]
        (snapshot / MANIFEST).write_text(json.dumps(stored))

    return damage


def without_shard(snapshot: Path) -> None:
    (snapshot / STORE / "records").rename(snapshot / "elsewhere")


#: What shows at once.
SHOWS: dict[str, Damage] = {
    "no manifest": lambda snapshot: (snapshot / MANIFEST).unlink(),
    "half a manifest": lambda snapshot: os.truncate(snapshot / MANIFEST, 100),
    "a manifest of another kind": lambda snapshot: (snapshot / MANIFEST).write_text("[1]"),
    "a manifest without marks": without("marks"),
    "a manifest without files": rewritten(files={}),
    "a manifest without a collection": rewritten(marks={LIVE: [2, 1]}),
    "a manifest without a time": rewritten(taken_at="yesterday"),
    "a manifest that reaches out": rewritten(files={"../../store/x": [1, 1, 1]}),
    "a manifest that reaches anywhere": rewritten(files={"/etc/passwd": [1, 1, 1]}),
    "a tracker cut in half": cut,
    "no shard": without_shard,
    "no store": lambda snapshot: (snapshot / STORE).rename(snapshot / "elsewhere"),
}


@pytest.mark.parametrize("damage", SHOWS.values(), ids=SHOWS.keys())
def test_a_broken_snapshot_is_listed_as_damaged_and_refused(opened, damage) -> None:
    name = take(opened, "broken").name
    damage(opened.folder / SNAPSHOTS / name)
    before = everything(opened)

    (listed,) = snapshots.every(opened.folder)
    with pytest.raises(Corrupt, match=name) as refused:
        unpack(opened, name)

    assert (listed.name, listed.damaged, bool(listed.fault)) == (name, True, True)
    assert "Nothing was changed" in refused.value.detail
    assert refused.value.hint
    assert everything(opened) == before
    assert not (opened.folder / NEXT).exists()


def flip(snapshot: Path) -> None:
    with tracker(snapshot).open("r+b") as file:
        file.seek(5)
        byte = file.read(1)
        file.seek(5)
        file.write(bytes([byte[0] ^ 1]))


def points_more(snapshot: Path) -> None:
    stored = json.loads((snapshot / MANIFEST).read_text())
    stored["marks"][LIVE][0] += 1
    (snapshot / MANIFEST).write_text(json.dumps(stored))


def resealed(damage: Damage) -> Damage:
    """Damage from before the snapshot was taken, which it keeps faithfully."""

    def act(snapshot: Path) -> None:
        damage(snapshot)
        rewritten(files=edge_files.contents(snapshot / STORE))(snapshot)

    return act


#: What shows only when it is unpacked.
HIDES: dict[str, Damage] = {
    "a byte that is another": flip,
    "fewer points than it says": points_more,
    "a store that held less": resealed(cut),
    "a store that cannot be opened": resealed(without_shard),
}


@pytest.mark.parametrize("damage", HIDES.values(), ids=HIDES.keys())
def test_a_snapshot_that_does_not_hold_what_it_held_is_refused_and_nothing_is_lost(opened, damage) -> None:
    name = take(opened).name
    damage(opened.folder / SNAPSHOTS / name)
    before = everything(opened)

    with pytest.raises(Corrupt, match=name):
        restore(opened, name)

    assert everything(opened) == before
    assert not (opened.folder / NEXT).exists()
    opened.reopen()
    assert everything(opened) == before


def test_a_snapshot_of_a_newer_format_is_refused_in_words_of_its_own(opened) -> None:
    name = take(opened).name
    rewritten(format=2, made_by={"dreamd": "9.0"}, marks="of another kind")(opened.folder / SNAPSHOTS / name)

    (listed,) = snapshots.every(opened.folder)
    with pytest.raises(Refused, match=r"newer dreamd \(dreamd 9\.0\)"):
        snapshots.find(opened.folder, name)

    assert (listed.damaged, "newer" in listed.fault) == (False, True)


def test_a_snapshot_whose_files_lack_their_last_zeros_is_whole(opened) -> None:
    """As an archive leaves them out."""
    name = take(opened).name
    before = everything(opened)
    (listed,) = snapshots.every(opened.folder)
    assert listed.manifest is not None
    for path, content in listed.manifest.files.items():
        os.truncate(opened.folder / SNAPSHOTS / name / STORE / path, content.end)

    assert snapshots.every(opened.folder)[0].damaged is False
    restore(opened, name)

    assert everything(opened) == before


def test_a_store_that_cannot_take_its_place_leaves_the_former_one_serving(opened) -> None:
    name = take(opened).name
    opened.add("later", id="later")
    before = everything(opened)
    coming = unpack(opened, name)
    (opened.folder / NEXT / "records").rename(opened.folder / "elsewhere")

    with pytest.raises(Corrupt):
        snapshots.exchange(opened.stores, coming, "x", opened.now, MADE_BY)

    assert everything(opened) == before
    opened.add("it can still be written", id="new")
    assert [one.name for one in snapshots.every(opened.folder)] == [name]
    opened.reopen()
    assert opened.stores.damage == []
    assert "new" in opened.stores.catalogue


def test_a_store_of_another_dimension_is_restored_too(opened) -> None:
    """A snapshot from before a reindex."""
    other = Fingerprint("hash", "words", 32)
    with closing(EdgeEngine.open(opened.folder / NEXT, collections(32), reserve_mb=1)) as engine:
        marks = engine.marks()
    before = everything(opened)
    former = snapshots.exchange(opened.stores, Coming(32, other, marks), "narrower", opened.now, MADE_BY)
    assert len(opened.stores.catalogue) == 0
    assert EdgeEngine.stored_dimension(opened.folder / STORE, LIVE) == 32

    assert former is not None
    restore(opened, former)

    assert everything(opened) == before


def test_a_damaged_store_is_kept_aside(opened) -> None:
    name = take(opened).name
    before = everything(opened)
    opened.stores.damage = ["it lost something"]
    opened.add("of the damaged one", id="lost")

    former = restore(opened, name)

    assert former == "store.corrupt-20260101T000000Z"
    assert (opened.folder / former / LIVE).is_dir()
    assert opened.stores.damage == []
    assert everything(opened) == before
    opened.stores.damage = ["again"]
    assert restore(opened, name) == "store.corrupt-20260101T000001Z"


def test_case48_a_store_that_was_removed_while_it_serves_is_told_and_restored(opened) -> None:
    name = take(opened).name
    before = everything(opened)
    (opened.folder / STORE).rename(opened.folder / "elsewhere")
    for path in (opened.folder / "elsewhere").rglob("*"):
        if path.is_file():
            path.unlink()

    with pytest.raises(Corrupt, match="is gone") as refused:
        opened.add("nowhere to go")
    assert "restore_snapshot" in refused.value.hint
    assert restore(opened, name) is None

    assert everything(opened) == before
    opened.reopen()
    assert opened.stores.damage == []


def test_case45_where_nothing_can_be_written_the_error_is_clear_and_everything_is_as_it_was(opened) -> None:
    name = take(opened).name
    before = everything(opened)
    (opened.folder / NEXT).write_text("a file in the way")

    with pytest.raises(Unavailable) as refused:
        restore(opened, name)

    assert NEXT in refused.value.detail
    assert everything(opened) == before
    (opened.folder / NEXT).unlink()
    manifest = snapshots.every(opened.folder)[0].manifest
    assert isinstance(manifest, Manifest)
    restore(opened, name)
    assert everything(opened) == before
