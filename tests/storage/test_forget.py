"""Forgetting on request: into the bin and out of it, or gone everywhere at once."""

from __future__ import annotations

import pytest

from storage.canaries import Canary
from storage.changes import Edge, Patch
from storage.errors import Conflict, Invalid, NotFound, Refused
from storage.fading import Retention
from storage.forget import SCRUB_DUE, forget, restore
from storage.graph import connect
from storage.inverse import inverse
from storage.memories import BIN, LIVE
from storage.model import DAY, Memory, point_id
from storage.proposals import Proposal
from storage.records import RECORDS
from tests.disk import asked
from tests.storage.merging import merged, undo
from tests.storage.opened import Opened


def back(opened: Opened, memory: str, clearance: str = "secret") -> Memory:
    return restore(opened.stores, memory, clearance, opened.now)


def test_what_is_forgotten_is_out_of_every_read_and_lies_in_the_bin(opened) -> None:
    memory, other = opened.add("the cat chased the mouse"), opened.add("a dog slept")

    assert opened.forget(memory) == [memory]

    row = opened.read(memory)
    assert (row.state, row.forgotten_at, row.forgotten_reason) == ("forgotten", opened.now, "request")
    assert opened.found("cat") == [other]
    assert [one.id for one in opened.stores.catalogue.rows()] == [other]


def test_a15_one_missing_id_is_not_found_and_several_are_listed(opened) -> None:
    memory = opened.add("one")

    for ids in (["nope"], ["nope", "nope"]):
        with pytest.raises(NotFound):
            forget(opened.stores, ids, opened.now, "secret")
    done = forget(opened.stores, ["nope", memory, memory, "neither"], opened.now, "secret")

    assert (done.forgotten, done.missing) == ([memory], ["nope", "neither"])
    assert forget(opened.stores, [], opened.now, "secret") == ([], [], (), ())


def test_what_is_hidden_is_missing_like_any_other(opened) -> None:
    hidden = opened.add("the code is blue", sensitivity="secret")

    for hard in (False, True):
        with pytest.raises(NotFound):
            opened.forget(hidden, clearance="personal", hard=hard)
    assert opened.row(hidden).state == "live"


def test_forgetting_again_changes_nothing(opened) -> None:
    memory = opened.add("one")
    opened.forget(memory)
    before = opened.read(memory)
    opened.clock.advance(DAY)

    assert opened.forget(memory) == [memory]
    assert opened.read(memory) == before


def test_a12_nothing_that_hangs_on_a_memory_blocks_its_deletion(opened) -> None:
    a = opened.add("one", session="s")
    b = opened.add("two", session="s", connect_to=[a])
    opened.update(a, content="one anew")
    opened.ledger.write_journal("r", opened.now, [("patch", a, "default", {"heat": "warm"}, {"heat": "cold"})])

    opened.forget(a)
    assert opened.forget(a, hard=True) == [a]

    assert [row.id for row in opened.stores.catalogue.every()] == [b]
    assert (len(opened.stores.synapses), opened.engine.count(RECORDS)) == (0, 0)
    opened.reopen()
    assert opened.found("one") == [b]


def test_superseded_memories_keep_their_history_and_name_their_successor(opened) -> None:
    old, new = opened.add("Ann lives in Rome"), opened.add("Ann lives in Rio")

    opened.forget(old, superseded_by=new)

    row = opened.read(old)
    assert (row.state, row.invalid_at, row.superseded_by, row.forgotten_at) == ("superseded", opened.now, new, None)
    assert opened.found("Ann lives in Rome") == [new]


def test_e2_only_a_live_memory_of_the_scope_can_take_anothers_place(opened) -> None:
    old, gone = opened.add("one"), opened.add("two")
    other, hidden = opened.add("three", scope="other"), opened.add("four", sensitivity="secret")
    opened.forget(gone)

    for successor, error in (
        (gone, Conflict),
        (old, Conflict),
        (other, Refused),
        (hidden, NotFound),
        ("nobody", NotFound),
    ):
        with pytest.raises(error):
            opened.forget(old, superseded_by=successor, clearance="personal")
    with pytest.raises(Invalid):
        opened.forget(old, superseded_by=other, hard=True)
    assert opened.row(old).state == "live"


def test_a_hard_forget_leaves_no_copy_in_any_collection_or_in_the_journal(opened) -> None:
    memory, other = opened.add("one", metadata={"k": "v"}), opened.add("two")
    edge = connect(opened.stores, memory, other, 2.0, "they met", opened.now, "secret")
    opened.update(memory, content="one anew")
    opened.stores.changer.apply(
        "r", [Patch(memory, 2, {"metadata": {}}), Edge(edge.key, edge, None, "default")], opened.now
    )
    opened.stores.changer.apply("r", [Patch(other, 1, {"heat": "hot"})], opened.now)

    assert opened.forget(memory, hard=True) == [memory]

    assert memory not in opened.stores.catalogue
    assert (opened.engine.count(LIVE), opened.engine.count(BIN), opened.engine.count(RECORDS)) == (1, 0, 0)
    entries = {entry.key: entry for entry in opened.ledger.journal_of("r")}
    erased = (point_id(memory), edge.key)
    assert [(entries[key].before, entries[key].after) for key in erased] == [(None, None)] * 2
    assert entries[other].before == {"heat": "warm"}
    for key in erased:
        assert inverse(opened.stores, entries[key], opened.now) == (None, True)
    assert opened.ledger.fact(SCRUB_DUE) == opened.now


def test_a_hard_forget_leaves_no_pair_that_waits_and_no_question_that_found_it(opened) -> None:
    """The vector of a question tells what it was about."""
    a, b, c = (opened.add(text) for text in ("one", "two", "three"))
    opened.ledger.proposals.add([Proposal(*sorted(pair), "default", 0.9, opened.now, "r") for pair in ((a, b), (b, c))])
    dense, terms = opened.gate.question("one")
    for number, found in enumerate(((a, b), (c,))):
        opened.ledger.canaries.add([Canary(opened.now + number, f"s{number}", "secret", dense, terms, found)])
    opened.forget(c)
    assert len(opened.ledger.proposals.waiting()) == 2
    opened.forget(a, hard=True)

    assert [{one.a, one.b} for one in opened.ledger.proposals.waiting()] == [{b, c}]
    assert [one.ids for one in opened.ledger.canaries.every()] == [(c,)]


def test_after_a_hard_forget_no_file_holds_a_byte_of_a_question_that_found_it(opened) -> None:
    """Neither the ledger nor its log, without any scrub."""
    memory = opened.add("one")
    dense, terms = opened.gate.question("where did the secret ship sail")
    opened.ledger.canaries.add([Canary(opened.now, "s", "secret", dense, terms, (memory,))])
    assert asked(opened.folder, dense) != []

    opened.forget(memory, hard=True)

    assert asked(opened.folder, dense) == []


def test_a_hard_forget_takes_along_whatever_was_merged_into_it_over_a_chain(opened) -> None:
    """With all that hangs on those, whoever merged them, a year later as well, when the journal tells of no merge."""
    for name in ("ash", "birch", "cedar", "oak"):
        opened.add(f"a tree of kind {name[0]}", id=name)
    merged(opened, "birch", "ash", run="one")
    merged(opened, "cedar", "birch", run="two")
    opened.ledger.proposals.add([Proposal("ash", "oak", "default", 0.9, opened.now, "r")])
    for run, image in (("two", "invalid_at"), ("one", "invalid_at")):
        assert any(image in (entry.after or ()) for entry in opened.ledger.journal_of(run))
    opened.reopen()

    assert opened.forget("cedar", hard=True) == ["cedar", "birch", "ash"]

    assert [row.id for row in opened.stores.catalogue.every()] == ["oak"]
    assert (opened.engine.count(LIVE), opened.engine.count(BIN), opened.engine.count(RECORDS)) == (1, 0, 0)
    assert opened.ledger.proposals.waiting() == []
    assert {(one.before, one.after) for run in ("one", "two") for one in opened.ledger.journal_of(run)} == {
        (None, None)
    }
    assert set(opened.ledger.erased_since(opened.now, 0)) == {point_id(name) for name in ("ash", "birch", "cedar")}


def test_a_hard_forget_does_not_take_along_what_was_superseded_otherwise_or_parted_since(opened) -> None:
    """A newer text over an older one; what was merged and restored, or forgotten by itself since; what is hidden."""
    for name in ("home", "older", "back", "undone", "apart", "hidden"):
        opened.add(f"the note {name}", id=name, sensitivity="secret" if name == "hidden" else "personal")
    opened.forget("older", superseded_by="home")
    for name in ("back", "apart", "undone", "hidden"):
        merged(opened, "home", name, run=name)
    assert undo(opened, "hidden") == undo(opened, "undone", by="undo-2") == []
    back(opened, "back")
    opened.forget("apart")
    merged(opened, "home", "hidden", run="again")
    opened.update("home", sensitivity="personal")

    done = forget(opened.stores, ["home"], opened.now, "personal", hard=True)

    assert ([row.id for row in done.rows], done.superseded, done.merged_into) == (["home"], ["older"], [])
    assert {row.id for row in opened.stores.catalogue.every()} == {"older", "back", "undone", "apart", "hidden"}


def test_what_a_hard_forget_leaves_of_the_same_is_named_where_the_clearance_covers_it(opened) -> None:
    """Those whose place was taken, each once and none that goes itself, and the survivor of a twin that goes."""
    for name in ("newest", "newer", "old", "twin", "secret"):
        opened.add(f"the {name} one", id=name, sensitivity="secret" if name == "secret" else "personal")
    merged(opened, "newest", "twin")
    opened.forget("old", superseded_by="newer")
    opened.forget("newer", superseded_by="newest")
    opened.forget("secret", superseded_by="newest")

    def erased(*ids: str, clearance: str = "personal") -> tuple[list[str], list[str], list[str]]:
        done = forget(opened.stores, ids, opened.now, clearance, hard=True)
        return done.forgotten, done.superseded, done.merged_into

    assert erased("twin") == (["twin"], [], ["newest"])
    assert erased("newest", "newer") == (["newest", "newer"], ["old"], [])
    assert erased("old", "secret", clearance="secret") == (["old", "secret"], [], [])


def test_a_hard_forget_of_nothing_makes_no_work(opened) -> None:
    assert forget(opened.stores, ["a", "b"], opened.now, "secret", hard=True) == ([], ["a", "b"], [], [])
    assert opened.ledger.fact(SCRUB_DUE) is None


def test_e10_an_id_that_is_used_again_revives_nothing_of_the_old(opened) -> None:
    opened.add("the cat chased the mouse", id="m", session="s")
    opened.add("two", id="n", session="s")
    opened.update("m", content="the cat chased the mouse again")
    opened.forget("m", hard=True)

    opened.add("a dog slept", id="m")

    assert opened.stores.records.versions("m") == []
    assert list(opened.stores.synapses.of("m")) == []
    assert opened.recall("cat mouse", explain=True, keywords_alone=True) == []


def test_what_is_restored_is_found_again_with_its_edges(opened) -> None:
    a, b = opened.add("alpha"), opened.add("beta")
    edge = connect(opened.stores, a, b, 2.0, "", opened.now, "secret")
    opened.forget(a)

    row = back(opened, a)

    assert (row.state, row.forgotten_at, row.forgotten_reason) == ("live", None, "")
    assert opened.found("alpha")[0] == a
    assert opened.stores.synapses.between(a, b) == edge
    assert back(opened, a) == row


def test_a_superseded_memory_can_be_restored_too(opened) -> None:
    old, new = opened.add("Ann lives in Rome"), opened.add("Ann lives in Rio")
    opened.forget(old, superseded_by=new)

    row = back(opened, old)

    assert (row.state, row.invalid_at, row.superseded_by) == ("live", None, None)


def test_what_is_restored_fades_from_then_on(opened) -> None:
    """Else the next decay would take it again."""
    memory = opened.add("one")
    opened.clock.advance(60 * DAY)
    opened.forget(memory)

    row = back(opened, memory)

    assert (row.used_at, row.access_count) == (opened.now, 0)
    assert Retention().of_rows([row], opened.now, opened.stores.awake)[0] == 1.0


def test_what_is_restored_after_its_end_has_none(opened) -> None:
    memory, later = opened.add("one", expires_at=opened.now + 5), opened.add("two", expires_at=opened.now + 50)
    opened.forget(memory, later)
    opened.clock.advance(10)

    assert back(opened, memory).expires_at is None
    assert back(opened, later).expires_at == opened.now + 40
    assert set(opened.found("one two")) == {memory, later}


def test_what_another_memory_says_by_now_is_not_restored_beside_it(opened) -> None:
    old = opened.add("same words", id="old")
    opened.forget(old)
    opened.add("same words", id="new")

    with pytest.raises(Conflict) as refused:
        back(opened, old)
    assert refused.value.extra["duplicate_of"] == "new"


def test_a_duplicate_above_the_clearance_is_not_told(opened) -> None:
    old = opened.add("same words", id="old")
    opened.forget(old)
    opened.add("same words", id="hidden", sensitivity="secret")

    assert back(opened, old, "personal").state == "live"


def test_what_is_missing_or_hidden_cannot_be_restored(opened) -> None:
    hidden = opened.add("one", sensitivity="secret")
    opened.forget(hidden)

    for memory in (hidden, "nobody"):
        with pytest.raises(NotFound):
            back(opened, memory, "personal")


def test_a_superseded_memory_can_be_forgotten_or_get_another_successor(opened) -> None:
    old, new, newer = (opened.add(text) for text in ("one", "two", "three"))
    opened.forget(old, superseded_by=new)

    assert opened.forget(old, superseded_by=newer) == [old]
    assert (opened.row(old).state, opened.row(old).superseded_by) == ("superseded", newer)

    assert opened.forget(old) == [old]
    assert (opened.row(old).state, opened.row(old).superseded_by) == ("forgotten", None)


def test_a_successor_that_is_erased_is_named_no_more(opened) -> None:
    old, new = opened.add("one"), opened.add("two")
    opened.forget(old, superseded_by=new)
    opened.forget(new, hard=True)

    assert (opened.row(old).state, opened.row(old).superseded_by) == ("superseded", None)


def test_an_expired_twin_bars_neither_a_restore_nor_an_edit(opened) -> None:
    old = opened.add("one")
    opened.forget(old)
    opened.add("one", id="expired", expires_at=opened.now - 1)

    assert restore(opened.stores, old, "secret", opened.now).state == "live"
