"""The nights' snapshots: they share what they have alike, are each whole by themselves, and go by their names first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage import edge_files, sharing, snapshots
from storage.errors import Corrupt, Unavailable
from storage.manifest import Manifest
from storage.memories import LIVE
from storage.model import DAY
from storage.snapshots import SNAPSHOTS, Snapshot
from storage.swap import NEXT, STORE
from tests.disk import out_of_reach
from tests.storage.kept import MADE_BY, cut, everything, filled, restore, take
from tests.storage.opened import Opened


@pytest.fixture
def opened(fresh: Opened) -> Opened:
    return filled(fresh)


def contents(opened: Opened, one: Snapshot) -> dict[str, edge_files.Content]:
    return edge_files.contents(opened.folder / SNAPSHOTS / one.name / STORE)


def next_night(opened: Opened, former: Snapshot) -> Snapshot:
    opened.clock.advance(DAY)
    draft = snapshots.copied(opened.stores, snapshots.NIGHTLY, opened.now, MADE_BY)
    return snapshots.finished(draft, former)


def test_a_snapshot_shares_with_the_former_what_it_has_alike_and_the_sizes_add_up(opened) -> None:
    first = take(opened, snapshots.NIGHTLY)
    opened.add("one more memory", id="more")

    second = next_night(opened, first)

    assert second.manifest is not None
    assert contents(opened, second) == second.manifest.files
    assert contents(opened, first) == first.manifest.files
    mine, former = (opened.folder / SNAPSHOTS / one.name / STORE for one in (second, first))
    alike = {path for path in second.manifest.files if (mine / path).samefile(former / path)}
    changed = {path for path, content in second.manifest.files.items() if content != first.manifest.files.get(path)}
    assert alike == {path for path, content in second.manifest.files.items() if content.end} - changed
    assert any(path.startswith("records/") for path in alike)
    assert any(path.startswith("memories/") for path in changed)
    assert snapshots.every(opened.folder) == [second, first._replace(bytes=sharing_now(opened, first))]
    inodes = {
        path.stat().st_ino: path.stat().st_blocks * 512 for path in mine.parent.parent.rglob("*") if path.is_file()
    }
    total = sum(one.bytes for one in snapshots.every(opened.folder))
    assert sum(inodes.values()) - len(inodes) <= total <= sum(inodes.values())  # halves are rounded down


def sharing_now(opened: Opened, one: Snapshot) -> int:
    return sharing.share_of_disk(opened.folder / SNAPSHOTS / one.name)


def test_of_snapshots_that_share_each_is_restored_by_itself_and_written_to_without_the_others(opened) -> None:
    first = take(opened, snapshots.NIGHTLY)
    before = everything(opened)
    opened.add("one more memory", id="more")
    later = everything(opened)
    second = next_night(opened, first)

    restore(opened, first.name)
    assert everything(opened) == before
    for n in range(50):
        opened.add(f"written after it was restored {n}")
    opened.stores.rewrite(LIVE, scrub=True)

    assert (contents(opened, first), contents(opened, second)) == (first.manifest.files, second.manifest.files)
    snapshots.let_go(opened.folder, first.name)
    restore(opened, second.name)
    assert everything(opened) == later


def test_a_snapshot_that_is_put_in_the_place_of_the_store_by_hand_leaves_the_others_as_they_are(opened) -> None:
    first = take(opened, snapshots.NIGHTLY)
    second = next_night(opened, first)
    opened.close()
    (opened.folder / STORE).rename(opened.folder / "elsewhere")
    (opened.folder / SNAPSHOTS / second.name / STORE).rename(opened.folder / STORE)
    opened.open()

    opened.add("written into what was a snapshot", id="new")
    opened.update("tea", content="washed away")
    opened.stores.flush()

    assert contents(opened, first) == first.manifest.files
    assert opened.read("tea").content == "washed away"


def test_only_what_a_night_took_and_nobody_renamed_rotates(opened) -> None:
    nightly, by_hand = take(opened, snapshots.NIGHTLY), take(opened, "mine")
    assert (nightly.rotates, by_hand.rotates) == (True, False)

    folder = opened.folder / SNAPSHOTS / nightly.name
    folder.rename(folder.with_name("keep-this"))
    take(opened, snapshots.NIGHTLY)
    cut(opened.folder / SNAPSHOTS / nightly.name)

    assert {one.name: one.rotates for one in snapshots.every(opened.folder)} == dict.fromkeys(
        ["keep-this", by_hand.name, nightly.name], False
    )


def test_a_copy_that_a_person_made_of_a_night_s_snapshot_does_not_rotate_whatever_it_is_called(opened) -> None:
    nightly = take(opened, snapshots.NIGHTLY)
    folder = opened.folder / SNAPSHOTS / nightly.name
    others = (
        "20250101T000000Z",
        "20260101T000101Z",
        "20251231T235959Z",
        "20260101T00001Z",
        "20261301T000000Z",
        "x",
        "20260101",
    )
    for name in (f"keep-{nightly.name}", f"{nightly.name}-2", *(f"{other}-nightly" for other in others)):
        shutil.copytree(folder, folder.with_name(name))

    assert [one.name for one in snapshots.every(opened.folder) if one.rotates] == [nightly.name]
    assert all(one.manifest == nightly.manifest for one in snapshots.every(opened.folder))


def test_a_snapshot_whose_second_was_taken_rotates_by_the_next_one(opened) -> None:
    taken = [take(opened, label) for label in ("mine", snapshots.NIGHTLY, "b", snapshots.NIGHTLY)]

    assert [one.rotates for one in taken] == [False, True, False, True]
    assert taken[3].name == "20260101T000003Z-nightly"


@pytest.mark.parametrize("at", [0.0, 0.999999, 0.9999999])
def test_a_snapshot_rotates_whatever_part_of_a_second_it_was_taken_at(opened, at) -> None:
    opened.clock.advance(at)
    taken = take(opened, snapshots.NIGHTLY)

    assert taken.rotates
    assert [one.rotates for one in snapshots.every(opened.folder)] == [True]


# -- links


@pytest.fixture
def moved(opened) -> tuple[Snapshot, Path]:
    """A night's snapshot that a person moved to another disk, leaving a link of its name."""
    nightly = take(opened, snapshots.NIGHTLY)
    folder, elsewhere = opened.folder / SNAPSHOTS / nightly.name, opened.folder / "another disk"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    return nightly, elsewhere


def test_a_snapshot_that_lies_elsewhere_and_is_linked_to_can_be_restored_and_does_not_rotate(opened, moved) -> None:
    nightly, _ = moved
    opened.update("tea", content="washed away")

    assert nightly.rotates
    (found,) = snapshots.every(opened.folder)
    assert (found.name, found.rotates, found.fault) == (nightly.name, False, "")
    restore(opened, nightly.name)
    assert opened.read("tea").content != "washed away"


@pytest.mark.parametrize("name", ["", ".leaving-"])
def test_a_link_that_is_let_go_goes_itself_and_what_it_leads_to_stays(opened, moved, name) -> None:
    """Also one that an earlier version left with a hidden name."""
    nightly, elsewhere = moved
    folder = opened.folder / SNAPSHOTS
    (folder / nightly.name).rename(folder / f"{name}{nightly.name}")

    snapshots.let_go(opened.folder, nightly.name)

    assert list(folder.iterdir()) == []
    assert snapshots.leaving(opened.folder) == []
    assert edge_files.contents(elsewhere / STORE) == nightly.manifest.files


def test_a_link_in_a_snapshot_that_is_let_go_is_not_followed_and_keeps_nothing_from_going(opened) -> None:
    nightly = take(opened, snapshots.NIGHTLY)
    folder, elsewhere = opened.folder / SNAPSHOTS / nightly.name, opened.folder / "another disk"
    (folder / STORE).rename(elsewhere)
    (folder / STORE).symlink_to(elsewhere)
    (folder / "notes").symlink_to(elsewhere / "nothing")

    snapshots.let_go(opened.folder, nightly.name)

    assert list((opened.folder / SNAPSHOTS).iterdir()) == []
    assert edge_files.contents(elsewhere) == nightly.manifest.files


@pytest.mark.parametrize("name", [".partial-x", ".leaving-x"])
def test_scrap_that_is_a_link_goes_and_what_it_leads_to_stays(opened, name) -> None:
    store = opened.folder / STORE
    before = edge_files.contents(store)
    (opened.folder / SNAPSHOTS).mkdir()
    (opened.folder / SNAPSHOTS / name).symlink_to(store)
    (opened.folder / NEXT).symlink_to(store)

    snapshots.clear_scrap(opened.folder)

    assert list((opened.folder / SNAPSHOTS).iterdir()) == []
    assert not (opened.folder / NEXT).is_symlink()
    assert edge_files.contents(store) == before


def test_a_copy_that_fails_its_check_gets_no_name_and_leaves_nothing(opened) -> None:
    first = take(opened, snapshots.NIGHTLY)
    seen: list[bool] = []

    def check(store: Path, scratch: Path, manifest: Manifest) -> None:
        scratch.mkdir()
        (scratch / "half").touch()
        seen.append(edge_files.contents(store) == manifest.files)
        raise Corrupt("it is no good", hint="another")

    opened.clock.advance(60)
    draft = snapshots.copied(opened.stores, snapshots.NIGHTLY, opened.now, MADE_BY)
    with pytest.raises(Corrupt, match="no good"):
        snapshots.finished(draft, first, check)

    assert seen == [True]
    assert [path.name for path in (opened.folder / SNAPSHOTS).iterdir()] == [first.name]
    assert contents(opened, first) == first.manifest.files


def test_a_snapshot_that_is_let_go_is_gone_and_its_name_goes_first(opened) -> None:
    first, second = take(opened, "a"), take(opened, "b")
    snapshots.let_go(opened.folder, first.name)

    assert [path.name for path in (opened.folder / SNAPSHOTS).iterdir()] == [second.name]
    folder = opened.folder / SNAPSHOTS / second.name
    out_of_reach(folder / STORE / "in-the-way")
    with pytest.raises(Unavailable, match="in-the-way"):
        snapshots.let_go(opened.folder, second.name)
    assert snapshots.every(opened.folder) == []
    assert snapshots.leaving(opened.folder) == [second.name]
    opened.clock.advance(1)
    assert (second.name, take(opened).name) == ("20260101T000001Z-b", "20260101T000002Z")
    shutil.rmtree(next((opened.folder / SNAPSHOTS).glob(".leaving-*")) / STORE / "in-the-way")
    snapshots.let_go(opened.folder, second.name)
    assert snapshots.leaving(opened.folder) == []
