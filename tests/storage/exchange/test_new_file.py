"""A file appears whole or not at all, and never in the place of another."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from storage.errors import Conflict, Invalid, Unavailable
from storage.exchange.new_file import check_free, new_file, refused
from tests.requirements import unprivileged


def test_it_gets_its_name_when_it_is_whole_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    with new_file(path) as file:
        file.write("é\r\n")
        file.flush()
        assert not path.exists()
        (beside,) = tmp_path.iterdir()
        assert beside.name.startswith(".")
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600

    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == "é\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def write(path, act):
    """Write a file, and do this before it is whole."""
    with new_file(path) as file:
        file.write("mine")
        act()


def raising(error):
    def act():
        raise error

    return act


def test_nothing_is_left_where_the_writing_fails(tmp_path):
    with pytest.raises(KeyError):
        write(tmp_path / "a", raising(KeyError()))

    assert list(tmp_path.iterdir()) == []


def test_what_came_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(Conflict):
        write(path, lambda: path.write_text("yours"))

    assert path.read_text() == "yours"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_is_a_conflict(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "dangling", "."):
        with pytest.raises(Conflict, match="exists already"):
            check_free(tmp_path / name)


def test_where_no_file_can_be_is_told(tmp_path):
    (tmp_path / "file").touch()
    for path, words in (
        (tmp_path / "no" / "file", "no folder"),
        (tmp_path / "file" / "x", "no folder"),
        ((tmp_path / "x").relative_to("/"), "not absolute"),
        (tmp_path / "a\0b", "not absolute"),
        (tmp_path / ("x" * 300), "cannot be written"),
    ):
        with pytest.raises(Invalid, match=words) as caught:
            check_free(path)
        assert caught.value.hint


def test_a_folder_that_the_daemon_may_not_write_is_told(folder):
    folder.chmod(0o555)
    try:
        with unprivileged(), pytest.raises(Invalid, match="cannot be written by the daemon"):
            write(folder / "a", raising(AssertionError()))
    finally:
        folder.chmod(0o700)


def test_a_full_disk_is_told_with_what_to_look_at(tmp_path):
    with pytest.raises(Unavailable, match="no room") as caught:
        write(tmp_path / "a", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))

    assert caught.value.hint == f"df -h {tmp_path}"
    assert list(tmp_path.iterdir()) == []
    assert isinstance(refused(tmp_path / "a", OSError(errno.EROFS, "Read-only file system")), Invalid)
