"""What is erased after a merge is erased where the merge brought it, too: no undo and no journal knows it any more."""

from __future__ import annotations

import json
import zlib

import pytest

from storage import swap
from storage.forget import restore
from storage.model import DAY, point_id
from storage.records import RECORDS
from tests.storage.merging import comment, comments, merged, undo
from tests.storage.opened import Opened


def said(opened: Opened, memory: str) -> list[str]:
    """The former texts of a memory, oldest first."""
    return [one.content for one in reversed(opened.stores.records.versions(memory))]


def journal(opened: Opened) -> str:
    """Every image that the journal holds."""
    images = [image for (image,) in opened.ledger._db.all("SELECT image FROM journal")]
    return json.dumps([json.loads(zlib.decompress(image)) for image in images])


def records(opened: Opened) -> str:
    return json.dumps([one.payload for batch in opened.engine.scroll(RECORDS) for one in batch])


@pytest.fixture
def three(opened) -> Opened:
    """Three memories, each with a former text and a comment that name it; nothing else of them does so."""
    for name in ("ash", "birch", "cedar"):
        opened.add(f"first {name}", id=name)
        opened.update(name, content=f"a tree of kind {name[0]}")
        comment(opened, name, f"remark on {name}")
        opened.clock.advance(DAY)
    return opened


def test_what_an_erased_duplicate_said_before_comes_back_by_no_undo_and_is_in_no_journal(three) -> None:
    """Merged, taken back, erased: the undo of the undo holds the survivor's copy of its former text."""
    merged(three, "ash", "birch")
    assert undo(three, "run", by="undo") == []
    three.forget("birch", hard=True)
    assert "first birch" not in journal(three)
    assert "remark on birch" not in journal(three)

    undo(three, "undo", by="redo")

    assert said(three, "ash") == ["first ash"]
    assert "birch" not in records(three).replace('"merged with birch"', "")
    assert "first ash" in records(three)


def test_an_erased_duplicate_takes_along_what_the_merge_handed_over_and_nothing_else(three) -> None:
    merged(three, "ash", "birch")
    assert said(three, "ash") == ["first ash", "first birch"]
    assert comments(three, "ash") == ["remark on ash", "remark on birch"]

    three.forget("birch", hard=True)

    assert said(three, "ash") == ["first ash"]
    assert comments(three, "ash") == ["remark on ash"]
    assert (said(three, "cedar"), comments(three, "cedar")) == (["first cedar"], ["remark on cedar"])
    assert "first birch" not in journal(three)
    three.reopen()
    assert comments(three, "ash") == ["remark on ash"]


@pytest.mark.parametrize("erased", ["ash", "birch"])
def test_over_a_chain_of_merges_and_a_restart_it_is_found_with_whoever_has_it_now(three, erased) -> None:
    merged(three, "birch", "ash", run="one")
    merged(three, "cedar", "birch", run="two")
    three.reopen()
    assert sorted(said(three, "cedar")) == ["first ash", "first birch", "first cedar"]

    three.forget(erased, hard=True)

    left = ["first birch"] * (erased == "ash") + ["first cedar"]
    assert sorted(said(three, "cedar")) == left
    assert sorted(comments(three, "cedar")) == [text.replace("first", "remark on") for text in left]
    assert f"first {erased}" not in journal(three)
    for run in ("two", "one"):
        undo(three, run, by=f"{run}-undo")
    assert f"first {erased}" not in records(three)


def test_a_duplicate_that_was_restored_by_hand_still_takes_along_what_it_had_handed_over(three) -> None:
    """It names no survivor any more."""
    merged(three, "ash", "birch")
    restore(three.stores, "birch", "secret", three.now)

    three.forget("birch", hard=True)

    assert (said(three, "ash"), comments(three, "ash")) == (["first ash"], ["remark on ash"])


def test_what_came_home_goes_with_nobody_that_had_it_meanwhile(three) -> None:
    """Merged the wrong way round, restored, merged again: the way there and back is forgotten."""
    merged(three, "birch", "ash", run="wrong")
    restore(three.stores, "ash", "secret", three.now)
    merged(three, "ash", "birch", run="right")

    three.forget("birch", hard=True)

    assert "first ash" in said(three, "ash")
    assert "first birch" not in said(three, "ash")
    assert comments(three, "ash") == ["remark on ash"]


def test_what_was_given_back_goes_with_its_memory_alone(three) -> None:
    merged(three, "ash", "birch")
    undo(three, "run")

    three.forget("ash", hard=True)

    assert (said(three, "birch"), comments(three, "birch")) == (["first birch"], ["remark on birch"])


def test_a_reply_to_a_comment_that_goes_this_way_stays_and_answers_nothing(three) -> None:
    merged(three, "ash", "birch")
    asked = next(
        one for one in three.stores.comments.select(three.now, memory="ash").comments if "birch" in one.content
    )
    three.stores.comments.add("cedar", "so I heard", "Eve", three.now, "reply", reply_to=asked.id)

    three.forget("birch", hard=True)

    (reply,) = (one for one in three.stores.comments.select(three.now, memory="cedar").comments if one.id == "reply")
    assert reply.reply_to is None


def test_an_older_snapshot_brings_nothing_of_it_back(three) -> None:
    """As the store of a snapshot that was taken after the merge and restored after the erasure."""
    merged(three, "ash", "birch")
    three.ledger.note_erased([point_id("birch")], three.now)
    three.ledger.set_fact(swap.ERASE_AGAIN, [three.now - 1, three.now + 1, 0])

    swap.erase_again(three.stores)

    assert "birch" not in three.stores.catalogue
    assert (said(three, "ash"), comments(three, "ash")) == (["first ash"], ["remark on ash"])


def test_what_only_ends_its_time_in_the_bin_leaves_the_survivor_what_it_handed_over(three) -> None:
    merged(three, "ash", "birch")

    three.stores.changer.erase(["birch"])  # as `purge` does

    assert said(three, "ash") == ["first ash", "first birch"]
    assert comments(three, "ash") == ["remark on ash", "remark on birch"]
