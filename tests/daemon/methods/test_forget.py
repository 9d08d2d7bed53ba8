"""Forgetting: into the bin and out of it, superseded, or erased everywhere at once."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from daemon.methods.forget import MAX_IDS
from storage.model import point_id
from tests.daemon.methods.asking import refused
from tests.harness import Daemon

PLANTED = "xylophone-quartz-4711"


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_forgotten_memories_leave_every_read_and_lie_in_the_bin(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake", tags=["cake"])

    done = daemon.call("forget", ids=[cake])

    binned = daemon.call("list", state="forgotten")["memories"]
    assert done == {"forgotten": [cake], "missing": []}
    assert [memory["id"] for memory in daemon.call("recall", query="cake")["hits"]] == [tea]
    assert daemon.call("stats")["total"] == 1
    assert daemon.call("tags")["tags"] == []
    assert [(one["id"], one["state"], one["forgotten_reason"]) for one in binned] == [(cake, "forgotten", "request")]
    assert binned[0]["forgotten_at"] == "2026-01-01T00:00:00Z"
    assert daemon.call("get", id=cake)["content"] == "Ada bakes cake"


def test_ids_that_do_not_exist_are_listed_unless_one_stands_alone(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake")

    done = daemon.call("forget", ids=[tea, "nobody", cake, tea, "nothing"])

    assert done == {"forgotten": [tea, cake], "missing": ["nobody", "nothing"]}
    assert daemon.call("forget", ids=["nobody", "nothing"]) == {"forgotten": [], "missing": ["nobody", "nothing"]}
    assert daemon.call("forget", ids=[]) == {"forgotten": [], "missing": []}
    assert refused(daemon, "not_found", "forget", ids=["nobody"]).hint
    assert refused(daemon, "not_found", "forget", id="nobody").hint


def test_either_id_or_ids_must_be_given(daemon: Daemon) -> None:
    for params in ({}, {"id": "a", "ids": ["b"]}, {"id": None}):
        assert refused(daemon, "invalid", "forget", **params).extra["field"] == "id"
    assert refused(daemon, "invalid", "forget", ids=["a"] * (MAX_IDS + 1)).extra["field"] == "ids"


def test_what_is_superseded_names_its_successor(daemon: Daemon) -> None:
    rome = daemon.remember("Ada lives in Rome")
    porto = daemon.remember("Ada lives in Porto")

    daemon.call("forget", id=rome, superseded_by=porto)

    former = daemon.call("get", id=rome)
    assert (former["state"], former["superseded_by"], former["invalid_at"]) == (
        "superseded", porto, "2026-01-01T00:00:00Z",
    )  # fmt: skip
    assert [one["id"] for one in daemon.call("list", state="superseded")["memories"]] == [rome]
    assert daemon.call("list", state="forgotten")["memories"] == []


NFD = unicodedata.normalize("NFD", "café-één-ö")


def test_an_id_in_any_unicode_form_is_the_id_it_was_written_under(daemon: Daemon) -> None:
    memory = daemon.remember("Ada likes tea", id=NFD)
    daemon.remember("Ada bakes cake", id="cake", connect_to=[NFD])
    assert memory == unicodedata.normalize("NFC", NFD) != NFD

    assert daemon.call("get", id=NFD)["id"] == memory
    assert daemon.call("get", id=NFD[:11])["id"] == memory
    assert daemon.call("history", id=NFD) == {"versions": []}
    assert daemon.call("update", id=NFD, content="Ada likes black tea")["version"] == 2
    assert daemon.call("revert", id=NFD, version=1)["content"] == "Ada likes tea"
    assert daemon.call("pin", id=NFD)["pinned"]
    assert not daemon.call("unpin", id=NFD)["pinned"]
    assert daemon.call("set_tier", id=NFD, tier="long")["tier"] == "long"
    assert daemon.call("set_emotion", id=NFD, emotion=0.6)["emotion"] == 0.6
    assert [one["id"] for one in daemon.call("neighbors", id=NFD)["neighbors"]] == ["cake"]
    assert daemon.call("connect", a=NFD, b="cake")["a"] in (memory, "cake")
    assert daemon.call("disconnect", a="cake", b=NFD)["b"] == memory
    assert daemon.call("forget", id="cake", superseded_by=NFD)["forgotten"] == ["cake"]
    assert daemon.call("get", id="cake")["superseded_by"] == memory
    assert daemon.call("forget", ids=[NFD, "nobody"]) == {"forgotten": [memory], "missing": ["nobody"]}
    assert daemon.call("restore", id=NFD)["state"] == "live"
    assert daemon.call("forget", id=NFD, hard=True)["forgotten"] == [memory]


def test_a_successor_that_is_gone_for_good_or_past_its_end_is_named_no_more(daemon: Daemon) -> None:
    for name, end in (("first", None), ("second", "2026-01-02")):
        daemon.remember(f"the {name} flat", id=name)
        daemon.remember(f"the {name} house", id=f"new-{name}", **({"expires_at": end} if end else {}))
        daemon.call("forget", id=name, superseded_by=f"new-{name}")
    daemon.call("forget", id="new-first", hard=True)
    daemon.clock.advance(86_400)

    for former in daemon.call("list", state="superseded")["memories"]:
        assert former["superseded_by"] is None
        assert daemon.call("get", id=former["id"])["superseded_by"] is None
    daemon.call("run_job", name="decay")
    assert daemon.call("get", id="second")["superseded_by"] == "new-second"


def test_the_successor_is_live_another_memory_and_of_the_same_scope(daemon: Daemon) -> None:
    rome, other = daemon.remember("Ada lives in Rome"), daemon.remember("Bea lives in Bonn", scope="bea")

    refused(daemon, "not_found", "forget", id=rome, superseded_by="nobody")
    refused(daemon, "conflict", "forget", id=rome, superseded_by=rome)
    refused(daemon, "refused", "forget", id=rome, superseded_by=other)
    error = refused(daemon, "invalid", "forget", id=rome, superseded_by=other, hard=True)

    assert error.extra["field"] == "superseded_by"
    assert daemon.call("get", id=rome)["state"] == "live"


def test_restore_brings_a_memory_back_with_its_edges_and_history(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake")
    daemon.call("connect", a=tea, b=cake)
    daemon.call("update", id=cake, content="Ada bakes apple cake")
    before = daemon.call("get", id=cake)
    daemon.call("forget", id=cake)

    assert daemon.call("neighbors", id=tea)["neighbors"] == []
    daemon.clock.advance(10)
    back = daemon.call("restore", id=cake)

    assert back["state"] == "live"
    assert {name for name in back if back[name] != before[name]} == {"accessed_at"}
    assert [one["id"] for one in daemon.call("neighbors", id=tea)["neighbors"]] == [cake]
    assert len(daemon.call("history", id=cake)["versions"]) == 1
    assert daemon.call("recall", query="apple")["hits"][0]["id"] == cake


def test_restoring_what_is_live_changes_nothing(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")

    back = daemon.call("restore", id=tea)

    assert back["state"] == "live"
    assert daemon.call("get", id=tea)["accessed_at"] is None


def test_what_a_live_memory_says_by_now_is_not_restored_beside_it(daemon: Daemon) -> None:
    tea, cocoa = daemon.remember("Ada likes tea", id="tea"), daemon.remember("Ada likes cocoa", id="cocoa")
    daemon.call("forget", id=tea)
    daemon.call("update", id=cocoa, content="Ada likes tea")

    error = refused(daemon, "conflict", "restore", id=tea)

    assert error.extra["duplicate_of"] == cocoa


def test_a_hard_forget_erases_everything_at_once(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    gone = daemon.remember(f"the word is {PLANTED}", context=f"{PLANTED} again")
    daemon.call("connect", a=tea, b=gone, label=f"about {PLANTED}", request_id="edge")
    daemon.call("update", id=gone, content=f"the word was {PLANTED}", request_id="edit")

    done = daemon.call("forget", id=gone, hard=True)

    assert done == {"forgotten": [gone], "missing": [], "snapshots": 0}
    for method in ("get", "history", "neighbors", "restore"):
        refused(daemon, "not_found", method, id=gone)
    assert daemon.call("neighbors", id=tea)["neighbors"] == []
    assert daemon.call("list", state="forgotten")["memories"] == []
    assert daemon.call("health")["edges"] == 0
    assert PLANTED.encode() not in bytes_of_ledger(daemon)


def test_a_hard_forget_takes_the_images_that_runs_left_of_the_memory(daemon: Daemon) -> None:
    fading = daemon.remember(f"the word is {PLANTED}")
    daemon.beat(30)
    run = daemon.call("run_job", name="decay")
    assert run["counts"]["decayed"] == 1

    daemon.call("forget", id=fading, hard=True)

    images = [(one.before, one.after) for one in daemon.in_lane(daemon.stores.ledger.journal_of, run["run_id"])]
    undone = daemon.call("undo", run_id=run["run_id"])
    assert images in ([], [(None, None)])
    assert (undone["restored"], undone["left"]) == ([], [point_id(fading)])
    refused(daemon, "not_found", "get", id=fading)


def test_the_next_scrub_leaves_no_byte_of_what_was_erased(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea")
    gone = daemon.remember(f"the word is {PLANTED}", metadata={"k": PLANTED}, context=PLANTED)
    daemon.call("update", id=gone, content=f"the word was {PLANTED}", tags=[PLANTED])
    daemon.run(daemon.app.background.flush())
    assert PLANTED.encode() in bytes_of(daemon.folder / "state")
    daemon.call("forget", id=gone, hard=True)

    scrubbed = daemon.call("run_job", name="scrub")
    daemon.stop()

    assert scrubbed["outcome"] == "changed"
    assert PLANTED.encode() not in bytes_of(daemon.folder / "state")
    assert daemon.start().call("stats")["total"] == 1


def test_what_lies_in_the_bin_can_be_erased_too(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    daemon.call("forget", id=tea)

    done = daemon.call("forget", ids=[tea, "nobody"], hard=True)
    assert done == {"forgotten": [tea], "missing": ["nobody"], "snapshots": 0}
    refused(daemon, "not_found", "get", id=tea)


def merged_by_a_night(daemon: Daemon, *ids: str, content: str) -> str:
    """Memories that say the same, made one by a night; the id of the one that is left."""
    for number, memory in enumerate(ids):
        daemon.remember(content + "." * number, id=memory)
    daemon.call("run_job", name="dedup")
    (left,) = (one["id"] for one in daemon.call("list")["memories"] if one["id"] in ids)
    return left


def test_what_a_night_merged_into_a_memory_is_erased_with_it(daemon: Daemon) -> None:
    left = merged_by_a_night(daemon, "one", "two", content=f"the code word is {PLANTED}")
    twin = "two" if left == "one" else "one"
    assert daemon.call("get", id=twin)["superseded_by"] == left
    daemon.run(daemon.app.background.flush())

    done = daemon.call("forget", id=left, hard=True)
    daemon.call("run_job", name="scrub")

    assert done == {"forgotten": [left, twin], "missing": [], "snapshots": 0}
    for method in ("get", "restore"):
        refused(daemon, "not_found", method, id=twin)
    assert [sorted(one.ids) for one in daemon.parts.events._ring if one.type == "purged"] == [["one", "two"]]
    daemon.stop()
    assert PLANTED.encode() not in bytes_of(daemon.folder / "state")


def test_an_older_text_that_a_newer_one_took_the_place_of_stays_and_is_named(daemon: Daemon) -> None:
    rome, porto = daemon.remember("Ada lives in Rome", id="rome"), daemon.remember("Ada lives in Porto", id="porto")
    daemon.call("forget", id=rome, superseded_by=porto)

    done = daemon.call("forget", id=porto, hard=True)

    assert done == {"forgotten": [porto], "missing": [], "superseded": [rome], "snapshots": 0}
    assert daemon.call("get", id=rome)["content"] == "Ada lives in Rome"
    assert daemon.call("forget", id=rome, hard=True) == {"forgotten": [rome], "missing": [], "snapshots": 0}


def test_who_erases_a_twin_hears_which_memory_says_it_still(daemon: Daemon) -> None:
    left = merged_by_a_night(daemon, "one", "two", content="the code word is amber")
    twin = "two" if left == "one" else "one"

    done = daemon.call("forget", id=twin, hard=True)

    assert done == {"forgotten": [twin], "missing": [], "merged_into": [left], "snapshots": 0}
    assert daemon.call("get", id=left)["state"] == "live"


def test_an_id_that_tells_something_is_in_no_ledger_after_a_hard_forget(daemon: Daemon) -> None:
    """Not in what a run gave as an example, nor in what the journal says was changed."""
    telling = f"affair-with-{PLANTED}"
    merged_by_a_night(daemon, telling, "other", content="we met at the lake")
    daemon.call("undo", run_id=daemon.call("runs", job="dedup")["runs"][0]["run_id"])
    daemon.beat(30)
    night = daemon.call("run_job", name="decay")
    assert telling in str(daemon.call("runs", job="dedup"))
    assert telling in str(night["examples"])
    assert telling.encode() in bytes_of_ledger(daemon)

    daemon.call("forget", id=telling, hard=True)

    assert telling.encode() not in bytes_of_ledger(daemon)
    assert telling not in str(daemon.call("runs"))
    told = daemon.call("runs", job="decay")["runs"][0]
    assert (told["counts"], [one["id"] for one in told["examples"]]) == (night["counts"], ["other"])


def bytes_of_ledger(daemon: Daemon) -> bytes:
    return b"".join(path.read_bytes() for path in (daemon.folder / "state").glob("state.db*"))
