"""Files that two snapshots have alike are one on the disk, and nobody who writes to one of them writes to the other."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

from storage import sharing
from storage.edge_files import Content, contents

FILES = {"a/same": b"alike" * 2000, "a/other": b"one" * 2000, "empty": b"", "hole": b"\0" * 9000}


def lay(folder: Path, **changed: bytes) -> dict[str, Content]:
    """A folder with these files; what each holds."""
    for name, data in {**FILES, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    os.truncate(folder / "hole", 0)
    os.truncate(folder / "hole", 1 << 20)
    return contents(folder)


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def shared(folder: Path) -> list[str]:
    return [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_nlink > 1]


def test_what_is_alike_is_one_file_and_the_rest_stays_apart(tmp_path) -> None:
    former, coming = tmp_path / "former", tmp_path / "coming"
    known = lay(former)
    now = lay(coming, **{"a/other": b"two" * 2000, "a/new": b"new"})
    before = read(coming)

    sharing.share(coming, now, former, known)

    assert read(coming) == before
    assert shared(coming) == shared(former) == ["a/same"]
    assert (coming / "a/same").samefile(former / "a/same")
    assert contents(coming) == now


def test_a_file_that_does_not_hold_what_it_is_said_to_hold_is_not_shared(tmp_path) -> None:
    """Its checksum was that of the new one once; now a byte of it is another, or its last zeros are missing."""
    former, coming = tmp_path / "former", tmp_path / "coming"
    for folder in (former, coming):
        lay(folder, short=b"data" * 2000)
        os.truncate(folder / "short", 1 << 20)
    known, now = contents(former), contents(coming)
    (former / "a/same").write_bytes(b"alikE" * 2000)
    os.truncate(former / "short", known["short"].end)

    sharing.share(coming, now, former, known)

    assert shared(coming) == ["a/other"]
    assert contents(coming) == now


def refuse(_source: Path, _target: Path) -> NoReturn:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_where_the_file_system_has_no_hard_links_the_copies_stay(tmp_path) -> None:
    known, now = lay(tmp_path / "former"), lay(tmp_path / "coming")

    sharing.share(tmp_path / "coming", now, tmp_path / "former", known, refuse)

    assert shared(tmp_path / "coming") == []
    assert read(tmp_path / "coming") == read(tmp_path / "former")


def half(source: Path, target: Path) -> NoReturn:
    os.link(source, target)
    refuse(source, target)


def test_where_it_fails_half_way_nothing_is_left_of_it(tmp_path) -> None:
    known, now = lay(tmp_path / "former"), lay(tmp_path / "coming")

    sharing.share(tmp_path / "coming", now, tmp_path / "former", known, half)

    assert read(tmp_path / "coming").keys() == FILES.keys()


def test_a_snapshot_that_is_gone_meanwhile_shares_nothing(tmp_path) -> None:
    known, now = lay(tmp_path / "former"), lay(tmp_path / "coming")
    (tmp_path / "former").rename(tmp_path / "elsewhere")

    sharing.share(tmp_path / "coming", now, tmp_path / "former", known)

    assert shared(tmp_path / "coming") == []


def test_a_folder_gets_files_of_its_own_and_the_others_do_not_see_what_is_written(tmp_path) -> None:
    known, now = lay(tmp_path / "former"), lay(tmp_path / "coming")
    sharing.share(tmp_path / "coming", now, tmp_path / "former", known)
    (tmp_path / "coming/a/same.own").write_bytes(b"of an attempt that a kill cut short")

    sharing.unshare(tmp_path / "coming")

    assert shared(tmp_path / "coming") == []
    assert contents(tmp_path / "coming") == now
    with (tmp_path / "coming/a/same").open("r+b") as file:
        file.write(b"written")
    assert contents(tmp_path / "former") == known


def test_the_parts_add_up_to_what_is_on_the_disk(tmp_path) -> None:
    known, now = lay(tmp_path / "former"), lay(tmp_path / "coming")
    each = sharing.share_of_disk(tmp_path / "coming")
    assert each == sharing.share_of_disk(tmp_path / "former") > 0

    sharing.share(tmp_path / "coming", now, tmp_path / "former", known)

    assert sharing.share_of_disk(tmp_path / "coming") == sharing.share_of_disk(tmp_path / "former") == each // 2
    inodes = {path.stat().st_ino: path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file()}
    assert sum(inodes.values()) == each
    assert sharing.share_of_disk(tmp_path / "nowhere") == 0
