"""What a shard's files hold, and copies that are compared with what was known of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.edge_files import allocated_bytes, contents, copy_known, copy_sparse, empty, remove

PAGE = 1 << 16


@st.composite
def files(draw) -> bytes:
    """Data and zeros by turns, across the borders of pages."""
    parts = draw(
        st.lists(st.tuples(st.binary(max_size=9), st.sampled_from([0, 1, 4096, PAGE - 1, PAGE, 3 * PAGE])), max_size=5)
    )
    return b"".join(data + bytes(zeros) for data, zeros in parts)


@settings(deadline=None, max_examples=40)
@given(files())
def test_a_copy_holds_what_the_file_held_also_where_its_last_zeros_are_missing(tmp_path_factory, data) -> None:
    folder = tmp_path_factory.mktemp("files")
    source = folder / "a" / "b"
    source.parent.mkdir()
    source.write_bytes(data)
    known = contents(folder)["a/b"]

    assert (known.length, known.end <= known.length) == (len(data), True)
    assert copy_known(source, folder / "copy", known)
    os.truncate(source, known.end)
    assert copy_known(source, folder / "cut", known)

    assert (folder / "copy").read_bytes() == (folder / "cut").read_bytes() == data


def sparse(path: Path) -> Path:
    """A file of 8 MiB with data at 0 and at 4 MiB."""
    with path.open("wb") as file:
        file.write(b"first")
        file.seek(4 << 20)
        file.write(b"second")
        file.truncate(8 << 20)
    return path


def test_holes_stay_holes_and_the_last_one_is_no_part_of_the_data(tmp_path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    sparse(source / "file")
    (known,) = contents(source).values()

    copy_sparse(source, tmp_path / "sparse")
    (tmp_path / "known").mkdir()
    assert copy_known(source / "file", tmp_path / "known" / "file", known)

    assert known.length == 8 << 20
    assert (4 << 20) < known.end < (5 << 20)
    for copy in ("sparse", "known"):
        assert contents(tmp_path / copy) == {"file": known}
        assert allocated_bytes(tmp_path / copy) <= 4 * PAGE


def change(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4 << 20)
        file.write(b"S")


@pytest.mark.parametrize("damage", [change, lambda path: os.truncate(path, 5), lambda path: os.truncate(path, 0)])
def test_a_file_that_holds_something_else_is_found_out(tmp_path, damage) -> None:
    source = sparse(tmp_path / "file")
    known = contents(tmp_path)["file"]
    damage(source)

    assert not copy_known(source, tmp_path / "copy", known)


def test_files_that_the_engine_is_still_making_are_no_part_of_the_store(tmp_path) -> None:
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "tmp-open-3").write_bytes(b"x")
    (tmp_path / "wal" / "open-2").write_bytes(b"x")

    assert list(contents(tmp_path)) == ["wal/open-2"]


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    """A folder that others link to, with a file in it and one in a folder of its own."""
    folder = tmp_path / "elsewhere"
    (folder / "deep").mkdir(parents=True)
    for name in ("file", "deep/file"):
        (folder / name).write_bytes(b"x")
    return folder


def test_what_is_removed_is_gone_with_all_that_it_holds_and_a_link_in_it_is_not_followed(tmp_path, elsewhere) -> None:
    folder = tmp_path / "copy"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(b"x")
    (folder / "deep" / "to a folder").symlink_to(elsewhere)
    (folder / "to a file").symlink_to(elsewhere / "file")
    (folder / "to nothing").symlink_to(tmp_path / "nothing")
    before = contents(elsewhere)

    remove(folder)

    assert not folder.exists()
    assert contents(elsewhere) == before
    remove(folder)  # nothing is there any more


def test_a_link_is_removed_itself(tmp_path, elsewhere) -> None:
    before = contents(elsewhere)
    for target in (elsewhere, elsewhere / "file", tmp_path / "nothing"):
        link = tmp_path / "link"
        link.symlink_to(target)

        remove(link)

        assert not link.is_symlink()
    assert contents(elsewhere) == before


def test_a_folder_that_is_a_link_is_not_emptied_and_the_error_names_it(tmp_path, elsewhere) -> None:
    before = contents(elsewhere)
    (tmp_path / "link").symlink_to(elsewhere)

    with pytest.raises(NotADirectoryError, match="is a link") as refused:
        empty(tmp_path / "link")

    assert refused.value.filename == str(tmp_path / "link")
    assert contents(elsewhere) == before
    empty(tmp_path / "nothing")
