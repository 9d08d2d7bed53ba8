"""Results as lines of text, on a screen without a width and without colour, three hours after THEN."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from daemon.output import render
from daemon.terminal import Screen
from jobs.context import EXAMPLES
from tests.daemon.answers import HEALTH, HIT, ID, MEMORY, REMEMBERED, RUN, STEP, THEN

NOON = datetime.fromisoformat(THEN).timestamp() + 3 * 3600
SOON = "2020-01-03T12:00:00Z"


def shown(method: str, result: Mapping[str, Any]) -> list[str]:
    return list(render(method, result, Screen(None, colour=False, now=NOON)))


def test_recall_shows_rank_score_text_id_age_and_tags() -> None:
    other = HIT | {
        "id": "m2",
        "author": "Ada",
        "pinned": True,
        "tier": "long",
        "scope": "a/b",
        "event_at": SOON,
        "score": 12.3,
    }

    assert shown("recall", {"hits": [HIT, other], "took_ms": 1.0}) == [
        " 1   0.83  Ada is allergic to nuts",
        f"           {ID}  3 h ago  #food",
        " 2  12.30  Ada: Ada is allergic to nuts",
        "           m2  in 2 d  pinned  long  a/b  #food",
    ]


def test_explain_adds_the_terms_that_counted_and_the_way() -> None:
    why = {
        "cosine": 0.42,
        "bm25": 1.0,
        "spread": 0.001,
        "heat": -0.03,
        "final": 1.39,
        "path": "association via m7",
        "via": "m7",
    }

    assert shown("recall", {"hits": [HIT | {"why": why}], "took_ms": 1.0, "degraded": "keyword-only"})[2:] == [
        "           cosine 0.42  bm25 1.00  heat -0.03  final 1.39  by association via m7",
        "Degraded: keyword-only. See: dreamctl health",
    ]


def test_every_line_of_a_text_stands_in_its_own_column() -> None:
    lines = shown("recall_multi", {"hits": [HIT | {"content": "one\n2   9.99  two"}], "took_ms": 1.0})

    assert lines[:2] == [" 1   0.83  one", "           2   9.99  two"]


def test_a_list_is_a_table_that_tells_how_to_go_on() -> None:
    memories = [MEMORY, MEMORY | {"id": "m2", "content": "two\nlines", "tier": "core"}]

    assert shown("list", {"memories": memories, "cursor": "next"}) == [
        "ID                                    AGE      TIER   CONTENT",
        f"{ID}  3 h ago  short  Ada is allergic to nuts",
        "m2                                    3 h ago  core   two lines",
        "More: the same with --cursor next",
    ]


def test_one_memory_is_shown_in_full_without_what_is_empty() -> None:
    lines = shown("get", MEMORY | {"context": "He said so.\nTwice.", "retention": 0.81})

    assert lines[:2] == ["Ada is allergic to nuts", ""]
    assert {
        f"id            {ID}",
        "metadata      trip 1",
        "retention     0.81",
        f"created at    3 h ago, {THEN}",
    } <= set(lines)
    assert lines[-4:] == ["", "context", "  He said so.", "  Twice."]
    assert not any(line.startswith(("pinned", "access count", "author", "expires", "subtype")) for line in lines)


def test_a_history_shows_what_each_version_said() -> None:
    version = {"version": 2, "content": "Ada likes nuts", "change_summary": "content", "replaced_at": THEN}

    assert shown("history", {"versions": [version, version | {"version": 1, "change_summary": ""}]}) == [
        "version 2, until 3 h ago: content", "  Ada likes nuts", "version 1, until 3 h ago", "  Ada likes nuts",
    ]  # fmt: skip


def test_what_fades_tells_when_and_what_saves_it() -> None:
    memory = {"id": "m1", "content": "Tea", "retention": 0.124, "forgotten_at": SOON, "saved_by": "a recall of it"}

    assert shown("fading", {"memories": [memory]}) == [
        "  in 2 d  Tea", "          m1  retention 0.12  saved by a recall of it",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({}, [f"Remembered: {ID}  personal"]),
        ({"created": False}, [f"Known already: {ID}  personal"]),
        ({"created": False, "restored": True}, [f"Back from the bin: {ID}  personal"]),
        ({"redactions": {"card": 1, "email": 2}}, [f"Remembered: {ID}  personal", "Redacted: card 1, email 2"]),
    ],
)
def test_a_remembered_text_tells_its_id_and_what_was_masked(change: dict[str, Any], lines: list[str]) -> None:
    assert shown("remember", REMEMBERED | change) == lines


def test_what_was_forgotten_and_what_was_not_there_are_told_apart() -> None:
    assert shown("forget", {"forgotten": ["a"], "missing": ["b"]}) == [
        "Forgotten: a", "Not there: b", "Take it back: dreamctl restore a"
    ]  # fmt: skip
    assert shown("forget", {"forgotten": ["a b", "c"], "missing": []})[2:] == [
        "Take them back one at a time: dreamctl restore 'a b'"
    ]  # fmt: skip
    assert shown("forget", {"forgotten": ["-a"], "missing": []})[1] == "Take it back: dreamctl restore -- -a"
    assert shown("forget", {"forgotten": [], "missing": ["b"]}) == ["Not there: b"]


def test_what_was_erased_is_not_called_forgotten() -> None:
    assert shown("forget", {"forgotten": ["a"], "missing": [], "snapshots": 2}) == [
        "Erased: a", "Snapshots that may still hold it: 2. See: dreamctl snapshots"
    ]  # fmt: skip
    assert shown("forget", {"forgotten": ["a"], "missing": [], "snapshots": 0}) == ["Erased: a"]
    beside = {"superseded": ["b"], "merged_into": ["c"], "snapshots": 0}
    assert shown("forget", {"forgotten": ["a"], "missing": [], **beside}) == [
        "Erased: a", "Still in the bin, with an older text: b", "Still said by: c",
    ]  # fmt: skip


def test_a_run_tells_what_it_did_why_and_how_to_take_it_back() -> None:
    examples = [
        {"id": "m1", "reason": "expired"},
        {"edge": ["m1", "m2"], "reason": "cosine 0.96"},
        {"id": "m3", "heat": "cold"},
    ]

    assert shown("run_job", RUN | {"reason": "3 more wait", "examples": examples}) == [
        "dream: changed in 812 ms", "run     run-1", "reason  3 more wait", "counts  linked 3",
        "  m1  expired", "  m1 - m2  cosine 0.96", "  m3  heat cold", "Take it back: dreamctl undo run-1",
    ]  # fmt: skip
    assert shown("run_job", RUN | {"dry_run": True, "examples": []}) == [
        "dream: changed (dry run) in 812 ms", "run     run-1", "counts  linked 3",
    ]  # fmt: skip


def test_a_night_tells_its_steps() -> None:
    steps = [STEP, STEP | {"job": "decay", "outcome": "unchanged", "took_s": 64.0, "counts": {}}]

    assert shown("run_job", RUN | {"job": "night", "steps": steps, "took_s": 200.0})[2:] == [
        "STEP   OUTCOME      TOOK  COUNTS",
        "dream  changed    812 ms  linked 3",
        "decay  unchanged    64 s",
        "Take it back: dreamctl undo run-1",
    ]


def test_runs_are_a_table() -> None:
    plain = STEP | {"examples": []}
    odd = plain | {"outcome": None, "took_s": None}
    dry = plain | {"dry_run": True, "undone_by": "run-2", "outcome": "failed"}

    assert shown("runs", {"runs": [plain, odd, dry]}) == [
        "RUN    JOB    STARTED    TOOK  OUTCOME                   COUNTS",
        "run-1  dream  3 h ago  812 ms  changed                   linked 3",
        "run-1  dream  3 h ago          under way                 linked 3",
        "run-1  dream  3 h ago  812 ms  failed (dry run, undone)  linked 3",
    ]


def test_runs_tell_why_and_by_example_and_steps_stand_behind_their_night() -> None:
    measured = {"questions": 4, "overlap": 0.9667, "rank": 1.5, "rank_before": 1.25, "alarm": False}
    night = STEP | {"run_id": "n", "job": "night", "counts": {"decay": 3}, "canary": measured}
    late = STEP | {"run_id": "b", "job": "decay", "parent": "n", "started_at": SOON, "counts": {"decayed": 3}}
    late |= {"reason": "7 more wait", "examples": [{"id": f"m{n}", "reason": "retention 0.08"} for n in range(3)]}
    early = STEP | {"run_id": "a", "parent": "n", "counts": {}, "examples": []}

    assert shown("runs", {"runs": [late, early, night]}) == [
        "RUN  JOB      STARTED    TOOK  OUTCOME  COUNTS",
        "n    night    3 h ago  812 ms  changed  decay 3",
        "    4 questions of yours find 96.7% of what they found before the night; mean place 1.50, 1.25 before",
        "a    - dream  3 h ago  812 ms  changed",
        "b    - decay  in 2 d   812 ms  changed  decayed 3",
        "    7 more wait",
        "    m0  retention 0.08",
        "    m1  retention 0.08",
    ]


def test_jobs_tell_when_they_run_and_that_they_are_held_back() -> None:
    job = {
        "name": "night", "about": "all of a night", "schedule": "30 3 * * *", "next_run": SOON, "last_run": THEN,
        "last_outcome": "changed", "running": False,
    }  # fmt: skip

    assert shown(
        "jobs", {"jobs": [job, job | {"next_run": None, "schedule": "", "running": True}], "paused": True}
    ) == [
        "JOB    SCHEDULE    NEXT    LAST     OUTCOME  ABOUT",
        "night  30 3 * * *  in 2 d  3 h ago  changed  all of a night",
        "night  -           -       3 h ago  running  all of a night",
        "Scheduled runs are held back. Let them go: dreamctl resume_jobs",
    ]


def test_an_undo_lists_what_it_left() -> None:
    assert shown("undo", {"run_id": "run-2", "restored": ["a", "b"], "left": ["c"]}) == [
        "Taken back: 2 changes.", "Left as it is, since it changed meanwhile or is gone: 1", "  c",
        "Take this back too: dreamctl undo run-2",
    ]  # fmt: skip
    assert shown("undo", {"run_id": "run-2", "restored": ["a"], "left": []}) == [
        "Taken back: 1 change.", "Take this back too: dreamctl undo run-2",
    ]  # fmt: skip
    assert shown("undo", {"run_id": "run-2", "restored": [], "left": []}) == [
        "Nothing was taken back: the run changed no memory and no edge that you may see."
    ]


def test_a_rule_says_what_would_go_before_it_goes_and_then_how_to_take_it_back() -> None:
    answer = {"run_id": "run-1", "ids": ["a", "b"], "deferred": 3, "dry_run": True, "reason": "3 more wait"}

    assert shown("forget_where", answer) == [
        "Would forget: 2.", "  a", "  b", "3 more wait", "Do it: the same with --no-dry-run",
    ]  # fmt: skip
    assert shown("forget_where", answer | {"dry_run": False, "deferred": 0, "reason": None}) == [
        "Forgotten: 2.", "  a", "  b", "Take it back: dreamctl undo run-1",
    ]  # fmt: skip
    assert shown("forget_where", answer | {"ids": [], "reason": None}) == ["Would forget: 0."]


def test_a_forgotten_scope_tells_how_much_went_and_how_to_take_it_back_or_what_still_holds_it() -> None:
    answer = {"scope": "ada", "forgotten": 4, "records": 6}
    first = "Forgotten in ada and below it: 4 memories, and 6 facts, turns or session states."

    assert shown("forget_scope", answer | {"run_id": "run-1"}) == [first, "Take it back: dreamctl undo run-1"]
    assert shown("forget_scope", answer | {"snapshots": 0}) == [first]
    assert shown("forget_scope", answer | {"snapshots": 2}) == [
        first, "2 snapshots may still hold some of it until they rotate.",
    ]  # fmt: skip
    assert shown("forget_scope", {"scope": "ada", "forgotten": 1, "records": 1}) == [
        "Forgotten in ada and below it: 1 memory, and 1 fact, turn or session state."
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "change", "headline"),
    [
        ("update", {"version": 2}, f"Updated: {ID}, version 2, personal"),
        ("revert", {"version": 3}, f"Reverted: {ID}, version 3"),
        ("restore", {}, f"Restored: {ID}"),
        ("pin", {"pinned": True}, f"Pinned: {ID}"),
        ("unpin", {}, f"No longer pinned: {ID}"),
        ("set_emotion", {"emotion": 0.75}, f"Emotion 0.75: {ID}"),
        ("set_tier", {"tier": "core"}, f"Tier core: {ID}"),
        ("promote_heat", {"heat": "hot", "changed": True}, f"Heat hot: {ID}"),
        ("demote_heat", {"heat": "cold", "changed": True}, f"Heat cold: {ID}"),
        ("demote_heat", {"changed": False, "note": "It is cold already."}, "Nothing changed: It is cold already."),
    ],
)
def test_a_change_is_told_in_a_line_above_the_text(method: str, change: dict[str, Any], headline: str) -> None:
    assert shown(method, MEMORY | change) == [headline, "  Ada is allergic to nuts"]


def test_a_merge_tells_what_became_of_the_survivor_and_how_to_take_it_back() -> None:
    assert shown("merge", MEMORY | {"version": 3, "run_id": "run-1"}) == [
        f"Merged into {ID}, version 3.", "  Ada is allergic to nuts", "Take it back: dreamctl undo run-1",
    ]  # fmt: skip


def test_an_edit_tells_what_was_masked() -> None:
    assert shown("update", MEMORY | {"redactions": {"pin": 2}})[2:] == ["Redacted: pin 2"]


def test_edges_turns_and_held_back_runs_are_told_in_a_sentence() -> None:
    edge = {"a": "a", "b": "b", "kind": "manual", "weight": 2.0, "label": ""}

    assert shown("connect", edge) == ["Joined a and b: manual, 2.0"]
    assert shown("connect", edge | {"label": "made in"}) == ["Joined a and b: manual, 2.0, made in"]
    assert shown("disconnect", {"a": "a", "b": "b", "disconnected": True}) == ["Parted a and b."]
    assert shown("clear_session", {"turns": 2}) == ["Removed 2 turns."]
    assert shown("clear_session", {"turns": 1}) == ["Removed 1 turn."]
    assert shown("pause_jobs", {"paused": True}) == [
        "Scheduled runs are held back. Let them go: dreamctl resume_jobs"
    ]  # fmt: skip
    assert shown("resume_jobs", {"paused": False}) == ["Scheduled runs go on. Hold them back: dreamctl pause_jobs"]


def test_a_list_of_several_scopes_names_them() -> None:
    memories = [MEMORY | {"id": "m1"}, MEMORY | {"id": "m2", "scope": "a/b"}]

    assert shown("list", {"memories": memories, "cursor": None}) == [
        "ID  AGE      TIER   SCOPE    CONTENT",
        "m1  3 h ago  short  default  Ada is allergic to nuts",
        "m2  3 h ago  short  a/b      Ada is allergic to nuts",
    ]


def test_a_run_that_did_more_than_it_shows_says_so() -> None:
    examples = [{"id": f"m{number}"} for number in range(EXAMPLES)]
    lines = shown("run_job", RUN | {"counts": {"linked": EXAMPLES + 1}, "examples": examples})
    all_shown = shown("run_job", RUN | {"counts": {"linked": EXAMPLES}, "examples": examples})
    few = shown("run_job", RUN | {"counts": {"linked": 1, "deferred": 30}, "examples": examples[:1]})

    assert lines[-3:-1] == ["  m9", "  These are examples; the counts tell how many there are."]
    assert "examples" not in " ".join(all_shown + few)


def test_health_says_what_is_wrong_and_what_to_do() -> None:
    reason = {"name": "store", "detail": "251 of 501 points are there.", "hint": "dreamctl restore_snapshot NAME"}
    night = {"last_night": THEN, "last_night_outcome": None}

    assert shown("health", HEALTH)[0] == "dreamd 0.1.0 is well."
    assert "last night  none yet" in shown("health", HEALTH)
    lines = shown("health", HEALTH | night | {"status": "degraded", "reasons": [reason], "paused": True})
    assert lines[:3] == [
        "dreamd 0.1.0 is degraded.", "  store: 251 of 501 points are there.", "    dreamctl restore_snapshot NAME",
    ]  # fmt: skip
    assert {
        "last night  3 h ago, under way",
        "jobs        held back: dreamctl resume_jobs",
        "up          61.7 min",
    } <= set(lines)


def test_any_other_result_is_shown_by_its_names_and_its_lists_as_tables() -> None:
    result = {
        "total": 0, "share": 0.98765, "size": 123456.7, "open": True, "note": None, "at": THEN,
        "by_tier": {"short": 2, "core": 1}, "names": ["a", "b"], "deep": {"a": {"b": 1}},
        "top_tags": [{"tag": "茶", "count": 3}, {"tag": "food", "seen": THEN}],
    }  # fmt: skip

    assert shown("a_new_method", result) == [
        "total    0", "share    0.9877", "size     123457", "open     yes", "at       3 h ago", "by tier  short 2, core 1",
        "names    a, b", 'deep     {"a": {"b": 1}}', "", "top tags", "TAG   COUNT  SEEN", "茶    3", "food         3 h ago",
    ]  # fmt: skip
    assert shown("tags", {"tags": [{"tag": "food", "count": 3}]}) == ["TAG   COUNT", "food  3"]


@pytest.mark.parametrize(
    ("method", "result", "line"),
    [
        (
            "recall",
            {"hits": [], "took_ms": 1.0},
            "Nothing found in this scope. dreamctl stats --scope '*' counts every scope.",
        ),
        ("list", {"memories": [], "cursor": None}, "No memories."),
        ("history", {"versions": []}, "It was never edited."),
        ("fading", {"memories": []}, "Nothing fades that soon. Look further ahead with --days."),
        ("runs", {"runs": []}, "Nothing has run yet."),
        ("neighbors", {"neighbors": []}, "Nothing."),
        ("tags", {"tags": []}, "Nothing."),
    ],
)
def test_nothing_is_said_to_be_nothing(method: str, result: dict[str, Any], line: str) -> None:
    assert shown(method, result) == [line]
