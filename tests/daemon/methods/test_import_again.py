"""A file that is imported again: what an undo took back counts as not here, and everything else is here already."""

from __future__ import annotations

import pytest

from tests.daemon.methods.exchanging import everything, exports, saved, undated
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture
def target(daemons) -> Daemon:
    return daemons(options=BY_HAND).start()


def listed(daemon: Daemon, state: str) -> set[str]:
    return {one["id"] for one in daemon.call("list", state=state)["memories"]}


def test_after_an_undo_the_fields_of_a_mended_file_win(target, tmp_path) -> None:
    wrong = saved(tmp_path / "a", {"id": "u1", "content": "C", "tags": ["wrong"], "metadata": {"old": 1}})
    target.call("undo", run_id=target.call("import", path=wrong)["run_id"])
    right = {"id": "u1", "content": "C", "tags": ["right"], "sensitivity": "secret", "tier": "core", "session": "s"}
    again = target.call("import", path=saved(tmp_path / "b", right))

    assert (again["imported"], again["conflicts"]) == (1, [])
    memory = target.call("get", id="u1")
    assert {name: memory[name] for name in ("state", *right)} == {"state": "live"} | right
    assert memory["metadata"] == {}
    assert target.call("undo", run_id=again["run_id"])["restored"] == ["u1"]
    assert (listed(target, "live"), listed(target, "forgotten")) == (set(), {"u1"})
    target.restart()
    assert target.call("import", path=wrong)["imported"] == 1
    assert target.call("get", id="u1")["tags"] == ["wrong"]


@pytest.mark.parametrize("mended", [
    {"content": "the sky is grey"}, {"scope": "away"}, {"author": "Ada"}, {"context": "said at noon"},
])  # fmt: skip
def test_after_an_undo_the_text_of_a_mended_file_wins(target, tmp_path, mended) -> None:
    record = {"id": "m", "content": "the sky is blue", "scope": "home", "author": "", "context": ""}
    target.call("undo", run_id=target.call("import", path=saved(tmp_path / "a", record))["run_id"])
    told = target.call("import", path=saved(tmp_path / "b", record | mended), dry_run=True)
    again = target.call("import", path=saved(tmp_path / "b", record | mended))

    assert told["imported"] == again["imported"] == 1
    assert again["conflicts"] == []
    memory = target.call("get", id="m")
    assert {name: memory[name] for name in record} == record | mended
    (hit,) = target.call("recall", query=memory["content"], scope=memory["scope"], k=1)["hits"]
    assert hit["id"] == "m"
    undone = target.call("undo", run_id=again["run_id"])
    assert (undone["restored"], undone["left"]) == (["m"], [])
    assert listed(target, "live") == set()


def test_a_memory_without_an_id_is_new_where_its_twin_was_undone(target, tmp_path) -> None:
    first = target.call("import", path=saved(tmp_path / "a", {"id": "own", "content": "x"}))
    target.call("undo", run_id=first["run_id"])

    assert target.call("import", path=saved(tmp_path / "b", {"content": "x"}))["imported"] == 1


def test_an_undo_takes_back_what_came_superseded_or_binned(target, tmp_path) -> None:
    target.remember("mine", id="mine")
    records = (
        {"id": "heir", "content": "new"},
        {"id": "old", "content": "old", "invalid_at": "2026-01-01", "superseded_by": "heir"},
        {"id": "bin", "content": "bin", "forgotten_at": "2026-01-01", "forgotten_reason": "request"},
        {"id": "used", "content": "used"},
    )
    path = saved(tmp_path / "a", *records)
    run = target.call("import", path=path)["run_id"]
    target.call("forget", id="used")
    undone = target.call("undo", run_id=run)

    assert (set(undone["restored"]), undone["left"]) == ({"heir", "old", "bin"}, ["used"])
    rows = everything(target)["rows"]
    assert {one for one, row in rows.items() if row.forgotten_reason == "undone"} == {"heir", "old", "bin"}
    assert listed(target, "superseded") == set()
    assert listed(target, "live") == {"mine"}
    again = target.call("import", path=path)
    assert (again["imported"], again["skipped"]) == (3, 1)
    assert (listed(target, "superseded"), listed(target, "forgotten")) == ({"old"}, {"bin", "used"})
    assert target.call("get", id="old")["superseded_by"] == "heir"
    assert set(target.call("undo", run_id=again["run_id"])["restored"]) == {"heir", "old", "bin"}
    assert listed(target, "superseded") == set()


def test_comments_and_turns_without_ids_and_dates_come_once(target, tmp_path) -> None:
    path = saved(
        tmp_path / "a",
        {"kind": "memory", "id": "m", "content": "x"},
        {"kind": "comment", "memory": "m", "content": "hm"}, {"kind": "comment", "memory": "m", "content": "hm"},
        *({"kind": "turn", "session": "s", "content": text} for text in ("yes", "no", "yes")),
    )  # fmt: skip
    first = target.call("import", path=path)
    before = everything(target)
    target.clock.advance(60)
    second = target.call("import", path=path)

    assert first["counts"] == {"memory": 1, "comment": 2, "turn": 3}
    assert (second["counts"], second["kept"]) == ({}, first["counts"])
    assert everything(target) == before


def test_what_hangs_on_a_text_of_the_file_is_not_hung_on_ours(target, tmp_path) -> None:
    target.remember("ours", id="m")
    target.remember("other", id="o")
    before = everything(target)
    path = saved(
        tmp_path / "a",
        {"kind": "memory", "id": "m", "content": "theirs"}, {"kind": "memory", "id": "o", "content": "other"},
        {"kind": "comment", "memory": "m", "content": "about theirs"},
        {"kind": "edge", "a": "m", "b": "o", "weight": 1}, {"kind": "edge", "a": "o", "b": "m", "weight": 1, "edge_kind": "next"},
    )  # fmt: skip
    result = target.call("import", path=path)

    assert result["conflicts"] == [{"id": "m", "place": "line 1"}]
    assert (result["counts"], result["kept"]) == ({}, {"memory": 1, "comment": 1, "edge": 2})
    assert everything(target) == before


def test_an_export_of_what_was_merged_arrives_whole(target, tmp_path) -> None:
    """A merge notes on versions and comments whose they were; where that memory is erased, they go with it."""
    with started(options=BY_HAND) as source:
        for one in ("a", "b"):
            source.remember(f"Ada keeps {one}", id=one)
            source.call("update", id=one, content=f"Ada keeps many {one}")
            source.call("comment", id=one, content=f"on {one}")
        source.call("merge", survivor="a", duplicate="b")
        source.call("export", path=str(tmp_path / "a"))
        target.call("import", path=str(tmp_path / "a"))
        target.call("export", path=str(tmp_path / "b"))

        assert undated(tmp_path / "b") == undated(tmp_path / "a")
        for daemon in (source, target):
            daemon.call("forget", id="b", hard=True)
        assert everything(target)["records"].keys() == everything(source)["records"].keys()


def test_two_exports_of_one_daemon_are_here_once(target, tmp_path) -> None:
    folder = exports(tmp_path)
    target.call("import", path=str(folder / "jsonl"))
    before = everything(target)

    assert target.call("import", path=str(folder / "csv"))["imported"] == 0
    assert everything(target) == before
