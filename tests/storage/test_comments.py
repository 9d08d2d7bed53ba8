"""Comments on memories: who sees them, who they wait for, and what becomes of a reply when one of its ends goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.changes import Erase, RecordChange
from storage.comments import MOST, Comment, from_payload, key_of, to_payload
from storage.errors import Conflict, NotFound, Refused
from storage.model import SENSITIVITIES, cleared
from storage.records import RECORDS
from tests.storage.opened import Opened


def say(opened: Opened, memory: str, content: str, author: str = "Grace", **options: Any) -> str:
    """Comment, and return the comment's id."""
    made = opened.stores.comments.add(memory, content, author, opened.now, opened.clock.new_id(), **options)
    return made.id


def told(opened: Opened, **options: Any) -> list[str]:
    """What the comments say, in their order."""
    return [one.content for one in opened.stores.comments.select(opened.now, **options).comments]


def by_id(opened: Opened, **options: Any) -> dict[str, Comment]:
    return {one.id: one for one in opened.stores.comments.select(opened.now, **options).comments}


@pytest.fixture
def tea(opened: Opened) -> str:
    return opened.add("Ada likes tea", id="tea")


def test_comments_come_oldest_first_also_those_of_one_instant_and_after_a_restart(opened: Opened, tea: str) -> None:
    said = [f"comment {number}" for number in range(12)]
    for one in said:
        say(opened, tea, one)
    before = opened.stores.comments.select(opened.now)

    assert told(opened) == said
    assert len({one.created_at for one in before.comments}) == 12
    opened.reopen()
    assert opened.stores.comments.select(opened.now) == before


def test_what_the_reader_says_is_read_from_the_start_and_all_else_waits(opened: Opened, tea: str) -> None:
    ours, theirs = say(opened, tea, "I said so", "AI"), say(opened, tea, "really?")

    shown = by_id(opened)
    assert (shown[ours].read, shown[ours].read_at) == (True, shown[ours].created_at)
    assert (shown[theirs].read, shown[theirs].read_at) == (False, None)
    assert told(opened, unread=True) == ["really?"]


def test_reading_is_noted_once_and_what_is_not_there_is_listed(opened: Opened, tea: str) -> None:
    first, second = say(opened, tea, "one"), say(opened, tea, "two")
    comments = opened.stores.comments

    assert comments.mark_read([first, "nobody", first], opened.now) == (1, ["nobody"])
    then = opened.now
    opened.clock.advance(60)
    assert comments.mark_read([first, second], opened.now) == (2, [])
    assert comments.mark_read(["nobody", "no one"], opened.now) == (0, ["nobody", "no one"])
    with pytest.raises(NotFound, match="'nobody'"):
        comments.mark_read(["nobody"], opened.now)

    opened.reopen()
    shown = by_id(opened)
    assert (shown[first].read_at, shown[second].read_at) == (then, then + 60)
    assert opened.stores.comments.select(opened.now, unread=True) == ([], 0)


def test_a_comment_is_neither_an_access_nor_an_edit(opened: Opened, tea: str) -> None:
    before = opened.read(tea)
    opened.clock.advance(60)

    opened.stores.comments.mark_read([say(opened, tea, "well?")], opened.now)

    assert opened.read(tea) == before


def test_a_memory_in_the_bin_keeps_its_comments_and_they_wait_for_nobody(opened: Opened, tea: str) -> None:
    say(opened, tea, "before")
    opened.forget(tea)
    say(opened, tea, "in the bin")
    cake = opened.add("Ada bakes cake")
    say(opened, cake, "on cake")

    assert told(opened) == ["before", "in the bin", "on cake"]
    assert opened.stores.comments.select(opened.now).unread == 1
    assert told(opened, unread=True) == ["on cake"]
    assert told(opened, memory=tea, unread=True) == ["before", "in the bin"]


def test_what_is_said_of_a_superseded_memory_is_refused_and_goes_to_its_successor(opened: Opened, tea: str) -> None:
    """There it would wait for nobody, unseen."""
    say(opened, tea, "before")
    cocoa = opened.add("Ada likes cocoa by now")
    opened.forget(tea, superseded_by=cocoa)

    with pytest.raises(Conflict) as refused:
        say(opened, tea, "after")

    assert refused.value.extra["superseded_by"] == cocoa
    assert told(opened, memory=tea) == ["before"]


def test_a_live_memory_past_its_end_hides_its_comments_too(opened: Opened) -> None:
    brief = opened.add("the shop is closed today", expires_at=opened.now + 60)
    made = say(opened, brief, "until when?")
    opened.clock.advance(61)

    assert told(opened) == []
    for ask in (
        lambda: opened.stores.comments.select(opened.now, memory=brief),
        lambda: opened.stores.comments.mark_read([made], opened.now),
        lambda: say(opened, brief, "too late"),
    ):
        with pytest.raises(NotFound):
            ask()


def test_a_coarse_scope_sees_the_comments_below_it_and_no_others(opened: Opened) -> None:
    for scope in ("a", "a/b", "ab", "default"):
        say(opened, opened.add(f"in {scope}", scope=scope), f"on {scope}")

    assert told(opened, scope="a") == ["on a", "on a/b"]
    assert told(opened, scope="a/b") == ["on a/b"]
    assert told(opened, scope="*") == ["on a", "on a/b", "on ab", "on default"]
    assert opened.stores.comments.select(opened.now, scope="a").unread == 2


def test_no_reply_crosses_scopes_and_none_answers_what_is_not_there(opened: Opened, tea: str) -> None:
    far = opened.add("elsewhere", scope="other")
    cake = opened.add("Ada bakes cake")
    asked = say(opened, tea, "which tea?")

    reply = say(opened, cake, "the green one", reply_to=asked)

    assert by_id(opened)[reply].reply_to == asked
    with pytest.raises(Refused, match="another scope"):
        say(opened, far, "hm", reply_to=asked)
    with pytest.raises(NotFound, match="There is no comment 'nobody'"):
        say(opened, tea, "hm", reply_to="nobody")
    assert told(opened, scope="other") == []


def test_at_most_so_many_come_at_once_and_the_rest_once_these_are_read(opened: Opened, tea: str) -> None:
    ids = [say(opened, tea, f"{number}") for number in range(MOST + 3)]
    comments = opened.stores.comments
    page = comments.select(opened.now, unread=True)

    assert ([one.id for one in page.comments], page.unread) == (ids[:MOST], MOST + 3)
    comments.mark_read(ids[:MOST], opened.now)
    assert [one.id for one in comments.select(opened.now, unread=True).comments] == ids[MOST:]
    assert [one.id for one in comments.select(opened.now, limit=2).comments] == ids[:2]


# -- A12: deleting either end never blocks


@pytest.mark.parametrize("gone", ["tea", "cake"])
@pytest.mark.parametrize("how", ["hard", "purge"])
def test_a12_a_reply_never_blocks_a_delete_and_answers_nothing_once_what_it_answers_is_gone(
    opened: Opened, tea: str, gone: str, how: str
) -> None:
    cake = opened.add("Ada bakes cake", id="cake")
    asked = say(opened, tea, "which tea?")
    reply = say(opened, cake, "the green one", reply_to=asked)
    thanks = say(opened, tea, "thanks", reply_to=reply)
    kept = [{asked, thanks}, {reply}][gone == "tea"]

    if how == "hard":
        assert opened.forget(gone, hard=True) == [gone]
    else:
        opened.forget(gone)
        assert opened.stores.changer.apply("run", [Erase(gone, opened.row(gone).seq)], opened.now).skipped == []

    for _ in range(2):
        assert by_id(opened).keys() == kept
        assert {one.reply_to for one in by_id(opened).values()} == {None}
        stored = opened.stores.records.get([key_of(one) for one in (asked, reply, thanks)])
        assert stored.keys() == {key_of(one) for one in kept}
        assert not any("reply_to" in payload for payload in stored.values())
        opened.reopen()


def test_a12_replies_on_the_memory_itself_go_with_it(opened: Opened, tea: str) -> None:
    asked = say(opened, tea, "which tea?")
    say(opened, tea, "the green one", reply_to=asked)

    opened.forget(tea, hard=True)

    assert told(opened) == []
    assert opened.engine.count(RECORDS) == 0
    assert say(opened, opened.add("Ada bakes cake"), "a new one")


def test_a12_a_run_that_removes_a_comment_lets_go_of_its_replies(opened: Opened, tea: str) -> None:
    asked = say(opened, tea, "which tea?")
    reply = say(opened, tea, "the green one", reply_to=asked)
    stored = opened.stores.records.get([key_of(asked)])[key_of(asked)]

    applied = opened.stores.changer.apply("run", [RecordChange(key_of(asked), stored, None, "default")], opened.now)

    assert len(applied.done) == 1
    assert by_id(opened)[reply].reply_to is None
    assert by_id(opened).keys() == {reply}


def test_a_comment_that_a_merge_hands_over_is_known_by_its_new_memory(opened: Opened, tea: str) -> None:
    cake = opened.add("Ada bakes cake", id="cake")
    asked = say(opened, tea, "which?")
    reply = say(opened, tea, "this one", reply_to=asked)
    stored = opened.stores.records.get([key_of(asked)])[key_of(asked)]

    opened.stores.records.put({key_of(asked): stored | {"owner": cake}})

    assert by_id(opened, memory=cake).keys() == {asked}
    assert by_id(opened, memory=tea).keys() == {reply}
    assert by_id(opened)[reply].reply_to == asked
    opened.forget(tea, hard=True)
    assert by_id(opened).keys() == {asked}


# -- clearance

levels = st.sampled_from(SENSITIVITIES)


@settings(deadline=None, max_examples=40)
@given(memory=levels, floor=st.none() | levels, raised=levels, clearance=levels)
def test_a_comment_is_seen_where_its_memory_is_and_its_own_level_is_cleared(
    shared: Opened, memory: str, floor: str | None, raised: str, clearance: str
) -> None:
    """In every list, count and mark alike, and a hidden one is missing in the words for one that never was."""
    about = shared.remember(f"note {shared.clock.new_id()}", sensitivity=memory, scope="levels").memory.id
    made = say(shared, about, "well?", floor=floor)
    answer = say(shared, about, "yes", reply_to=made)
    shared.update(about, sensitivity=raised)
    comments = shared.stores.comments

    now_at = shared.row(about).sensitivity
    visible = cleared(now_at, clearance) and cleared(max(memory, floor or memory, key=SENSITIVITIES.index), clearance)
    reply_visible = cleared(now_at, clearance) and cleared(memory, clearance)
    selected = comments.select(shared.now, clearance=clearance, scope="levels", limit=10**6)
    seen = {one.id: one for one in selected.comments}
    assert (made in seen, answer in seen) == (visible, reply_visible)
    assert selected.unread == sum(not one.read for one in seen.values())
    if reply_visible:
        assert seen[answer].reply_to == (made if visible else None)
    if visible:
        assert comments.mark_read([made], shared.now, clearance=clearance) == (1, [])
        return
    hidden = refusal(lambda: comments.mark_read([made], shared.now, clearance=clearance))
    absent = refusal(lambda: comments.mark_read(["nobody"], shared.now, clearance=clearance))
    assert (hidden.detail.replace(made, "nobody"), hidden.hint) == (absent.detail, absent.hint)
    assert not cleared(hidden.withheld, clearance)
    assert absent.withheld is None
    assert refusal(lambda: say(shared, about, "me too", clearance=clearance, reply_to=made)).kind == "not_found"


def refusal(ask: Any) -> Any:
    with pytest.raises(NotFound) as caught:
        ask()
    return caught.value


optional = st.none() | st.text(min_size=1, max_size=5)


@given(
    st.builds(
        Comment, id=st.text(), memory=st.text(), scope=st.text(), author=st.text(), content=st.text(), sensitivity=levels,
        created_at=st.floats(0, 1e9), reply_to=optional, read=st.booleans(), read_at=st.none() | st.floats(0, 1e9),
    )
)  # fmt: skip
def test_a_payload_holds_the_whole_comment_and_no_none(comment: Comment) -> None:
    payload = to_payload(comment)

    assert from_payload(payload) == comment
    assert None not in payload.values()
    assert (payload["kind"], payload["owner"]) == ("comment", comment.memory)
