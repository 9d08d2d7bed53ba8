"""The near pairs of `dedup`: found by blocked products of what is new or changed with all of its scope, and proposed.

The nearest of a whole run wait in the ledger, 200 at most a run and 2,000 in all. A pair beyond that is not lost: the
memory for whose sake it was found counts as not looked at, and is compared again. While there is no room at all nothing is
compared. What was looked at is noted window by window, so that a run that is cut short keeps it; the same two texts are
proposed once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np

from jobs.context import Context
from storage.embed import Rows
from storage.engine import Vector
from storage.examined import mark
from storage.memories import LIVE
from storage.model import Memory
from storage.nearness import Flags, Found, Indexes, Marks, Nearest, Pairs, among, near, pair_marks, products, standing
from storage.proposals import Proposal
from storage.store import Stores
from storage.twins import event_time, is_kept

NAME: Final = "dedup"
PROPOSED: Final = "dedup:proposed"  # the name under which the marks of pairs are kept
A_RUN: Final = 200  # pairs proposed
IN_ALL: Final = 2_000  # pairs that wait
BATCH: Final = 128  # vectors read in one lane call: 6 ms
WINDOW: Final = 16_384  # rows of vectors in RAM at once, twice: 64 MiB of 512 numbers, whatever a scope holds


class Proposing:
    """What one run looks at and proposes.

    `rows` are all live memories as it begins; `alive` are the ids of those whose time is not over.
    """

    def __init__(self, ctx: Context, rows: Sequence[Memory], alive: frozenset[str], *, window: int = WINDOW) -> None:
        self._ctx = ctx
        self._window = window
        fingerprint = ctx.read(ctx.stores.records.fingerprint)
        self._dimension = 0 if fingerprint is None else fingerprint.dimension  # 0: nobody knows what is near
        self._standard = f"{fingerprint} from {ctx.settings.propose}"
        self._marks: dict[str, tuple[int, int]] = {}  # of a memory at a `seq`
        self._texts = {row.id: _text_mark(row) for row in rows}
        self._compared: dict[str, int] = {}  # with their marks, which are not noted yet
        self.examined = 0
        self.without_vector = 0
        self._known = self._marks_known(rows)
        self._proposed, waiting = self._pairs_known(alive)
        self._nearest = Nearest(min(A_RUN, IN_ALL - waiting))
        self._total = sum(map(self.is_new, rows))

    @property
    def has_room(self) -> bool:
        """Whether any pair may be proposed."""
        return self._nearest.room > 0

    @property
    def left_out(self) -> int:
        """How many near pairs were found for which there is no room."""
        return self._nearest.left_out

    def is_new(self, row: Memory) -> bool:
        """Whether a memory is new or changed since the last run looked at it."""
        return self._mark(row) not in self._known

    def has_new(self, rows: Sequence[Memory]) -> bool:
        """Whether there is anything to compare among the rows of a scope, and room for what is found."""
        return self.has_room and self._dimension > 0 and any(map(self.is_new, rows))

    def compare(self, scope: str, rows: Sequence[Memory]) -> None:
        """Compare what is new among the rows of a scope with all of them; ends between two blocks when told to."""
        if not self.has_new(rows):
            return
        rows = sorted(rows, key=lambda row: row.id)
        new = [n for n, row in enumerate(rows) if self.is_new(row)]
        fresh = frozenset(new)
        order = np.array([*new, *(n for n in range(len(rows)) if n not in fresh)])
        self._texts |= {row.id: _text_mark(row) for row in rows}
        for start in range(0, len(new), self._window):
            end = min(start + self._window, len(new))
            window = order[start:end]
            vectors = self._vectors(rows, window)
            if vectors is None:
                return
            has_vector: Flags = np.any(vectors, axis=1)  # for the sake of one without nothing is read
            window, vectors = window[has_vector], vectors[has_vector]
            if len(window) and not self._compare(scope, rows, window, vectors, order[end:]):
                return
            self.examined += len(has_vector)
            self.without_vector += int(np.count_nonzero(~has_vector))
            self._note(rows[n] for n in window)

    def finish(self) -> list[Found]:
        """Propose the nearest, which then wait; what was compared for the sake of others is to be looked at again."""
        nearest, ledger = self._nearest, self._ctx.stores.ledger
        if not self._ctx.dry_run:
            waiting = [
                Proposal(one.a, one.b, one.scope, one.cosine, self._ctx.now, self._ctx.run_id) for one in nearest.found
            ]
            pairs = self._pair_marks([(one.a, one.b) for one in nearest.found]).tolist()
            through = [m for one, m in self._compared.items() if one not in nearest.missing]

            def propose() -> None:
                ledger.proposals.add(waiting)
                ledger.examined.add(PROPOSED, pairs)
                ledger.examined.add(NAME, through)

            self._ctx.note(propose)
        return nearest.found

    # -- comparing

    def _compare(self, scope: str, rows: Sequence[Memory], window: Indexes, vectors: Rows, others: Indexes) -> bool:
        """Offer the near pairs within a window, and of it with the others; false where it was told to stop."""
        ids = [row.id for row in rows]
        texts = np.array([self._texts[memory] for memory in ids], np.int64)
        later = (others[start : start + self._window] for start in range(0, len(others), self._window))
        sides = [window, *later]
        for number, side in enumerate(sides):
            opposite = self._vectors(rows, side) if number else vectors
            if opposite is None:
                return False
            for block in products(vectors, opposite, same=not number):
                if self._ctx.must_stop():
                    return False
                self._ctx.pace()
                for pairs in near(block, self._ctx.settings.propose):
                    placed = Pairs(window[pairs.one], side[pairs.other], pairs.cosine)
                    marks = pair_marks(texts, placed.one, placed.other)
                    self._nearest.offer(scope, ids, placed.where(~among(marks, self._proposed)))
            self._ctx.progress(self.examined + len(window) * (number + 1) // len(sides), self._total)
        return True

    def _vectors(self, rows: Sequence[Memory], side: Indexes) -> Rows | None:
        """The vectors of some rows, zero where there is none; None where it was told to stop."""
        vectors = np.zeros((len(side), self._dimension), np.float32)
        for start in range(0, len(side), BATCH):
            if self._ctx.must_stop():
                return None
            ids = [rows[n].id for n in side[start : start + BATCH]]
            for n, vector in enumerate(self._ctx.read(_dense, self._ctx.stores, ids), start):
                if vector is not None:
                    vectors[n] = vector
        return vectors

    # -- what was looked at

    def _mark(self, row: Memory) -> int:
        """The mark of all that the judgement of a memory depends on, its embedder and the threshold among it."""
        seq, known = self._marks.get(row.id, (0, 0))
        if seq != row.seq:
            united = json.dumps([row.entities, row.metadata], sort_keys=True)
            rest = (row.session, row.source, row.sensitivity, event_time(row), row.expires_at, is_kept(row))
            known = mark(
                row.id, row.content_hash, row.author, row.type, row.subtype, united, repr(rest), self._standard
            )
            self._marks[row.id] = row.seq, known
        return known

    def _marks_known(self, rows: Sequence[Memory]) -> set[int]:
        """The marks of what was looked at; those of what is there no more, or not as it was, are let go of."""
        examined = self._ctx.stores.ledger.examined
        known = examined.of(NAME)
        stale = known.difference(map(self._mark, rows))
        if not self._ctx.dry_run:
            self._ctx.note_in_slices(partial(examined.drop, NAME), [*stale])
        return known - stale

    def _pairs_known(self, alive: frozenset[str]) -> tuple[Marks, int]:
        """The marks of the pairs that wait or were proposed as they are, in order, and how many wait.

        A proposal that names a memory which is gone is settled, and the marks of such pairs are let go of.
        """
        ledger = self._ctx.stores.ledger
        waiting = [(one.a, one.b) for one in ledger.proposals.waiting()]
        gone = [pair for pair in waiting if not alive.issuperset(pair)]
        proposed = np.array([*ledger.examined.of(PROPOSED)], np.int64)
        stand = standing(proposed, np.array([*self._texts.values()], np.int64))
        if not self._ctx.dry_run:
            self._ctx.note_in_slices(ledger.proposals.settle, gone)
            self._ctx.note_in_slices(partial(ledger.examined.drop, PROPOSED), proposed[~stand].tolist())
        still = self._pair_marks([pair for pair in waiting if alive.issuperset(pair)])
        return np.sort(np.concatenate([proposed[stand], still])), len(waiting) - len(gone)

    def _pair_marks(self, pairs: Sequence[tuple[str, str]]) -> Marks:
        texts = np.array([self._texts[memory] for pair in pairs for memory in pair], np.int64)
        first = np.arange(0, len(texts), 2)
        return pair_marks(texts, first, first + 1)

    def _note(self, rows: Iterable[Memory]) -> None:
        """Note what was compared, but for those of whose pairs some are not proposed yet."""
        self._compared |= {row.id: self._mark(row) for row in rows}
        held = self._nearest.missing.union(one.looked_at for one in self._nearest.found)
        through = [self._compared.pop(memory) for memory in [*self._compared] if memory not in held]
        if not self._ctx.dry_run:
            self._ctx.note_in_slices(partial(self._ctx.stores.ledger.examined.add, NAME), through)


def _text_mark(row: Memory) -> int:
    """The mark of a memory's text."""
    return mark(row.id, row.content_hash)


def _dense(stores: Stores, ids: Sequence[str]) -> list[Vector | None]:
    """The stored vector of each; None for what has none, or is live no more. Called in the lane."""
    points = [stores.catalogue.point(memory) if memory in stores.catalogue else "" for memory in ids]
    records = stores.engine.retrieve(LIVE, [point for point in points if point], fields=[], vectors=True)
    return [records[point].dense if point in records else None for point in points]
