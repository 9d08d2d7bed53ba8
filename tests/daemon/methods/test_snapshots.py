"""Snapshots, their restoration and backups, as the socket's owner asks for them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.snapshots import SNAPSHOTS
from storage.swap import MANIFEST, NEXT, STORE
from tests.daemon.keeping import contents, fill
from tests.daemon.methods.asking import ask, at_once, refused
from tests.daemon.methods.providers import USE, WORDLLAMA, Providers
from tests.harness import BY_HAND, Daemon

TEXTS = {
    "emoji": "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🍵",
    "arabic": "القِطَّة تشربُ الشاي",
    "hebrew": "חתול שותה תה",
    "chinese": "猫喝茶。「你好」",
    "japanese": "猫はお茶を飲みます",
    "korean": "고양이가 차를 마신다",
    "thai": "แมวดื่มชา",
    "hindi": "बिल्ली चाय पीती है",
    "burmese": "ကြောင်က လက်ဖက်ရည်သောက်တယ်",
    "greek": "Η γάτα πίνει τσάι",
    "russian": "Кошка пьёт чай",
    "zalgo": "z̸̢͝a̴l̵g̶o̷",
    "private": "\ue000\U0010fffd",
    "quotes": "\\\"'`\n\t{}",
}

Make = Callable[..., Daemon]


@pytest.fixture
def daemon(daemons: Make) -> Daemon:
    """One that does nothing by itself."""
    return daemons(options=BY_HAND).start()


# -- snapshots


def test_a_snapshot_is_told_and_listed(daemon: Daemon) -> None:
    fill(daemon)
    daemon.call("forget", id=daemon.remember("gone"))

    taken = daemon.call("snapshot", label="Before the move")

    assert taken == {
        "name": "20260101T000000Z-before-the-move", "label": "before-the-move", "created_at": "2026-01-01T00:00:00Z",
        "memories": 2, "bin": 1, "edges": 1, "bytes": taken["bytes"], "rotates": False, "damaged": False,
    }  # fmt: skip
    assert 0 < taken["bytes"] < 2 << 20
    daemon.clock.advance(60)
    second = daemon.call("snapshot")
    assert second["name"] == "20260101T000100Z"
    assert daemon.call("snapshots") == {"snapshots": [second, taken]}
    (daemon.folder / "state" / SNAPSHOTS / second["name"] / MANIFEST).unlink()
    listed = daemon.call("snapshots")["snapshots"][0]
    assert (listed["name"], listed["damaged"], listed["created_at"]) == (second["name"], True, None)
    assert listed["fault"]
    private = {path.stat().st_mode & 0o077 for path in (daemon.folder / "state" / SNAPSHOTS).rglob("*")}
    assert private == {0}


def test_a_label_that_makes_no_name_is_invalid(daemon: Daemon) -> None:
    assert refused(daemon, "invalid", "snapshot", label="搬家").extra["field"] == "label"


@pytest.mark.parametrize("label", ["nightly", " Nightly! "])
def test_the_label_of_those_that_rotate_is_nobody_elses(daemon: Daemon, label: str) -> None:
    error = refused(daemon, "invalid", "snapshot", label=label)

    assert error.extra["field"] == "label"
    assert "dreamctl run snapshot" in error.hint
    assert daemon.call("snapshots") == {"snapshots": []}


def test_those_of_the_nights_are_listed_as_the_ones_that_rotate(daemon: Daemon) -> None:
    fill(daemon)
    mine = daemon.call("snapshot", label="nightly-before-the-move")["name"]
    daemon.clock.advance(60)
    nightly = daemon.call("run_job", name="snapshot")["examples"][0]["snapshot"]

    assert {one["name"]: one["rotates"] for one in daemon.call("snapshots")["snapshots"]} == {
        mine: False,
        nightly: True,
    }


def test_snapshots_taken_at_once_are_each_whole(daemon: Daemon) -> None:
    fill(daemon)

    taken = at_once(daemon, *[("snapshot", {"label": "x"})] * 4, ("remember", {"content": "meanwhile"}))

    names = {one["name"] for one in taken[:4]}
    assert len(names) == 4
    assert {one["name"]: one["damaged"] for one in daemon.call("snapshots")["snapshots"]} == dict.fromkeys(names, False)


# -- restoring


def test_every_script_comes_back_byte_for_byte(daemon: Daemon) -> None:
    daemon.call("remember_many", items=[{"id": name, "content": text} for name, text in TEXTS.items()])
    before = contents(daemon)
    assert before == TEXTS
    name = daemon.call("snapshot")["name"]
    for memory in TEXTS:
        daemon.call("update", id=memory, content=f"washed away {memory}")
    daemon.clock.advance(60)

    daemon.call("restore_snapshot", name=name)

    assert contents(daemon) == before
    daemon.restart()
    assert {memory: text.encode() for memory, text in contents(daemon).items()} == {
        memory: text.encode() for memory, text in TEXTS.items()
    }


def test_a_restore_tells_what_there_is_and_what_became_of_what_was(daemon: Daemon) -> None:
    before = fill(daemon)
    name = daemon.call("snapshot", label="good")["name"]
    daemon.clock.advance(60)
    daemon.remember("later")
    daemon.call("forget", id="tea")
    later = contents(daemon)

    restored = daemon.call("restore_snapshot", name=name)

    replaced = "20260101T000100Z-before-restore"
    assert restored == {"name": name, "memories": 2, "bin": 0, "edges": 1, "replaced": replaced}
    assert contents(daemon) == before
    assert daemon.call("neighbors", id="tea")["neighbors"][0]["id"] == "cake"
    assert daemon.call("recall", query="who likes tea?")["hits"][0]["id"] == "tea"
    assert daemon.call("health")["status"] == "ok"
    daemon.clock.advance(60)
    daemon.call("restore_snapshot", name=replaced)
    assert contents(daemon) == later


def test_unknown_broken_and_newer_snapshots_are_refused_and_nothing_is_lost(daemon: Daemon) -> None:
    before = fill(daemon)
    name = daemon.call("snapshot")["name"]
    assert name in refused(daemon, "not_found", "restore_snapshot", name="x").detail
    folder = daemon.folder / "state" / SNAPSHOTS / name
    stored = json.loads((folder / MANIFEST).read_text())

    (folder / MANIFEST).write_text(json.dumps(stored | {"format": 99}))
    assert "newer" in refused(daemon, "refused", "restore_snapshot", name=name).detail
    (folder / MANIFEST).write_text(json.dumps(stored))
    (tracker,) = (folder / STORE / "memories" / "segments").glob("*/mutable_id_tracker.mappings")
    os.truncate(tracker, tracker.stat().st_size // 2)
    assert "Nothing was changed" in refused(daemon, "corrupt", "restore_snapshot", name=name).detail

    assert contents(daemon) == before
    daemon.remember("it can be written")
    daemon.restart()
    assert daemon.call("health")["status"] == "ok"
    assert len(contents(daemon)) == 3


def test_what_was_erased_for_good_stays_erased_and_the_answer_counts_the_snapshots_that_hold_it(daemon: Daemon) -> None:
    daemon.call("snapshot", label="too old")
    daemon.clock.advance(60)
    fill(daemon)
    daemon.clock.advance(60)
    name = daemon.call("snapshot")["name"]
    daemon.clock.advance(60)

    assert "snapshots" not in daemon.call("forget", id=daemon.remember("soft"))
    assert daemon.call("forget", id="cake", hard=True) == {"forgotten": ["cake"], "missing": [], "snapshots": 1}
    assert daemon.call("forget", ids=["cake", "no"], hard=True)["snapshots"] == 0
    daemon.call("run_job", name="scrub")
    daemon.clock.advance(60)
    restored = daemon.call("restore_snapshot", name=name)

    assert (restored["memories"], restored["edges"]) == (1, 0)
    refused(daemon, "not_found", "get", id="cake")
    daemon.restart()
    assert list(contents(daemon)) == ["tea"]
    scrubbed = daemon.call("run_job", name="scrub")
    assert scrubbed["counts"]["scrubbed"] > 0
    assert not holds(daemon.folder / "state" / STORE, b"bakes cake")
    assert holds(daemon.folder / "state" / SNAPSHOTS / name, b"bakes cake")


def holds(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_restore_while_a_job_runs_is_a_conflict(daemon: Daemon) -> None:
    fill(daemon)
    name = daemon.call("snapshot")["name"]

    answers = at_once(daemon, ("run_job", {"name": "dream"}), ("restore_snapshot", {"name": name}))

    assert answers[0]["outcome"] in ("changed", "unchanged")
    assert (answers[1].kind, "dream" in answers[1].detail) == ("conflict", True)


def test_of_two_restores_at_once_one_waits_for_nobody(daemon: Daemon) -> None:
    before = fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.remember("later")

    answers = at_once(
        daemon,
        ("restore_snapshot", {"name": name}),
        ("restore_snapshot", {"name": name}),
        ("run_job", {"name": "prune"}),
    )

    assert answers[0]["memories"] == 2
    assert answers[1].kind == "conflict"
    assert answers[2]["outcome"] == "unchanged"
    assert contents(daemon) == before


def test_the_ledger_is_not_restored_and_forgets_what_was_answered_since(daemon: Daemon) -> None:
    early = ask(daemon, "remember", {"content": "early", "request_id": "early"})
    daemon.clock.advance(60)
    name = daemon.call("snapshot")["name"]
    daemon.clock.advance(60)
    late = ask(daemon, "remember", {"content": "late", "request_id": "late"})
    run = daemon.call("run_job", name="prune")["run_id"]
    daemon.clock.advance(60)
    daemon.call("restore_snapshot", name=name)

    assert ask(daemon, "remember", {"content": "early", "request_id": "early"}) == early
    again = ask(daemon, "remember", {"content": "late", "request_id": "late"})
    assert (again["created"], late["created"]) == (True, True)
    assert sorted(contents(daemon).values()) == ["early", "late"]
    assert [one["run_id"] for one in daemon.call("runs")["runs"]] == [run]


def test_runs_between_the_snapshot_and_its_restoration_cannot_be_undone_earlier_and_later_ones_can(
    daemon: Daemon,
) -> None:
    def expire(content: str) -> tuple[str, str]:
        memory = daemon.remember(content, expires_at="2026-01-01T00:00:01Z")
        daemon.clock.advance(60)
        run = daemon.call("run_job", name="decay", params={"only": "expired"})["run_id"]
        daemon.clock.advance(60)
        return memory, run

    first, before = expire("before")
    name = daemon.call("snapshot")["name"]
    daemon.clock.advance(60)
    undoing = daemon.call("undo", run_id=before)
    assert undoing["restored"] == [first]
    _, between = expire("between")
    daemon.call("restore_snapshot", name=name)
    daemon.clock.advance(60)
    last, after = expire("after")

    assert "snapshot" in refused(daemon, "refused", "undo", run_id=between).detail
    assert "snapshot" in refused(daemon, "refused", "undo", run_id=undoing["run_id"]).detail
    assert daemon.call("undo", run_id=after)["restored"] == [last]
    assert daemon.call("undo", run_id=before)["restored"] == [first]


def test_what_recalls_taught_of_the_former_store_is_let_go(daemon: Daemon) -> None:
    fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.call("recall", query="Ada likes tea")
    assert len(daemon.parts.learn) > 0

    daemon.call("restore_snapshot", name=name)
    daemon.run(daemon.app.background.fold())

    assert len(daemon.parts.learn) == 0
    assert daemon.call("get", id="tea")["access_count"] == 0


# -- what a start leaves alone


def test_case44_a_start_with_another_configuration_or_after_a_kill_deletes_nothing_of_the_store(daemons: Make) -> None:
    """Case 44: a folder was deleted at each start that lacked one flag."""
    providers = Providers()
    daemon = daemons(options=BY_HAND | USE | {"DREAMD_STORAGE__DURABILITY": "power"}, embedder=providers.load).start()
    for n in range(10):
        daemon.remember(f"note {n}", id=f"n{n}")
    before = contents(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.stop()
    for scrap in (f"{SNAPSHOTS}/.partial-x", NEXT, "store.corrupt-20260101T000000Z", ".checked"):
        (daemon.folder / "state" / scrap).mkdir(exist_ok=True)
        (daemon.folder / "state" / scrap / "file").touch()

    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=daemon.clock).start()

    assert contents(daemon) == before
    left = {path.name for path in (daemon.folder / "state").iterdir()}
    assert {"store", SNAPSHOTS, "store.corrupt-20260101T000000Z"} <= left
    assert NEXT not in left
    assert [path.name for path in (daemon.folder / "state" / SNAPSHOTS).iterdir()] == [name]
    assert (daemon.folder / "state" / "store.corrupt-20260101T000000Z" / "file").exists()


# -- a store that is damaged


def cut_tracker(state: Path) -> None:
    (tracker,) = (state / STORE / "memories" / "segments").glob("*/mutable_id_tracker.mappings")
    os.truncate(tracker, tracker.stat().st_size // 2)


def test_case48_a_damaged_read_only_store_is_restored_and_kept_aside(daemon: Daemon) -> None:
    daemon.call("remember_many", items=[{"content": f"note {n}", "id": f"n{n}"} for n in range(50)])
    before = contents(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.stop()
    cut_tracker(daemon.folder / "state")
    damaged = {
        path.name: path.read_bytes() for path in (daemon.folder / "state" / STORE).rglob("*tracker*") if path.is_file()
    }
    daemon.start()
    assert daemon.call("health")["status"] == "degraded"
    refused(daemon, "corrupt", "remember", content="x")
    refused(daemon, "corrupt", "snapshot")
    refused(daemon, "corrupt", "backup", path=str(daemon.folder / "b.zip"))
    assert daemon.app.service.ready()[0] is False

    restored = daemon.call("restore_snapshot", name=name)

    assert restored["replaced"] == "store.corrupt-20260101T000000Z"
    aside = daemon.folder / "state" / restored["replaced"]
    assert {path.name: path.read_bytes() for path in aside.rglob("*tracker*") if path.is_file()} == damaged
    assert daemon.call("health")["status"] == "ok"
    assert daemon.app.service.ready()[0] is True
    assert contents(daemon) == before
    daemon.remember("it can be written again")
    daemon.restart()
    assert daemon.call("health")["status"] == "ok"
    assert len(contents(daemon)) == 51


# -- embedders


def test_case52_a_snapshot_from_another_embedder_brings_it_along(daemons: Make) -> None:
    providers = Providers()
    daemon = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    before = fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=daemon.clock).start()
    daemon.call("reindex")
    assert daemon.call("health")["embedder"] == "wordllama"
    daemon.clock.advance(60)

    daemon.call("restore_snapshot", name=name)

    health = daemon.call("health")
    assert (health["embedder"], health["status"]) == ("use", "degraded")
    assert (health["reasons"][0]["name"], health["reasons"][0]["hint"]) == ("embedder", "dreamctl reindex")
    assert contents(daemon) == before
    assert daemon.call("recall", query="who likes tea?")["hits"][0]["id"] == "tea"
    daemon.remember("and it takes new ones", id="new")
    daemon.restart()
    assert daemon.call("health")["embedder"] == "use"
    assert daemon.call("recall", query="new ones")["hits"][0]["id"] == "new"


def test_a_snapshot_whose_embedder_cannot_be_loaded_is_restored_and_found_by_keyword(daemons: Make) -> None:
    providers = Providers()
    daemon = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=daemon.clock).start()
    daemon.call("reindex")
    providers.away.add("use")

    daemon.call("restore_snapshot", name=name)

    health = daemon.call("health")
    assert (health["embedder"], health["reasons"][0]["name"]) == ("none", "embedder")
    found = daemon.call("recall", query="tea")
    assert (found["hits"][0]["id"], found["degraded"]) == ("tea", "keyword-only")
    refused(daemon, "unavailable", "remember", content="x")
    providers.away.clear()
    assert daemon.call("reindex")["outcome"] == "changed"
    assert daemon.call("health")["status"] == "ok"
    assert "degraded" not in daemon.call("recall", query="tea")


def test_a_restored_snapshot_is_told_to_whoever_follows_everything(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea")
    name = daemon.call("snapshot")["name"]
    daemon.call("restore_snapshot", name=name)

    last = daemon.parts.events._ring[-1]
    assert (last.type, last.scope, last.ids, last.counts) == ("restored", "*", (), {"memories": 1})
