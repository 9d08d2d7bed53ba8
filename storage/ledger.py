"""The ledger (`state.db`, SQLite in WAL): runs, their before-images, absences, idempotent answers, spend, small facts.

It outlives a restore of the memories. Nothing in it holds a memory's text, except the before-images of a run, which are
compressed and go with `undo_days` or with a hard `forget`. A ledger that cannot be read closes what depends on it.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

from storage.canaries import Canaries
from storage.database import Database
from storage.examined import Examined
from storage.model import point_id
from storage.proposals import Proposals


class Run(NamedTuple):
    """A recorded run of a job, or of an undo; `outcome` is None while it is under way or was cut off."""

    id: str
    job: str
    parent: str | None
    trigger: str  # schedule | catch_up | manual | idle
    dry_run: bool
    started_at: float
    ended_at: float | None
    seed: int
    late_by: float | None
    outcome: str | None  # changed | unchanged | skipped | cancelled | failed
    reason: str | None
    counts: dict[str, int]
    examples: list[dict[str, Any]]
    cost_micro_usd: int
    undo_of: str | None
    undone_by: str | None
    canary: dict[str, Any] | None = None  # of a night: what real questions found before it and after it


class Entry(NamedTuple):
    """One journalled change: what `key` was before and after it."""

    number: int
    run: str
    at: float
    op: str
    key: str
    scope: str
    undone: bool
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Answer(NamedTuple):
    """What a request with an idempotency key was answered."""

    method: str
    params: str
    answer: dict[str, Any]


SUCCESSES: Final = ("changed", "unchanged")  # how a run ends that came through
CUT_SHORT: Final = ("cancelled", "failed")  # how one ends that need not have made all that it journalled
CUT_OFF: Final = "cut_off"  # why a run ended that a crash ended
SLICE: Final = 500  # rows deleted in one transaction, for which whoever else needs the ledger waits

_RUN_COLUMNS: Final = ", ".join(Run._fields)
#: Runs are told in the order in which they were recorded: a clock that was ahead dates the former ones later.
_NEXT_NUMBER: Final = "SELECT COALESCE(MAX(number), 0) + 1 FROM runs"
_WITH_EXAMPLES: Final = "SELECT id, examples FROM runs WHERE examples != '[]'"
_ENTRY_COLUMNS: Final = "number, run, at, op, key, scope, undone, image"


class Ledger:
    """What is told of a store beside its memories."""

    def __init__(self, path: Path, *, power_safe: bool = False) -> None:
        self._db = Database(path, power_safe=power_safe)
        self.examined = Examined(self._db)
        self.proposals = Proposals(self._db)
        self.canaries = Canaries(self._db)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._db.path

    def copy_to(self, path: Path) -> None:
        """Copy it whole into the new file `path`, as it is at this moment."""
        self._db.copy_to(path)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All of it or nothing; nested use joins the outer transaction."""
        return self._db.transaction()

    def empty_log(self) -> None:
        """Let the log keep no byte of what was erased: the last step of a hard `forget`, and outside of any transaction."""
        self._db.empty_log()

    # -- small facts

    def fact(self, key: str) -> Any:
        """A small durable fact, or None."""
        row = self._db.one("SELECT value FROM meta WHERE key = ?", key)
        return None if row is None else json.loads(row[0])

    def set_fact(self, key: str, value: Any) -> None:
        """Keep a small durable fact; None removes it."""
        if value is None:
            self._db.execute("DELETE FROM meta WHERE key = ?", key)
        else:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, json.dumps(value))

    # -- runs

    def start_run(self, run: Run) -> None:
        """Record that a run began."""
        canary = None if run.canary is None else json.dumps(run.canary)
        values = run._replace(counts=json.dumps(run.counts), examples=json.dumps(run.examples), canary=canary)  # type: ignore[arg-type]
        marks = ", ".join("?" * len(Run._fields))
        self._db.execute(f"INSERT INTO runs ({_RUN_COLUMNS}, number) VALUES ({marks}, ({_NEXT_NUMBER}))", *values)

    def end_run(
        self,
        run: str,
        at: float,
        outcome: str,
        *,
        reason: str | None,
        counts: dict[str, int],
        examples: list[dict[str, Any]],
        canary: dict[str, Any] | None = None,
    ) -> None:
        """Record how a run ended."""
        measured = None if canary is None else json.dumps(canary)
        self._db.execute(
            "UPDATE runs SET ended_at = ?, outcome = ?, reason = ?, counts = ?, examples = ?, canary = ? WHERE id = ?",
            at, outcome, reason, json.dumps(counts), json.dumps(examples), measured, run,
        )  # fmt: skip

    def cut_off_runs(self, at: float) -> list[str]:
        """Close what a crash left open as `cancelled`; returns the ids."""
        open_runs = [row[0] for row in self._db.all("SELECT id FROM runs WHERE outcome IS NULL")]
        self._db.execute(
            "UPDATE runs SET ended_at = ?, outcome = 'cancelled', reason = ? WHERE outcome IS NULL", at, CUT_OFF
        )
        return open_runs

    def run(self, run: str) -> Run | None:
        """One run by its id."""
        row = self._db.one(f"SELECT {_RUN_COLUMNS} FROM runs WHERE id = ?", run)
        return None if row is None else _as_run(row)

    def runs(self, *, job: str | None = None, limit: int = 20) -> list[Run]:
        """The latest runs, newest first."""
        where, values = ("WHERE job = ?", (job,)) if job else ("", ())
        rows = self._db.all(f"SELECT {_RUN_COLUMNS} FROM runs {where} ORDER BY number DESC LIMIT ?", *values, limit)
        return [_as_run(row) for row in rows]

    def steps_of(self, night: str) -> list[Run]:
        """The runs that a night was made of, in order."""
        rows = self._db.all(f"SELECT {_RUN_COLUMNS} FROM runs WHERE parent = ? ORDER BY number", night)
        return [_as_run(row) for row in rows]

    def last_run(self, job: str, *, outcomes: Sequence[str] = (), until: float = math.inf) -> Run | None:
        """The latest real run of a job, as `last_runs` finds it."""
        return next(iter(self.last_runs(job, 1, outcomes=outcomes, until=until)), None)

    def last_runs(
        self, job: str, limit: int, *, outcomes: Sequence[str] = (), until: float = math.inf
    ) -> list[Run]:  # fmt: skip
        """The latest real runs of a job that began by an instant, newest first; with these outcomes where given."""
        marks = f"AND outcome IN ({', '.join('?' * len(outcomes))})" if outcomes else ""
        rows = self._db.all(
            f"SELECT {_RUN_COLUMNS} FROM runs WHERE job = ? AND dry_run = 0 AND started_at <= ? {marks} "
            "ORDER BY number DESC LIMIT ?",
            job, until, *outcomes, limit,
        )  # fmt: skip
        return [_as_run(row) for row in rows]

    def last_measured(self) -> Run | None:
        """The latest night that was measured by canaries."""
        row = self._db.one(
            f"SELECT {_RUN_COLUMNS} FROM runs WHERE job = 'night' AND canary IS NOT NULL ORDER BY number DESC LIMIT 1"
        )
        return None if row is None else _as_run(row)

    def undos_of(self, run: str) -> list[Run]:
        """The undos of a run, in order, those that were cut short too."""
        rows = self._db.all(f"SELECT {_RUN_COLUMNS} FROM runs WHERE undo_of = ? ORDER BY started_at, id", run)
        return [_as_run(row) for row in rows]

    def mark_undone(self, run: str, by: str) -> None:
        """Note which run took this one back."""
        self._db.execute("UPDATE runs SET undone_by = ? WHERE id = ?", by, run)

    def forget_undos(self, since: float) -> None:
        """Note that undos since an instant did not happen: what they took back stands again."""
        undos = "SELECT id FROM runs WHERE job = 'undo' AND started_at >= ?"
        with self.transaction():
            taken_back = f"SELECT id FROM runs WHERE undone_by IN ({undos})"
            self._db.execute(f"UPDATE journal SET undone = 0 WHERE run IN ({taken_back})", since)
            self._db.execute(f"UPDATE runs SET undone_by = NULL WHERE undone_by IN ({undos})", since)

    # -- journal

    def write_journal(
        self, run: str, at: float, entries: Iterable[tuple[str, str, str, Any, Any]], *, undone: bool = False
    ) -> None:
        """Commit before-images, as (op, key, scope, before, after), ahead of the batch which they describe.

        `undone` ones are told, and never taken back.
        """
        rows = [(run, at, op, key, scope, undone, _pack(*images)) for op, key, scope, *images in entries]
        with self.transaction():
            self._db.many(
                "INSERT INTO journal (run, at, op, key, scope, undone, image) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
            )

    def journal_of(self, run: str, *, since: int = 0) -> list[Entry]:
        """What a run changed, newest change first, as far back as the entry of that number."""
        rows = self._db.all(
            f"SELECT {_ENTRY_COLUMNS} FROM journal WHERE run = ? AND number >= ? ORDER BY number DESC", run, since
        )
        return [_as_entry(row) for row in rows]

    def last_entry(self) -> int:
        """The number of the last entry in the journal; later ones have higher numbers."""
        return int(self._db.one("SELECT COALESCE(MAX(number), 0) FROM journal")[0])

    def journal_at(self, key: str) -> list[Entry]:
        """What all runs changed of one thing, newest change first."""
        rows = self._db.all(f"SELECT {_ENTRY_COLUMNS} FROM journal WHERE key = ? ORDER BY number DESC", key)
        return [_as_entry(row) for row in rows]

    def mark_entries(self, numbers: Sequence[int], *, undone: bool) -> None:
        """Note that these changes were taken back, or made again."""
        with self.transaction():
            self._db.many("UPDATE journal SET undone = ? WHERE number = ?", [(undone, number) for number in numbers])

    def moved_since(self, since: float, op: str, *, until: float = math.inf) -> dict[str, int]:
        """How many changes of one kind each exact scope saw since an instant, until another, without those taken back."""
        rows = self._db.all(
            "SELECT scope, COUNT(*) FROM journal WHERE op = ? AND at > ? AND at <= ? AND undone = 0 GROUP BY scope",
            op, since, until,
        )  # fmt: skip
        return {str(scope): int(count) for scope, count in rows}

    def keys_of(self, op: str) -> set[str]:
        """The keys of all changes of one kind that a run made, whatever became of them since.

        What a run took back itself, since it was not through, was not made.
        """
        rows = self._db.all(
            "SELECT DISTINCT key FROM journal JOIN runs ON journal.run = runs.id "
            "WHERE op = ? AND NOT (undone AND undone_by IS NULL)",
            op,
        )
        return {row[0] for row in rows}

    def erase_images(self, memories: Collection[str]) -> None:
        """Blank every image of these memories, of edges at them and of what is or was theirs: a hard `forget` leaves no copy.

        The entries stay, so that an undo of their run lists them as left. The bytes are on no disk once the log is emptied.
        """
        blank = _pack(None, None)
        with self.transaction():
            beside = self._db.all("SELECT number, op, image FROM journal WHERE op IN ('edge', 'record')")
            at_them = [(blank, number) for number, op, image in beside if _is_of(op, image, memories)]
            self._db.many("UPDATE journal SET image = ? WHERE number = ?", at_them)
            self._db.many("UPDATE journal SET image = ? WHERE key = ?", [(blank, memory) for memory in memories])

    def erase_names(self, memories: Collection[str]) -> None:
        """Name these memories no more, whose own ids may tell something: a hard `forget` leaves no name either.

        Examples of runs that name one go, and the counts stay; entries of the journal name the engine's id instead.
        """
        names = frozenset(memories)
        with self.transaction():
            told = [(run, json.loads(examples)) for run, examples in self._db.all(_WITH_EXAMPLES)]
            kept = [(run, examples, [one for one in examples if not _names(one, names)]) for run, examples in told]
            fewer = [(json.dumps(left), run) for run, examples, left in kept if len(left) < len(examples)]
            self._db.many("UPDATE runs SET examples = ? WHERE id = ?", fewer)
            self._db.many("UPDATE journal SET key = ? WHERE key = ?", [(point_id(memory), memory) for memory in names])

    def erase_images_within(self, scope: str, spared: Collection[str] = ()) -> None:
        """Blank every image of what lies, or ever lay, in a scope or below it.

        `spared` are memories, and keys of records, that stay: what is about one of them, or belongs to it, is kept.
        """
        below = f"{scope}/"
        with self.transaction():
            inside = self._db.all(
                "SELECT number, op, key, image FROM journal WHERE scope = ? OR substr(scope, 1, ?) = ?",
                scope, len(below), below,
            )  # fmt: skip
            blank = _pack(None, None)
            going = [
                (blank, number)
                for number, op, key, image in inside
                if key not in spared and not (op in ("edge", "record") and _is_of(op, image, spared))
            ]
            self._db.many("UPDATE journal SET image = ? WHERE number = ?", going)

    def trim(self, *, images_before: float, runs_before: float, requests_before: float) -> bool:
        """Let go of one slice of what is past its time; whether there may be more."""
        for table, key, time, before in (
            ("journal", "number", "at", images_before),
            ("runs", "id", "started_at", runs_before),
            ("requests", "id", "at", requests_before),
        ):
            past = f"SELECT {key} FROM {table} WHERE {time} < ? LIMIT ?"
            if self._db.execute(f"DELETE FROM {table} WHERE {key} IN ({past})", before, SLICE) == SLICE:
                return True
        return False

    # -- absences

    def absences(self) -> list[tuple[float, float]]:
        """The spans in which nobody was there, oldest first."""
        return [(since, until) for since, until in self._db.all("SELECT since, until FROM absences ORDER BY since")]

    def add_absence(self, since: float, until: float) -> None:
        """Record a span without a heartbeat."""
        self._db.execute("INSERT INTO absences VALUES (?, ?)", since, until)

    def cut_absences(self, now: float) -> None:
        """Let no absence last longer than until `now`, to which the clock was set back; one that began later goes."""
        with self.transaction():
            self._db.execute("DELETE FROM absences WHERE since >= ?", now)
            self._db.execute("UPDATE absences SET until = ? WHERE until > ?", now, now)

    # -- idempotent answers

    def answer(self, request: str, *, since: float) -> Answer | None:
        """What a request id was answered, if that is recent."""
        row = self._db.one("SELECT method, params, answer FROM requests WHERE id = ? AND at >= ?", request, since)
        return None if row is None else Answer(row[0], row[1], json.loads(row[2]))

    def keep_answer(self, request: str, method: str, params: str, answer: dict[str, Any], at: float) -> None:
        """Keep an answer (ids and flags, never text) for retries; `params` is their digest."""
        self._db.execute(
            "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?)", request, method, params, json.dumps(answer), at
        )

    def drop_answers(self, since: float) -> None:
        """Let go of the answers given since an instant: what they did is undone."""
        self._db.execute("DELETE FROM requests WHERE at >= ?", since)

    # -- what was erased

    def note_erased(self, points: Iterable[str], at: float) -> None:
        """Note what was erased for good, by the engine's ids: an older snapshot must not bring it back."""
        with self.transaction():
            self._db.many("INSERT OR REPLACE INTO erased (point, at) VALUES (?, ?)", [(point, at) for point in points])

    def let_go(self, memories: Collection[str]) -> None:
        """Let go of what waits for memories that were erased for good, and of what tells of them without being an image."""
        with self.transaction():
            self.proposals.forget(memories)
            self.canaries.forget(memories)

    def last_erasure(self) -> int:
        """The number of the last such note."""
        return int(self._db.one("SELECT COALESCE(MAX(number), 0) FROM erased")[0])

    def erased_since(self, since: float, number: int) -> list[str]:
        """The engine's ids of what was erased for good since an instant, or noted after that number.

        A clock may be set back, and a long run notes all at the instant when it began.
        """
        rows = self._db.all("SELECT point FROM erased WHERE at >= ? OR number > ?", since, number)
        return [row[0] for row in rows]

    # -- spend

    def spent_micro_usd(self, day: str) -> dict[str, int]:
        """Micro-USD of a day by state: `settled` and `reserved`."""
        rows = self._db.all("SELECT state, SUM(micro_usd) FROM spend WHERE day = ? GROUP BY state", day)
        return {str(state): int(total) for state, total in rows}


def _as_run(row: Sequence[Any]) -> Run:
    run = Run(*row)
    return run._replace(
        dry_run=bool(run.dry_run),
        counts=json.loads(run.counts),  # type: ignore[arg-type]
        examples=json.loads(run.examples),  # type: ignore[arg-type]
        canary=None if run.canary is None else json.loads(run.canary),  # type: ignore[arg-type]
    )


def _as_entry(row: Sequence[Any]) -> Entry:
    number, run, at, op, key, scope, undone, image = row
    before, after = json.loads(zlib.decompress(image))
    return Entry(number, run, at, op, key, scope, bool(undone), before, after)


def _is_of(op: str, image: bytes, memories: Collection[str]) -> bool:
    """Whether a journalled edge has one of these memories at an end, or a record belongs to one or came from it."""
    images = [one for one in json.loads(zlib.decompress(image)) if one is not None]
    if op == "edge":
        return any(end in memories for edge in images for end in edge[:2])
    return any(one in memories for record in images for one in (record["owner"], *record.get("origins", ())))


def _names(example: Mapping[str, Any], memories: Collection[str]) -> bool:
    """Whether an example of a run is about one of these memories, alone or beside others."""
    told = (one for value in example.values() for one in (value if isinstance(value, list) else (value,)))
    return any(isinstance(one, str) and one in memories for one in told)


def _pack(before: Any, after: Any) -> bytes:
    return zlib.compress(json.dumps([before, after], ensure_ascii=False).encode())
