"""Two memories made one: nothing that hung on either is lost, and an undo brings everything back as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import merge
from storage.changes import Change, Edge, Move, Patch, RecordChange, thing_of
from storage.comments import Comment, key_of, to_payload
from storage.engine import Payload
from storage.errors import Conflict, NotFound, Refused
from storage.fading import Awake
from storage.forget import restore
from storage.graph import connect
from storage.model import DAY, HEATS, SENSITIVITIES, TIERS, Memory, Synapse, Version, point_id, synapse_key
from storage.records import RECORDS, version_key, version_payload
from storage.synapses import ASSOCIATIVE, associate, faded
from storage.text import MAX_TAGS
from tests.storage import merging
from tests.storage.merging import comments, image, merged, undo
from tests.storage.opened import Opened

NOW = 1_767_225_600.0
AWAKE = Awake()
ENDS = ("s", "d", "x", "y", "z")


def plan(
    survivor: Memory, duplicate: Memory, edges: Sequence[Synapse] = (), records: Mapping[str, Payload] | None = None
) -> list[Change]:  # fmt: skip
    return merge.plan(survivor, duplicate, edges, records or {}, NOW, AWAKE)


def survivor_after(survivor: Memory, changes: Sequence[Change]) -> Memory:
    (fields,) = (change.fields for change in changes if isinstance(change, Patch))
    return replace(survivor, **fields)


def edges_after(edges: Sequence[Synapse], changes: Sequence[Change]) -> dict[str, Synapse]:
    now = {edge.key: edge for edge in edges}
    for change in changes:
        if isinstance(change, Edge):
            assert now.get(change.key) == change.before
            now.pop(change.key, None)
            if change.after is not None:
                assert change.after.key == change.key
                now[change.key] = change.after
    return now


def records_after(records: Mapping[str, Payload], changes: Sequence[Change]) -> dict[str, Payload]:
    now = dict(records)
    for change in changes:
        if isinstance(change, RecordChange):
            assert now.get(change.key) == change.before
            now.pop(change.key, None)
            if change.after is not None:
                now[change.key] = change.after
    return now


# -- the plan

shares = st.floats(0.0, 1.0).map(lambda share: round(share, 6))
instants = st.floats(NOW - 400 * DAY, NOW).map(lambda instant: round(instant, 3))
values = st.none() | st.booleans() | st.integers(0, 2) | st.text(max_size=2)
words = st.lists(st.sampled_from("abcdef"), max_size=4, unique=True).map(tuple)


@st.composite
def memories(draw: st.DrawFn, name: str) -> Memory:
    """A live memory with any history."""
    created = draw(instants)
    updated = draw(instants.filter(lambda at: at >= created) | st.just(created))
    count = draw(st.integers(0, 9))
    return Memory(
        id=name, content=f"text of {name}", context=draw(st.sampled_from(["", "long"])), scope="a",
        version=draw(st.integers(1, 5)), metadata=draw(st.dictionaries(st.sampled_from("kl"), values)),
        author=draw(st.sampled_from(["", "Ada"])), tags=draw(words), entities=draw(words), source_turns=draw(words),
        tier=draw(st.sampled_from(TIERS)), heat=draw(st.sampled_from(HEATS)), pinned=draw(st.booleans()),
        sensitivity=draw(st.sampled_from(SENSITIVITIES)), emotion=draw(shares), importance=draw(shares),
        confidence=draw(shares), created_at=created, updated_at=updated, access_count=count,
        accessed_at=draw(instants) if count else None, access_days=draw(st.integers(0, count)),
        cooled_at_count=draw(st.integers(0, count)), expires_at=draw(st.none() | st.floats(NOW + 1, NOW + DAY)),
        seq=draw(st.integers(1, 9)),
    )  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> list[Synapse]:
    """Edges of every kind among a survivor, a duplicate and three others."""
    pairs = st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS)).filter(lambda pair: pair[0] != pair[1])
    kinds = st.sampled_from((*ASSOCIATIVE, "next", "derived"))
    edges: dict[str, Synapse] = {}
    for (a, b), kind in draw(st.lists(st.tuples(pairs, kinds), max_size=14)):
        weight, at, label = draw(st.floats(0.0, 10.0)), draw(instants), draw(st.sampled_from(["", "why", "how"]))
        edge = (
            associate(a, b, kind, weight, at, label=label) if kind in ASSOCIATIVE else Synapse(a, b, kind, 1.0, at, at)
        )
        edges.setdefault(edge.key, edge)
    return list(edges.values())


@st.composite
def histories(draw: st.DrawFn, survivor: Memory, duplicate: Memory) -> dict[str, Payload]:
    """Former versions of both, comments on both, and a record of a kind that we do not know."""
    records: dict[str, Payload] = {}
    for memory in (survivor, duplicate):
        for number in range(1, memory.version):
            version = Version(
                memory.id, number, f"{memory.id} {number}", "", "semantic", (), {}, draw(st.sampled_from(SENSITIVITIES)), "",
                NOW - DAY, draw(instants),
            )  # fmt: skip
            records[version_key(memory.id, number)] = version_payload(version)
        for number in range(draw(st.integers(0, 2))):
            records[f"comment-{memory.id}-{number}"] = {"kind": "comment", "owner": memory.id, "text": f"{memory.id}!"}
        records[f"dream-{memory.id}"] = {"owner": memory.id, "memory": memory.id}
    return records


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Memory, Memory, list[Synapse], dict[str, Payload]]:
    survivor, duplicate = draw(memories("s")), draw(memories("d"))
    return survivor, duplicate, draw(graphs()), draw(histories(survivor, duplicate))


def for_all(*some: st.SearchStrategy[Any]) -> Any:
    return lambda test: settings(deadline=None, max_examples=80)(given(*some)(test))


@for_all(pairs())
def test_a11_a_plan_is_about_the_pair_alone_and_about_each_thing_once(pair) -> None:
    survivor, duplicate, edges, records = pair
    changes = plan(survivor, duplicate, edges, records)

    assert max(Counter(map(thing_of, changes)).values()) == 1
    assert {change.memory for change in changes if isinstance(change, Patch | Move)} == {"s", "d"}
    assert {change.key for change in changes if isinstance(change, RecordChange) and change.before} <= records.keys()
    assert {change.scope for change in changes if isinstance(change, Edge | RecordChange)} <= {"a"}
    (move,) = (change for change in changes if isinstance(change, Move))
    assert (move.memory, move.seq, move.op) == ("d", duplicate.seq, "supersede")
    assert move.fields == {"invalid_at": NOW, "superseded_by": "s", "forgotten_reason": "merged"}


@for_all(pairs())
def test_a10_the_survivor_keeps_what_it_says_and_takes_the_stronger_of_every_mark(pair) -> None:
    survivor, duplicate, edges, records = pair
    after = survivor_after(survivor, plan(survivor, duplicate, edges, records))

    kept = (
        "id",
        "content",
        "context",
        "type",
        "subtype",
        "author",
        "scope",
        "session",
        "event_at",
        "source",
        "provenance",
    )
    assert [getattr(after, name) for name in kept] == [getattr(survivor, name) for name in kept]
    for name, ranks in (("tier", TIERS), ("heat", HEATS), ("sensitivity", SENSITIVITIES)):
        levels = [ranks.index(getattr(one, name)) for one in (survivor, duplicate)]
        assert ranks.index(getattr(after, name)) == max(levels)
    for name in ("importance", "confidence", "emotion", "access_days", "used_at"):
        assert getattr(after, name) == max(getattr(one, name) for one in (survivor, duplicate))
    for name in ("access_count", "cooled_at_count"):
        assert getattr(after, name) == getattr(survivor, name) + getattr(duplicate, name)
    assert after.pinned == (survivor.pinned or duplicate.pinned)
    assert after.created_at == min(survivor.created_at, duplicate.created_at)
    assert (after.accessed_at or 0.0) == max(survivor.accessed_at or 0.0, duplicate.accessed_at or 0.0)
    never = None in (survivor.expires_at, duplicate.expires_at)
    assert after.expires_at == (None if never else max(survivor.expires_at, duplicate.expires_at))
    for name in ("tags", "entities", "source_turns"):
        mine, theirs = getattr(survivor, name), getattr(duplicate, name)
        assert getattr(after, name) == (*mine, *(one for one in theirs if one not in mine))
    assert after.metadata == {**duplicate.metadata, **survivor.metadata}
    assert list(after.metadata)[: len(survivor.metadata)] == list(survivor.metadata)
    assert after.change_summary == "merged with d"


@for_all(pairs())
def test_what_is_no_text_is_the_same_whichever_of_the_two_survives(pair) -> None:
    survivor, duplicate, _, _ = pair
    one, other = (survivor_after(a, plan(a, b)) for a, b in ((survivor, duplicate), (duplicate, survivor)))

    alike = (
        "tier", "heat", "sensitivity", "pinned", "importance", "confidence", "emotion", "access_count", "access_days",
        "cooled_at_count", "created_at", "updated_at", "accessed_at", "expires_at",
    )  # fmt: skip
    assert [getattr(one, name) for name in alike] == [getattr(other, name) for name in alike]
    for name in ("tags", "entities", "source_turns", "metadata"):
        assert set(getattr(one, name)) == set(getattr(other, name))


@for_all(pairs())
def test_every_edge_of_both_lives_on_at_the_survivor_added_and_never_above_ten(pair) -> None:
    survivor, duplicate, edges, _ = pair
    after = edges_after(edges, plan(survivor, duplicate, edges))

    assert not [edge for edge in after.values() if "d" in edge[:2] or edge.a == edge.b]
    assert all(0.0 <= edge.weight <= 10.0 for edge in after.values())
    assert all(edge.a < edge.b for edge in after.values() if edge.kind in ASSOCIATIVE)
    before = {edge.key: edge for edge in edges}
    for other in ("x", "y", "z"):
        keys = [synapse_key(end, other, "hebbian") for end in ("s", "d")]
        held = [before[key] for key in keys if key in before]
        now = after.get(keys[0])
        if not held:
            assert now is None
            continue
        total = sum(faded(edge, NOW, AWAKE) for edge in held)
        assert faded(now, NOW, AWAKE) == pytest.approx(min(total, 10.0), rel=1e-12)
        assert now.kind == max((edge.kind for edge in held), key=ASSOCIATIVE.index)
        assert now.created_at == min(edge.created_at for edge in held)
        assert now.label == next((edge.label for edge in held if edge.label), "")
        derived = [synapse_key(end, other, "derived") for end in ("s", "d")]
        assert (derived[0] in after) == any(key in before for key in derived)
    assert {edge for edge in after.values() if not {"s", "d"} & set(edge[:2])} >= {
        edge for edge in edges if not {"s", "d"} & set(edge[:2])
    }


@for_all(pairs())
def test_b18_every_record_of_both_is_the_survivors_and_no_two_versions_have_one_number(pair) -> None:
    survivor, duplicate, edges, records = pair
    changes = plan(survivor, duplicate, edges, records)
    after = records_after(records, changes)
    merged = survivor_after(survivor, changes)
    versions = [payload for payload in after.values() if payload.get("kind") == "version"]
    others = [payload for payload in after.values() if payload.get("kind") != "version"]
    numbers = [payload["number"] for payload in versions]

    assert {payload["owner"] for payload in after.values()} == {"s"}
    assert len(set(numbers)) == len(numbers)
    assert all(number < merged.version for number in numbers)
    assert all(key == version_key("s", payload["number"]) for key, payload in after.items() if payload in versions)
    assert {payload["memory"] for payload in versions} <= {"s"}
    edited = {"tags", "metadata", "sensitivity"} & {name for name in ("tags", "metadata", "sensitivity")
              if getattr(merged, name) != getattr(survivor, name)}  # fmt: skip
    said = Counter(payload["content"] for payload in records.values() if payload.get("kind") == "version")
    assert Counter(payload["content"] for payload in versions) == said + Counter(["text of s"] * bool(edited))
    assert Counter(str(payload.get("text")) for payload in others) == Counter(
        str(payload.get("text")) for payload in records.values() if payload.get("kind") != "version"
    )
    assert {payload["memory"] for payload in others if "memory" in payload} == {"s"}
    mine = {key: payload for key, payload in records.items() if payload["owner"] == "s"}
    assert mine.items() <= after.items()
    if edited:
        assert after[version_key("s", survivor.version)]["content"] == "text of s"
    elif not any(payload.get("kind") == "version" for payload in records.values() if payload["owner"] == "d"):
        assert merged.version == survivor.version


def test_versions_that_move_keep_their_order_and_never_fall_on_one_that_is_there() -> None:
    """Numbers at or above the survivor's version can come from elsewhere; they are passed over."""
    survivor, duplicate = Memory(id="s", version=2), Memory(id="d", version=3)
    kept = Version("s", 7, "odd", "", "semantic", (), {}, "public", "", 0.0, NOW - 9)
    records = {version_key("s", 7): version_payload(kept)}
    for number, at in ((1, NOW - 5), (2, NOW - 3)):
        version = Version("d", number, f"d{number}", "", "semantic", (), {}, "public", "", 0.0, at)
        records[version_key("d", number)] = version_payload(version)

    changes = plan(survivor, duplicate, (), records)

    after = records_after(records, changes)
    assert {payload["number"]: payload["content"] for payload in after.values()} == {7: "odd", 8: "d1", 9: "d2"}
    assert survivor_after(survivor, changes).version == 10


@pytest.mark.parametrize("last", ["public", "secret"])
def test_c6_a_merge_lowers_no_sensitivity(last) -> None:
    survivor, duplicate = Memory(id="s", sensitivity="confidential"), Memory(id="d", sensitivity=last)

    assert survivor_after(survivor, plan(survivor, duplicate)).sensitivity == max(
        "confidential", last, key=SENSITIVITIES.index
    )


def test_an_old_memory_that_was_just_said_again_is_as_fresh_as_what_was_said() -> None:
    """Else the next decay would take, by the age of the survivor, what somebody said today."""
    old = Memory(id="s", created_at=NOW - 300 * DAY, updated_at=NOW - 300 * DAY)
    new = Memory(id="d", created_at=NOW, updated_at=NOW)

    assert survivor_after(old, plan(old, new)).used_at == NOW


def test_what_two_have_together_may_not_be_more_than_one_may_have() -> None:
    half = MAX_TAGS // 2 + 1
    one, other = (Memory(id=name, tags=tuple(f"{name}{n}" for n in range(half))) for name in "sd")
    large = dict.fromkeys(("k", "l"), "x" * 200000)
    fat, full = (Memory(id=name, metadata={key: large[key]}) for name, key in (("s", "k"), ("d", "l")))

    for pair in ((one, other), (fat, full)):
        with pytest.raises(Refused) as refused:
            plan(*pair)
        assert "limit" in refused.value.detail
        assert "xxx" not in refused.value.detail


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        (["x", "d", "y"], [("x", "y")]),
        (["d", "y"], []),
        (["x", "d"], []),
        (["x", "s", "d", "y"], [("s", "y"), ("x", "s")]),
        (["x", "d", "s", "y"], [("s", "y"), ("x", "s")]),
        (["s", "x", "d", "y"], [("s", "x"), ("x", "y")]),
    ],
)
def test_a_session_closes_over_the_memory_that_leaves_it(chain, left) -> None:
    edges = [Synapse(a, b, "next", 1.0, 0.0, 0.0) for a, b in pairwise(chain)]

    after = edges_after(edges, plan(Memory(id="s"), Memory(id="d"), edges))

    assert sorted((edge.a, edge.b) for edge in after.values()) == left
    assert {edge.kind for edge in after.values()} <= {"next"}


def test_a_summary_goes_on_to_stand_for_what_it_was_made_from() -> None:
    edges = [Synapse("d", "x", "derived", 1.0, 0.0, 0.0), Synapse("y", "d", "derived", 1.0, 0.0, 0.0),
             Synapse("z", "d", "derived", 1.0, 0.0, 0.0), Synapse("s", "z", "derived", 1.0, 0.0, 0.0)]  # fmt: skip

    after = edges_after(edges, plan(Memory(id="s"), Memory(id="d"), edges))

    assert sorted((edge.a, edge.b) for edge in after.values()) == [("s", "x"), ("s", "z"), ("y", "s")]


# -- whole stores


@pytest.fixture
def twins(opened) -> Opened:
    return merging.twins(opened)


def test_case3_one_of_two_twins_is_left_with_the_edges_the_earlier_date_and_the_pin_of_both(twins) -> None:
    one, other = twins.read("s"), twins.read("d")

    merged(twins, "s", "d")

    after = twins.read("s")
    assert (after.content, after.context, after.tier) == (one.content, "the whole rule", "core")
    assert (after.pinned, after.created_at, after.sensitivity) == (True, one.created_at, "confidential")
    assert (after.importance, after.emotion) == (0.9, 0.8)
    assert after.tags == ("rule", "friday", "deploy")
    assert after.metadata == {"team": "billing", "since": 2024}
    around = {edge.other("s"): (edge.kind, edge.weight, edge.label) for edge in twins.stores.synapses.of("s")
              if edge.kind != "next"}  # fmt: skip
    assert around == {"hello": ("manual", 10.0, ""), "bye": ("manual", 2.0, "why")}
    assert list(twins.stores.synapses.of("d")) == []
    gone = twins.read("d")
    assert (gone.state, gone.superseded_by, gone.content) == ("superseded", "s", other.content)
    assert set(twins.found("deploys Fridays forbidden")) & {"s", "d"} == {"s"}


def test_the_session_of_the_duplicate_stays_a_chain(twins) -> None:
    merged(twins, "s", "d")

    synapses = twins.stores.synapses
    assert [synapses.after(memory) for memory in ("hello", "s", "d", "bye")] == [["s"], ["bye"], [], []]


def test_b18_the_history_of_both_is_the_survivors_newest_first(twins) -> None:
    merged(twins, "s", "d")

    versions = twins.stores.records.versions("s")
    assert [(one.number, one.content) for one in versions] == [
        (2, "deploys on Fridays are forbidden"),  # what it was until the merge
        (3, "Deploys on Fridays are forbidden!"),
        (1, "deploys on Fridays are forbidden"),
    ]
    assert twins.stores.records.versions("d") == []
    assert (twins.row("s").version, twins.row("s").change_summary) == (4, "merged with d")
    twins.update("s", content="never deploy on a Friday")
    assert [one.number for one in twins.stores.records.versions("s")] == [4, 2, 3, 1]


def test_comments_follow_the_memory_that_they_are_about_now_over_a_restart_too(twins) -> None:
    merged(twins, "s", "d")
    assert comments(twins, "s") == ["about s", "about d"]

    twins.reopen()
    assert comments(twins, "s") == ["about s", "about d"]
    assert comments(twins, "d") == []
    twins.forget("s", hard=True)
    assert twins.stores.comments.select(twins.now).comments == []


def test_a_merge_is_taken_back_whole_and_made_again(twins) -> None:
    before = image(twins)
    merged(twins, "s", "d")
    after = image(twins)

    assert undo(twins, "run", by="undo") == []
    assert image(twins) == before
    assert comments(twins, "d") == ["about d"]
    assert undo(twins, "undo", by="redo") == []
    assert image(twins) == after


def test_a_version_never_comes_twice_so_that_no_edit_of_what_was_read_in_between_is_lost(twins) -> None:
    """Who read the survivor before the undo, or before the merge, must not write over what it says now."""
    seen = [twins.row("s").version]
    merged(twins, "s", "d")
    for run, by in (("run", "undo"), ("undo", "redo"), ("redo", "again")):
        seen.append(twins.row("s").version)
        assert undo(twins, run, by=by) == []

    assert twins.row("s").version == max(seen) + 1
    assert seen == sorted(set(seen))
    for version in seen:
        with pytest.raises(Conflict):
            twins.update("s", content="lost", if_version=version)
    numbers = [one.number for one in twins.stores.records.versions("s")]
    assert max(numbers) < twins.row("s").version
    assert len(set(numbers)) == len(numbers)


def test_merges_into_one_survivor_are_taken_back_in_reverse_and_made_again_in_any_grouping(twins) -> None:
    """Each undo leaves a higher version than the merge before it did; that is no edit since."""
    twins.add("Deploys on a Friday: no", id="e", tags=["late"], sensitivity="secret")
    states = [image(twins)]
    merged(twins, "s", "d", run="one")
    states.append(image(twins))
    merged(twins, "s", "e", run="two")
    states.append(image(twins))

    for run, by, state in (
        ("two", "u2", 1), ("one", "u1", 0), ("u1", "r1", 1), ("u2", "r2", 2), ("r2", "v2", 1), ("r1", "v1", 0),
    ):  # fmt: skip
        assert undo(twins, run, by=by) == []
        assert image(twins) == states[state]
    assert twins.row("s").sensitivity == "personal"


def test_c6_the_first_of_two_merges_that_is_taken_back_alone_lowers_no_sensitivity(twins) -> None:
    """What the second brought may be as sensitive as what the first did."""
    twins.add("Deploys on a Friday: no", id="e", sensitivity="confidential", metadata={"code": 1234})
    merged(twins, "s", "d", run="one")
    merged(twins, "s", "e", run="two")

    assert "s" in undo(twins, "one", by="u1")
    assert twins.row("s").sensitivity == "confidential"


def test_c6_a_merge_that_is_made_again_guards_what_it_brings_whatever_was_set_since(twins) -> None:
    merged(twins, "s", "d")
    undo(twins, "run", by="undo")
    twins.update("s", sensitivity="public")

    assert "s" in undo(twins, "undo", by="redo")
    assert (twins.row("s").metadata["since"], twins.row("s").sensitivity) == (2024, "confidential")


def test_c6_what_two_guarded_ones_made_is_as_guarded_when_it_is_made_again(twins) -> None:
    """The merge had not to raise it then."""
    twins.update("s", sensitivity="confidential")
    merged(twins, "s", "d")
    undo(twins, "run", by="undo")
    twins.update("s", sensitivity="public")

    undo(twins, "undo", by="redo")
    assert (twins.row("s").metadata["since"], twins.row("s").sensitivity) == (2024, "confidential")


def test_a_comment_that_was_read_since_goes_back_to_its_memory_as_read(twins) -> None:
    (about,) = twins.stores.comments.select(twins.now, memory="d").comments
    merged(twins, "s", "d")
    twins.stores.comments.mark_read([about.id], twins.now)

    assert undo(twins, "run") == []

    (back,) = twins.stores.comments.select(twins.now, memory="d").comments
    assert back == replace(about, read=True, read_at=twins.now)
    assert comments(twins, "s") == ["about s"]


def test_what_hangs_on_a_memory_that_is_gone_for_good_stays_with_the_survivor(twins) -> None:
    (mine,) = twins.stores.comments.of(["s"])
    merged(twins, "s", "d")
    twins.stores.changer.erase(["d"])  # as `purge` does

    left = undo(twins, "run")

    assert comments(twins, "s") == ["about s", "about d"]
    assert {"d", *(key for key in twins.stores.comments.of(["s"]) if key != mine)} <= set(left)
    assert twins.stores.records.of("d") == {}


def test_a_merge_is_taken_back_after_a_restart(twins) -> None:
    before = image(twins)
    merged(twins, "s", "d")
    twins.reopen()

    assert undo(twins, "run") == []
    assert image(twins) == before


def test_a_survivor_that_was_edited_since_keeps_its_text_and_the_duplicate_comes_back(twins) -> None:
    merged(twins, "s", "d")
    twins.clock.advance(60)
    twins.update("s", content="never deploy on a Friday", metadata={"since": 2024})

    assert undo(twins, "run") == ["s"]

    one, other = twins.read("s"), twins.read("d")
    assert (one.content, one.version, one.metadata) == ("never deploy on a Friday", 6, {"since": 2024})
    assert (one.tags, one.pinned, one.emotion) == (("rule", "friday"), False, 0.5)
    assert (other.state, other.content, other.tags) == ("live", "Deploys on Fridays are forbidden.", ("deploy",))
    assert comments(twins, "d") == ["about d"]
    assert [version.content for version in twins.stores.records.versions("d")] == ["Deploys on Fridays are forbidden!"]
    assert twins.stores.synapses.between("d", "bye").label == "why"


def test_c6_what_was_edited_since_a_merge_stays_as_guarded_as_the_merge_made_it(twins) -> None:
    """It may hold what came from the more sensitive one."""
    merged(twins, "s", "d")
    twins.update("s", metadata={"team": "all"})
    undo(twins, "run")

    assert twins.row("s").sensitivity == "confidential"
    twins.update("s", sensitivity="public")
    assert twins.row("s").sensitivity == "public"


def test_what_was_changed_since_is_left_where_it_is(twins) -> None:
    merged(twins, "s", "d")
    stronger = connect(twins.stores, "s", "bye", 3.0, "", twins.now, "secret")

    assert undo(twins, "run") == [stronger.key]

    assert twins.stores.synapses.between("s", "bye") == stronger
    assert twins.stores.synapses.between("d", "bye").weight == 2.0
    assert twins.row("d").state == "live"


def test_a_duplicate_that_was_erased_since_stays_gone_and_the_survivor_gives_back_what_it_can(twins) -> None:
    before = twins.read("s")
    merged(twins, "s", "d")
    twins.forget("d", hard=True)

    assert point_id("d") in undo(twins, "run")
    assert "d" not in twins.stores.catalogue
    assert replace(twins.read("s"), seq=0, version=0) == replace(before, seq=0, version=0)
    assert all("d" not in edge[:2] for _, edge in twins.stores.synapses.every())


def test_a_duplicate_comes_back_even_where_its_survivor_was_forgotten(twins) -> None:
    merged(twins, "s", "d")
    twins.forget("s")

    undo(twins, "run")

    assert (twins.row("d").state, twins.row("s").state) == ("live", "forgotten")
    assert comments(twins, "d") == ["about d"]


def test_a_merged_duplicate_can_also_be_restored_by_hand(twins) -> None:
    merged(twins, "s", "d")

    assert restore(twins.stores, "d", "secret", twins.now).state == "live"
    assert twins.read("d").content == "Deploys on Fridays are forbidden."


def test_what_is_hidden_from_the_caller_moves_as_well_and_is_not_shown(opened) -> None:
    for memory in ("s", "d"):
        opened.add(f"note {memory}", id=memory, sensitivity="public")
    opened.add("the vault", id="vault", sensitivity="secret")
    opened.stores.synapses.put([associate("d", "vault", "manual", 2.0, opened.now)])
    opened.update("d", content="the code is 1234", sensitivity="secret")
    opened.update("d", content="note d again", sensitivity="public")

    merged(opened, "s", "d", clearance="public")

    assert opened.stores.synapses.between("s", "vault").weight == 2.0
    levels = {version.content: version.sensitivity for version in opened.stores.records.versions("s")}
    assert levels["the code is 1234"] == "secret"


@pytest.mark.parametrize(
    ("survivor", "duplicate", "error"),
    [
        ("s", "s", Conflict),
        ("s", "binned", Conflict),
        ("binned", "s", Conflict),
        ("s", "elsewhere", Refused),
        ("s", "below", Refused),
        ("s", "nobody", NotFound),
        ("nobody", "s", NotFound),
        ("s", "hidden", NotFound),
        ("hidden", "s", NotFound),
        ("hidden", "hidden", NotFound),
        ("s", "over", NotFound),
    ],
)
def test_a15_only_two_live_memories_of_one_scope_that_the_caller_sees_are_merged(
    opened, survivor, duplicate, error
) -> None:
    opened.add("one", id="s")
    opened.add("two", id="hidden", sensitivity="secret")
    opened.add("three", id="elsewhere", scope="other")
    opened.add("four", id="below", scope="default/x")
    opened.add("five", id="over", expires_at=opened.now - 1)
    opened.forget(opened.add("six", id="binned"))
    before = image(opened)

    with pytest.raises(error) as raised:
        merged(opened, survivor, duplicate, clearance="personal")
    assert raised.value.hint
    assert image(opened) == before


def test_a_hidden_memory_is_missing_in_the_words_for_one_that_does_not_exist(opened) -> None:
    opened.add("one", id="s")
    opened.add("two", id="hidden", sensitivity="secret")
    told = []
    for name in ("hidden", "nobody"):
        with pytest.raises(NotFound) as raised:
            merge.intended(opened.stores, "s", name, "personal", opened.now)
        told.append((raised.value.detail.replace(name, "it"), raised.value.hint))

    assert told[0] == told[1]


weights = st.floats(0.05, 10.0).map(lambda weight: round(weight, 6))
drawn = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from((*ASSOCIATIVE, "derived")), weights), max_size=10
)


numbers = st.integers(0, 5)
edited = st.lists(st.tuples(numbers, st.sampled_from(["tags", "metadata", "content"])), max_size=6)
remarked = st.lists(numbers, max_size=4)
paired = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn, edited, remarked, paired)
def test_whatever_is_merged_is_taken_back_whole(shared, edges, edits, remarks, merges) -> None:
    """Several merges one after the other too, undone in reverse; what anybody said is never lost on the way."""
    opened, scope = shared, shared.clock.new_id()
    ids = [
        opened.add(
            f"memory {n}", id=f"{scope}-{n}", scope=scope, session="s" * (n % 3 > 0), tags=[f"t{n}"], emotion=n / 10
        )
        for n in range(6)
    ]
    for a, b, kind, weight in edges:
        if a != b and opened.stores.synapses.get(synapse_key(ids[a], ids[b], kind)) is None:
            directed = Synapse(ids[a], ids[b], kind, weight, opened.now - DAY, opened.now - DAY)
            opened.stores.synapses.put(
                [directed if kind == "derived" else associate(ids[a], ids[b], kind, weight, opened.now - DAY)]
            )
    for turn, (n, name) in enumerate(edits):
        opened.update(ids[n], **{"tags": {"tags": [f"e{turn}"]}, "metadata": {"metadata": {"turn": turn}},
                                 "content": {"content": f"memory {n} edit {turn}"}}[name])  # fmt: skip
    for n in remarks:
        key = opened.clock.new_id()
        said = Comment(id=key, memory=ids[n], scope=scope, author="Ben", content=f"remark {n}", sensitivity="personal",
                       created_at=opened.now)  # fmt: skip
        opened.stores.records.put({key_of(key): to_payload(said)})
    images, texts, runs = [], everything(opened, ids), []
    for turn, (a, b) in enumerate(merges):
        if a == b or {opened.row(ids[a]).state, opened.row(ids[b]).state} != {"live"}:
            continue
        images.append(image(opened))
        runs.append(f"{scope}-{turn}")
        merged(opened, ids[a], ids[b], run=runs[-1])
        assert everything(opened, ids) >= texts
        around = [edge for _, edge in opened.stores.synapses.every()]
        assert all(edge.a != edge.b and edge.weight <= 10.0 for edge in around)
        assert list(opened.stores.synapses.of(ids[b])) == []

    for run, before in zip(reversed(runs), reversed(images), strict=True):
        assert undo(opened, run, by=f"{run}-undo") == []
        assert image(opened) == before
    opened.stores.changer.erase(ids)


def everything(opened: Opened, ids: Sequence[str]) -> Counter[str]:
    """What all texts say: of memories in any state, of former versions, of comments."""
    said = Counter(memory.content for memory in opened.stores.memories.read(ids).values())
    for batch in opened.engine.scroll(RECORDS):
        said.update(record.payload["content"] for record in batch if record.payload.get("owner") in ids)
    return said
