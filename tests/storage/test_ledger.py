"""The ledger: what outlives the memories, whole or not at all."""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from daemon.presence import HEARTBEAT, OWED_SINCE
from jobs.unfinished import PENDING
from storage.canaries import Canary
from storage.engine import Sparse
from storage.errors import Corrupt, Unavailable
from storage.ledger import SLICE, Ledger, Run
from storage.model import point_id
from storage.proposals import Proposal
from storage.schema import STEPS, VERSION

NOW = 1_767_225_600.0


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def ledger(path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def run(name: str, job: str = "decay", at: float = NOW, **fields: object) -> Run:
    told = {
        "id": name, "job": job, "parent": None, "trigger": "manual", "dry_run": False, "started_at": at, "ended_at": None,
        "seed": 7, "late_by": None, "outcome": None, "reason": None, "counts": {}, "examples": [], "cost_micro_usd": 0,
        "undo_of": None, "undone_by": None, "canary": None,
    }  # fmt: skip
    return Run(**told | fields)


def end(ledger: Ledger, name: str, outcome: str = "changed") -> None:
    ledger.end_run(name, NOW + 5, outcome, reason="why", counts={"decayed": 2}, examples=[{"id": "日本"}])


@pytest.mark.parametrize("value", [0, 1.5, "text", [1, "a"], {"a": None}, False])
def test_a_fact_comes_back_as_it_was_also_after_a_restart(ledger, path, value) -> None:
    ledger.set_fact("key", "former")
    ledger.set_fact("key", value)
    other = Ledger(path)

    assert ledger.fact("key") == value
    assert other.fact("key") == value
    other.set_fact("key", None)
    assert ledger.fact("key") is None
    other.close()


def test_a_run_is_told_as_it_was_started_and_ended(ledger) -> None:
    ledger.start_run(run("r", dry_run=True, late_by=3.5))
    assert ledger.run("r") == run("r", dry_run=True, late_by=3.5)

    end(ledger, "r")

    told = ledger.run("r")
    assert (told.ended_at, told.outcome, told.reason) == (NOW + 5, "changed", "why")
    assert (told.counts, told.examples) == ({"decayed": 2}, [{"id": "日本"}])
    assert ledger.run("other") is None


def test_the_latest_runs_come_first_of_one_job_or_of_all(ledger) -> None:
    for n, job in enumerate(["decay", "dream", "decay"]):
        ledger.start_run(run(f"r{n}", job, NOW + n))

    assert [one.id for one in ledger.runs()] == ["r2", "r1", "r0"]
    assert [one.id for one in ledger.runs(job="decay", limit=1)] == ["r2"]


def test_the_last_run_passes_over_dry_ones_and_other_outcomes(ledger) -> None:
    for n, (outcome, dry) in enumerate([("changed", False), ("failed", False), ("changed", True)]):
        ledger.start_run(run(f"r{n}", at=NOW + n, dry_run=dry))
        end(ledger, f"r{n}", outcome)

    assert ledger.last_run("decay").id == "r1"
    assert ledger.last_run("decay", outcomes=("changed", "unchanged")).id == "r0"
    assert ledger.last_run("dream") is None
    assert [one.id for one in ledger.last_runs("decay", 5)] == ["r1", "r0"]
    assert [one.id for one in ledger.last_runs("decay", 1)] == ["r1"]


def test_the_last_run_can_be_asked_for_up_to_an_instant(ledger) -> None:
    """A clock that was set back leaves runs that seem to be yet to come."""
    for n in range(3):
        ledger.start_run(run(f"r{n}", at=NOW + 10 * n))

    assert ledger.last_run("decay", until=NOW + 10).id == "r1"
    assert [one.id for one in ledger.last_runs("decay", 5, until=NOW + 19)] == ["r1", "r0"]
    assert ledger.last_run("decay", until=NOW - 1) is None


def test_a7_what_ran_last_is_the_latest_also_where_the_clock_was_ahead_before(ledger) -> None:
    """Two nights that seem to lie in the future, and one after the clock was right again."""
    for name, at in (("a", NOW), ("c", NOW + 9000), ("b", NOW + 9001), ("z", NOW + 10), ("d", NOW + 11)):
        ledger.start_run(run(name, "night", at, canary=None if name == "d" else {"overlap": 1.0}))

    assert [one.id for one in ledger.runs()] == ["d", "z", "b", "c", "a"]
    assert [one.id for one in ledger.runs(job="night", limit=2)] == ["d", "z"]
    assert [one.id for one in ledger.last_runs("night", 3)] == ["d", "z", "b"]
    assert [one.id for one in ledger.last_runs("night", 3, until=NOW + 20)] == ["d", "z", "a"]
    assert (ledger.last_run("night").id, ledger.last_measured().id) == ("d", "z")


def test_a_night_tells_its_steps_in_order(ledger) -> None:
    ledger.start_run(run("night", "night"))
    ledger.start_run(run("b", "dream", NOW + 1, parent="night"))
    ledger.start_run(run("other", "prune", NOW + 1))
    ledger.start_run(run("a", "prune", NOW + 1, parent="night"))

    assert [step.id for step in ledger.steps_of("night")] == ["b", "a"]


def test_a_run_comes_after_those_that_are_left_once_others_were_let_go(ledger) -> None:
    for n, at in enumerate((NOW + 9, NOW + 9, NOW)):
        ledger.start_run(run(f"r{n}", at=at))
    ledger.trim(images_before=0, runs_before=NOW + 5, requests_before=0)
    ledger.start_run(run("a", at=NOW + 6))

    assert [one.id for one in ledger.runs()] == ["a", "r1", "r0"]


def test_runs_that_a_crash_left_open_are_closed_as_cut_off(ledger) -> None:
    ledger.start_run(run("open"))
    ledger.start_run(run("done"))
    end(ledger, "done")

    assert ledger.cut_off_runs(NOW + 9) == ["open"]
    told = ledger.run("open")
    assert (told.outcome, told.reason, told.ended_at) == ("cancelled", "cut_off", NOW + 9)
    assert ledger.run("done").outcome == "changed"
    assert ledger.cut_off_runs(NOW + 10) == []


def test_a_run_knows_what_undid_it(ledger) -> None:
    ledger.start_run(run("r"))
    assert ledger.run("r").undone_by is None
    ledger.mark_undone("r", "u")
    assert ledger.run("r").undone_by == "u"


def test_the_journal_tells_a_runs_changes_newest_first(ledger) -> None:
    ledger.write_journal(
        "r", NOW, [("patch", "m1", "a", {"heat": "warm"}, {"heat": "cold"}), ("erase", "m2", "a", None, None)]
    )
    ledger.write_journal("r", NOW + 1, [("edge", "e", "a", None, ["a", "b", "hebbian", 0.1 + 0.2, NOW, NOW, "ü"])])
    ledger.write_journal("other", NOW, [("patch", "m1", "a", {}, {})])

    entries = ledger.journal_of("r")

    assert [entry.key for entry in entries] == ["e", "m2", "m1"]
    assert entries[0].after == ["a", "b", "hebbian", 0.1 + 0.2, NOW, NOW, "ü"]
    assert (entries[2].before, entries[2].after, entries[2].undone) == ({"heat": "warm"}, {"heat": "cold"}, False)


def test_the_journal_tells_a_part_of_a_run_from_one_entry_on(ledger) -> None:
    assert ledger.last_entry() == 0
    ledger.write_journal("r", NOW, [("patch", "m1", "a", {}, {})])
    ledger.write_journal("other", NOW, [("patch", "m2", "a", {}, {})])
    since = ledger.last_entry() + 1
    ledger.write_journal("r", NOW, [("patch", "m3", "a", {}, {}), ("patch", "m4", "a", {}, {})])

    assert [entry.key for entry in ledger.journal_of("r", since=since)] == ["m4", "m3"]
    assert [entry.key for entry in ledger.journal_of("r")] == ["m4", "m3", "m1"]


def test_what_a_run_took_back_itself_is_no_change_that_it_made(ledger) -> None:
    for name in ("merge", "undone", "half"):
        ledger.start_run(run(name))
        ledger.write_journal(name, NOW, [("supersede", f"of {name}", "a", {}, {}), ("patch", "m", "a", {}, {})])
    ledger.mark_undone("undone", "by")
    for name in ("undone", "half"):
        ledger.mark_entries([entry.number for entry in ledger.journal_of(name)], undone=True)

    assert ledger.keys_of("supersede") == {"of merge", "of undone"}


def test_what_waits_for_the_erased_goes_with_them(ledger) -> None:
    pairs = [Proposal(a, b, "s", 0.9, NOW, "r") for a, b in (("a", "b"), ("c", "d"))]
    ledger.proposals.add(pairs)
    dense = np.array([0.6, 0.8], np.float32)
    ledger.canaries.add(
        [Canary(NOW + n, "s", "secret", dense, Sparse((n,), (1.0,)), (one,)) for n, one in enumerate("ac")]
    )
    ledger.let_go(["a"])

    assert ledger.proposals.waiting() == [pairs[1]]
    assert [one.ids for one in ledger.canaries.every()] == [("c",)]


def test_the_journal_tells_what_all_runs_changed_of_one_thing_newest_first(ledger) -> None:
    for n, run in enumerate(("r", "other", "r")):
        ledger.write_journal(run, NOW + n, [("patch", key, "a", {"n": n}, {"n": n + 1}) for key in ("m1", "m2")])

    assert [(entry.run, entry.key, entry.before) for entry in ledger.journal_at("m1")] == [
        ("r", "m1", {"n": 2}), ("other", "m1", {"n": 1}), ("r", "m1", {"n": 0})
    ]  # fmt: skip
    assert ledger.journal_at("nothing") == []


def test_changes_by_which_a_run_takes_back_its_own_are_told_as_undone(ledger) -> None:
    ledger.write_journal("r", NOW, [("forget", "m1", "a", {}, {})])
    ledger.write_journal("r", NOW, [("restore", "m1", "a", {}, {}), ("forget", "m2", "a", {}, {})], undone=True)

    assert [entry.undone for entry in ledger.journal_of("r")] == [True, True, False]
    assert ledger.moved_since(NOW - 1, "forget") == {"a": 1}


def test_moves_are_counted_by_scope_until_they_are_taken_back(ledger) -> None:
    ledger.write_journal("r", NOW, [("forget", f"m{n}", scope, {}, {}) for n, scope in enumerate("aab")])
    ledger.write_journal("r", NOW, [("expire", "m9", "a", {}, {})])
    ledger.write_journal("r", NOW - 100, [("forget", "old", "a", {}, {})])

    assert ledger.moved_since(NOW - 100, "forget") == {"a": 2, "b": 1}
    assert ledger.moved_since(NOW - 101, "forget", until=NOW - 100) == {"a": 1}
    first = next(entry for entry in ledger.journal_of("r") if entry.key == "m0")
    ledger.mark_entries([first.number], undone=True)
    assert ledger.moved_since(NOW - 100, "forget") == {"a": 1, "b": 1}
    ledger.mark_entries([first.number], undone=False)
    assert ledger.moved_since(NOW - 100, "forget") == {"a": 2, "b": 1}


def test_an_erased_image_leaves_no_bytes_in_the_file_or_its_log_and_its_entry_stays(ledger, path) -> None:
    fields = {"metadata": {"city": "Ouagadougou"}}
    edge = ["gone", "other", "manual", 2.0, NOW, NOW, "they met in Ouagadougou"]
    handed = {"kind": "comment", "owner": "other", "origins": ["first", "gone"], "content": "it rains in Ouagadougou"}
    pairs = ([fields, fields], [None, edge], [handed, None])
    images = [zlib.compress(json.dumps(pair, ensure_ascii=False).encode()) for pair in pairs]
    ledger.write_journal("r", NOW, [("patch", "gone", "a", fields, fields), ("patch", "kept", "a", {"n": 1}, {"n": 2})])
    ledger.write_journal("r", NOW, [("edge", "e1", "a", None, edge), ("edge", "e2", "a", ["x", "y"], None)])
    own = handed | {"origins": ["first"]}
    ledger.write_journal("r", NOW, [("record", "r1", "a", handed, None), ("record", "r2", "a", None, own)])
    files = [path, path.with_name("state.db-wal")]
    assert all(any(image in file.read_bytes() for file in files) for image in images)

    ledger.erase_images({"gone"})
    ledger.empty_log()

    assert not any(image in file.read_bytes() for file in files for image in images)
    told = {entry.key: (entry.before, entry.after) for entry in ledger.journal_of("r")}
    assert told == {
        "gone": (None, None), "e1": (None, None), "r1": (None, None), "kept": ({"n": 1}, {"n": 2}),
        "e2": (["x", "y"], None), "r2": (None, own),
    }  # fmt: skip


def test_a_ledger_names_nobody_that_was_erased_and_keeps_its_counts_and_entries(ledger, path) -> None:
    """Whatever the example calls it, and whatever is beside it; an id that contains another is another."""
    gone, kept = "an-affair-with-\u00e9\u732b", "an-affair-with"
    naming = [
        {"id": gone, "reason": "faded"}, {"survivor": kept, "duplicate": gone}, {"survivor": gone, "duplicate": kept},
        {"pair": [kept, gone], "cosine": 0.9}, {"edge": [gone, "x"], "weight": 1.0},
    ]  # fmt: skip
    others = [{"id": kept, "reason": "faded"}, {"edge": ["x", "y"]}, {"snapshot": "s"}]
    ledger.start_run(run("r", counts={"decayed": 8}, examples=[*naming, *others]))
    ledger.start_run(run("s", examples=others))
    ledger.write_journal("r", NOW, [("forget", gone, "a", {}, {}), ("forget", kept, "a", {}, {})])

    ledger.erase_names([gone])
    ledger.empty_log()

    assert [(ledger.run(one).examples, ledger.run(one).counts) for one in "rs"] == [
        (others, {"decayed": 8}),
        (others, {}),
    ]
    assert [entry.key for entry in ledger.journal_of("r")] == [kept, point_id(gone)]
    assert ledger.moved_since(0, "forget") == {"a": 2}
    written = b"".join(file.read_bytes() for file in path.parent.glob("state.db*"))
    assert not any(name in written for name in (gone.encode(), json.dumps(gone)[1:-1].encode()))


def test_the_images_of_a_scope_and_what_lies_below_it_go_but_for_what_is_spared(ledger) -> None:
    note = {"kind": "note", "owner": "spared", "text": "x"}
    of_scope = {**note, "owner": "\0fact\0a/b"}
    edges = {"e1": ["one", "other", "manual"], "e2": ["one", "spared", "manual"]}
    entries = [
        *(("patch", scope, scope, {"n": 1}, {"n": 2}) for scope in ("a", "a/b", "a/b/c", "a/bc", "ab", "A/B")),
        ("forget", "spared", "a/b", {"n": 1}, {"n": 2}), ("erase", "purged", "a/b", None, None),
        *(("edge", key, "a/b", None, edge) for key, edge in edges.items()),
        ("record", "r1", "a/b", note, None), ("record", "r2", "a/b", of_scope, None), ("record", "r3", "a/b", of_scope, None),
    ]  # fmt: skip
    ledger.write_journal("r", NOW, entries)

    ledger.erase_images_within("a/b", {"spared", "r3"})

    left = {entry.key for entry in ledger.journal_of("r") if (entry.before, entry.after) != (None, None)}
    assert left == {"a", "a/bc", "ab", "A/B", "spared", "e2", "r1", "r3"}
    assert len(ledger.journal_of("r")) == len(entries)
    ledger.erase_images_within("a/b")
    left = {entry.key for entry in ledger.journal_of("r") if (entry.before, entry.after) != (None, None)}
    assert left == {"a", "a/bc", "ab", "A/B"}


def test_what_is_past_its_time_is_let_go(ledger) -> None:
    for at in (NOW, NOW + 10):
        ledger.write_journal("r", at, [("patch", f"m{at}", "a", {}, {})])
        ledger.start_run(run(f"r{at}", at=at))
        ledger.keep_answer(f"q{at}", "remember", "digest", {}, at)

    assert not ledger.trim(images_before=NOW + 5, runs_before=NOW + 5, requests_before=NOW + 5)

    assert len(ledger.journal_of("r")) == len(ledger.runs()) == 1
    assert ledger.answer(f"q{NOW}", since=0) is None
    assert ledger.answer(f"q{NOW + 10}", since=0) is not None


def test_what_is_past_its_time_goes_in_slices_and_the_next_one_goes_on(ledger) -> None:
    ledger.write_journal("r", NOW, [("patch", f"m{n}", "a", {}, {}) for n in range(SLICE + 1)])
    ledger.write_journal("r", NOW + 9, [("patch", "later", "a", {}, {})])
    with ledger.transaction():
        for n in range(SLICE):
            ledger.start_run(run(f"r{n}"))

    def left() -> tuple[int, int]:
        return len(ledger.journal_of("r")), len(ledger.runs(limit=2 * SLICE))

    seen = []
    while ledger.trim(images_before=NOW + 5, runs_before=NOW + 5, requests_before=NOW + 5):
        seen.append(left())

    assert seen == [(2, SLICE), (1, 0)]
    assert left() == (1, 0)
    assert [entry.key for entry in ledger.journal_of("r")] == ["later"]


def test_the_journal_is_trimmed_by_an_index(ledger) -> None:
    seen: list[str] = []
    ledger._db._db.set_trace_callback(seen.append)
    ledger.trim(images_before=NOW, runs_before=NOW, requests_before=NOW)
    ledger._db._db.set_trace_callback(None)
    (deleting,) = [one for one in seen if "journal" in one]
    steps = " / ".join(row[3] for row in ledger._db.all(f"EXPLAIN QUERY PLAN {deleting}"))

    assert "journal_by_time" in steps
    assert "SCAN" not in steps


def test_absences_come_oldest_first(ledger) -> None:
    ledger.add_absence(NOW + 10, NOW + 20)
    ledger.add_absence(NOW, NOW + 5)

    assert ledger.absences() == [(NOW, NOW + 5), (NOW + 10, NOW + 20)]


def test_absences_are_cut_where_the_clock_was_set_back_to(ledger) -> None:
    for span in ((10, 20), (30, 40), (40, 50), (60, 70)):
        ledger.add_absence(*(NOW + end for end in span))
    ledger.cut_absences(NOW + 40)
    assert ledger.absences() == [(NOW + 10, NOW + 20), (NOW + 30, NOW + 40)]
    ledger.cut_absences(NOW + 15)
    assert ledger.absences() == [(NOW + 10, NOW + 15)]


def test_an_answer_is_known_by_its_request_for_a_while(ledger) -> None:
    ledger.keep_answer("q", "remember", "digest", {"id": "m", "created": True}, NOW)

    kept = ledger.answer("q", since=NOW)
    assert (kept.method, kept.params, kept.answer) == ("remember", "digest", {"id": "m", "created": True})
    assert ledger.answer("q", since=NOW + 1) is None
    assert ledger.answer("other", since=0) is None


def test_a_transaction_is_whole_or_not_at_all_and_nests(ledger) -> None:
    def fail_in_the_middle() -> None:
        with ledger.transaction():
            ledger.set_fact("a", 1)
            with ledger.transaction():
                ledger.write_journal("r", NOW, [("patch", "m", "a", {}, {})])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()

    assert ledger.fact("a") is None
    assert ledger.journal_of("r") == []


def test_a_commit_that_fails_leaves_no_transaction_that_swallows_what_follows(ledger, path) -> None:
    ledger._db._db.executescript(
        "PRAGMA foreign_keys = ON; CREATE TABLE parent (id INTEGER PRIMARY KEY);"
        "CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);"
    )

    with pytest.raises(Corrupt), ledger.transaction():
        ledger._db.execute("INSERT INTO child VALUES (1)")
    ledger.set_fact("later", True)
    with ledger.transaction():
        ledger.set_fact("latest", True)

    reader = Ledger(path)
    assert (reader.fact("later"), reader.fact("latest")) == (True, True)
    reader.close()


def test_threads_share_the_one_connection(ledger) -> None:
    def count(name: str) -> None:
        for n in range(50):
            with ledger.transaction():
                ledger.set_fact(name, (ledger.fact(name) or 0) + 1)
                ledger.write_journal(name, NOW, [("patch", str(n), "a", {}, {})])

    threads = [threading.Thread(target=count, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [(ledger.fact(name), len(ledger.journal_of(name))) for name in "abcd"] == [(50, 50)] * 4


def test_an_empty_file_is_a_new_ledger(path) -> None:
    path.touch()
    ledger = Ledger(path, power_safe=True)

    assert ledger.runs() == []
    ledger.close()


@pytest.mark.parametrize("content", [b"{}" * 600, b"SQLite format 3\0" + b"\xff" * 5000, b"NaN" * 400])
def test_a_damaged_file_is_refused_with_the_way_out_and_left_as_it_is(path, content) -> None:
    path.write_bytes(content)

    with pytest.raises(Corrupt) as refused:
        Ledger(path)

    assert f"mv {path} " in refused.value.hint
    assert str(path) in refused.value.detail
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_opened_is_unavailable_and_not_called_damaged(path) -> None:
    path.mkdir()

    with pytest.raises(Unavailable) as refused:
        Ledger(path)

    assert refused.value.hint


def test_a_ledger_of_a_newer_version_is_refused_and_left_as_it_is(path) -> None:
    Ledger(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()

    with pytest.raises(Corrupt, match="newer"):
        Ledger(path)


def test_a_full_disk_makes_writes_unavailable_and_reads_go_on(ledger) -> None:
    ledger.set_fact("key", "value")
    ledger._db.execute(f"PRAGMA max_page_count = {ledger._db.one('PRAGMA page_count')[0]}")

    with pytest.raises(Unavailable), ledger.transaction():
        ledger.set_fact("big", "x" * 1_000_000)

    assert ledger.fact("key") == "value"
    assert ledger.fact("big") is None
    assert not ledger._db._db.in_transaction


def test_a_ledger_of_the_first_version_is_brought_up_to_date_and_keeps_what_it_had(path) -> None:
    old = sqlite3.connect(path)
    old.executescript(STEPS[0])
    old.execute("PRAGMA user_version = 1")
    old.execute("INSERT INTO meta VALUES ('key', '7')")
    old.commit()
    old.close()

    ledger = Ledger(path)

    assert ledger.fact("key") == 7
    ledger.note_erased(["p"], NOW)
    assert ledger.erased_since(NOW, 1) == ["p"]
    ledger.close()
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_ledger_of_the_release_before_nights_is_brought_up_to_date_with_all_that_was_in_it(path) -> None:
    """Its runs, its journal, its runs that were not through, and since when runs are owed, under the name it has now."""
    old = sqlite3.connect(path)
    old.executescript("".join(f"{step};" for step in STEPS[:2]))
    old.execute("PRAGMA user_version = 2")
    facts = {"born_at": NOW - 9, "unfinished_runs": ["r"], "heartbeat": NOW}
    old.executemany("INSERT INTO meta VALUES (?, ?)", [(key, json.dumps(value)) for key, value in facts.items()])
    old.execute(
        "INSERT INTO runs (id, job, trigger, dry_run, started_at, seed, outcome, counts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ("r", "import", "manual", 0, NOW, 7, "failed", '{"memories": 2}'),
    )  # fmt: skip
    image = zlib.compress(b'[{"heat": "warm"}, {"heat": "cold"}]')
    old.execute(
        "INSERT INTO journal (run, at, op, key, scope, image) VALUES ('r', ?, 'patch', 'm', 'a', ?)", (NOW, image)
    )
    old.execute("INSERT INTO erased (point, at) VALUES ('p', ?)", (NOW,))
    old.commit()
    old.close()

    ledger = Ledger(path)

    expected = run("r", "import", outcome="failed", counts={"memories": 2})
    assert (ledger.run("r"), ledger.last_measured()) == (expected, None)
    (entry,) = ledger.journal_of("r")
    assert (entry.key, entry.before, entry.after, entry.undone) == ("m", {"heat": "warm"}, {"heat": "cold"}, False)
    assert ledger.fact(OWED_SINCE) == NOW - 9
    assert ledger.fact("born_at") is None
    assert (ledger.fact(PENDING), ledger.fact(HEARTBEAT)) == (["r"], NOW)
    assert ledger.erased_since(NOW, 9) == ["p"]
    assert (ledger.examined.of("dedup"), ledger.proposals.count(), ledger.canaries.every()) == (set(), 0, [])
    ledger.close()


def test_runs_of_the_release_before_are_in_the_order_in_which_they_began(path) -> None:
    old = sqlite3.connect(path)
    old.executescript("".join(f"{step};" for step in STEPS[:2]))
    old.execute("PRAGMA user_version = 2")
    old.executemany(
        "INSERT INTO runs (id, job, trigger, dry_run, started_at, seed) VALUES (?, 'decay', 'manual', 0, ?, 7)",
        [("b", NOW + 2), ("z", NOW + 3), ("d", NOW), ("a", NOW + 2)],
    )
    old.commit()
    old.close()

    ledger = Ledger(path)
    ledger.start_run(run("new", at=NOW + 1))

    assert [one.id for one in ledger.runs()] == ["new", "z", "b", "a", "d"]
    ledger.close()


def test_answers_given_since_an_instant_are_let_go(ledger) -> None:
    for n in range(3):
        ledger.keep_answer(f"r{n}", "remember", "-", {}, NOW + n)

    ledger.drop_answers(NOW + 1)

    assert [ledger.answer(f"r{n}", since=0.0) is not None for n in range(3)] == [True, False, False]


def test_what_was_erased_is_told_by_its_time_or_by_its_number(ledger) -> None:
    assert ledger.last_erasure() == 0
    ledger.note_erased(["a", "b"], NOW)
    before = ledger.last_erasure()
    ledger.note_erased(["c", "a"], NOW - 100)  # by a clock that was set back

    assert sorted(ledger.erased_since(NOW, before)) == ["a", "b", "c"]
    assert sorted(ledger.erased_since(NOW + 1, before)) == ["a", "c"]
    assert ledger.erased_since(NOW + 1, ledger.last_erasure()) == []


def test_an_undo_that_did_not_happen_to_the_memories_can_be_made_again(ledger) -> None:
    for name, job, at in (("early", "decay", 0), ("kept", "undo", 1), ("other", "decay", 2), ("void", "undo", 10)):
        ledger.start_run(run(name, job, NOW + at))
        end(ledger, name)
    for target, by in (("early", "kept"), ("other", "void")):
        ledger.write_journal(target, NOW, [("patch", target, "a", {"n": 1}, {"n": 2})])
        ledger.mark_entries([entry.number for entry in ledger.journal_of(target)], undone=True)
        ledger.mark_undone(target, by)

    ledger.forget_undos(NOW + 5)

    assert [ledger.run(name).undone_by for name in ("early", "other")] == ["kept", None]
    assert [ledger.journal_of(name)[0].undone for name in ("early", "other")] == [True, False]


def test_a_copy_is_a_ledger_as_it_was_at_that_moment(ledger, path) -> None:
    ledger.set_fact("key", "then")
    ledger.copy_to(path.with_name("copy.db"))
    ledger.set_fact("key", "later")

    copy = Ledger(path.with_name("copy.db"))

    assert copy.fact("key") == "then"
    copy.close()
