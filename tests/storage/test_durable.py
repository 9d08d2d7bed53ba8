"""Files and folders that are there, whole, when the call returns."""

from __future__ import annotations

import pytest

from storage import durable


def test_a_file_is_replaced_whole_and_nothing_stays_beside_it(tmp_path) -> None:
    durable.write(tmp_path / "file", "one")
    durable.write(tmp_path / "file", "two 🍵")

    assert (tmp_path / "file").read_text(encoding="utf-8") == "two 🍵"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folders_are_made_as_deep_as_needed_and_only_once(tmp_path) -> None:
    durable.make(tmp_path / "a" / "b" / "c")

    assert (tmp_path / "a/b/c").is_dir()
    with pytest.raises(FileExistsError):
        durable.make(tmp_path / "a" / "b")


def test_a_folder_moves_between_folders_with_all_that_is_in_it(tmp_path) -> None:
    for name in ("from/inner", "to"):
        durable.make(tmp_path / name)
    durable.write(tmp_path / "from/inner/file", "x")

    durable.sync_tree(tmp_path)
    durable.rename(tmp_path / "from/inner", tmp_path / "to/moved")

    assert (tmp_path / "to/moved/file").read_text() == "x"
    assert not (tmp_path / "from/inner").exists()


def test_what_is_not_there_need_not_be_removed(tmp_path) -> None:
    durable.write(tmp_path / "file", "x")

    durable.remove(tmp_path / "file")
    durable.remove(tmp_path / "file")

    assert list(tmp_path.iterdir()) == []
