"""The twins of `dedup`: who was looked at for them, and who may be a twin of whom, from one run to the next.

Texts are read of what was written since, if only by an access, and of those that may say the same as one of these: one new
memory costs its own text and those of its class, whatever its scope holds. What was looked at is told by marks in the
ledger. Each is a mark of the row, of which the low bits are those of what it says (`Essence.common`), so that its class is
known without its text. Two classes with the same bits cost a text that is read in vain; two rows with the same of the
others, one in 10^8 at 200,000 memories, a twin that is not seen. A merge never rests on a mark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from jobs.context import Context
from storage.examined import mark
from storage.model import Memory
from storage.twins import FORM, Essence, essence

LOOKED_AT: Final = "dedup:twins"  # the name under which the marks are kept
BATCH: Final = 128  # texts read in one lane call: 4 ms, more where they are long

_CLASS: Final = (1 << 20) - 1  # the bits of a mark that are of what is said


class Matching:
    """Who is looked at for twins in one run; `rows` are all live memories as it begins."""

    def __init__(self, ctx: Context, rows: Sequence[Memory]) -> None:
        self._ctx = ctx
        self._marks: dict[str, tuple[int, int]] = {}  # of a memory at a `seq`
        self._looked: dict[str, int] = {}  # in this scope, with their marks, which are not noted yet
        self._known = self._classes_known(rows)

    def is_new(self, row: Memory) -> bool:
        """Whether a memory is new or changed since it was last looked at."""
        return self._mark(row) not in self._known

    def essences(self, rows: Sequence[Memory]) -> dict[str, Essence]:
        """What those of a scope say that are new, and those that may say the same; ends between two batches when told to."""
        said = self._read([row for row in rows if self.is_new(row)])
        classes = {one.common & _CLASS for one in said.values()}
        return said | self._read([row for row in rows if self._known.get(self._mark(row)) in classes])

    def note(self, rows: Sequence[Memory], out: Collection[str]) -> None:
        """Note that the rows of a scope were looked at, but for those who were merged or wait for it: they are new again."""
        again = [self._mark(row) for row in rows if row.id in out and not self.is_new(row)]
        through = [one for memory, one in self._looked.items() if memory not in out]
        self._looked.clear()
        if not self._ctx.dry_run:
            examined = self._ctx.stores.ledger.examined
            self._ctx.note_in_slices(partial(examined.drop, LOOKED_AT), [one | self._known[one] for one in again])
            self._ctx.note_in_slices(partial(examined.add, LOOKED_AT), through)

    def _read(self, rows: Sequence[Memory]) -> dict[str, Essence]:
        """What each says; of those that are there no more, nothing."""
        essences: dict[str, Essence] = {}
        for start in range(0, len(rows), BATCH):
            if self._ctx.must_stop():
                break
            batch = rows[start : start + BATCH]
            whole = self._ctx.read(self._ctx.stores.memories.read, [row.id for row in batch])
            for row in batch:
                if row.id in whole:
                    said = essences[row.id] = essence(whole[row.id])
                    self._looked[row.id] = self._mark(row) | (said.common & _CLASS)
        return essences

    def _mark(self, row: Memory) -> int:
        """The mark of a memory as it is, without a class; no `seq` comes twice."""
        seq, known = self._marks.get(row.id, (0, 0))
        if seq != row.seq:
            known = mark(FORM, row.id, str(row.seq), repr(row.created_at), row.content_hash) & ~_CLASS
            self._marks[row.id] = row.seq, known
        return known

    def _classes_known(self, rows: Sequence[Memory]) -> dict[int, int]:
        """The class of each who was looked at, by its mark; marks of what is there no more, or not as it was, are let go of."""
        examined = self._ctx.stores.ledger.examined
        marks = examined.of(LOOKED_AT)
        current = set(map(self._mark, rows))
        stale = [one for one in marks if one & ~_CLASS not in current]
        if not self._ctx.dry_run:
            self._ctx.note_in_slices(partial(examined.drop, LOOKED_AT), stale)
        return {one & ~_CLASS: one & _CLASS for one in marks if one & ~_CLASS in current}
