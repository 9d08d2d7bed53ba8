"""All stores over one engine, opened in order: integrity first, then memories, edges and records.

A store that holds less than was on the disk at the last flush was damaged: it opens read-only and says so.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storage.catalogue import Catalogue
from storage.changes import Changer
from storage.comments import Comments
from storage.embed import Fingerprint
from storage.engine import Collection, Engine
from storage.errors import Corrupt, DreamdError
from storage.facts import Facts
from storage.fading import Awake
from storage.ledger import Ledger
from storage.memories import BIN, INDEXES, LIVE, Memories
from storage.model import Memory, Synapse
from storage.rank import Weights
from storage.recall import Recaller
from storage.records import RECORDS, Records
from storage.remember import Writer
from storage.synapses import SYNAPSES, Synapses
from storage.talk import Talk

COLLECTIONS: Final = (LIVE, BIN, SYNAPSES, RECORDS)
MARKS: Final = "marks"


def collections(dimension: int) -> list[Collection]:
    """What the engine is to keep, for vectors of this dimension."""
    return [
        Collection(LIVE, dimension, INDEXES),
        Collection(BIN, dimension),
        Collection(SYNAPSES),
        Collection(RECORDS, indexes=("owner",)),
    ]


class Stores:
    """The stores of one daemon. All calls are made in the lane."""

    def __init__(self, engine: Engine, ledger: Ledger, *, weights: Weights, default_sensitivity: str) -> None:
        self.engine = engine
        self.ledger = ledger
        self.catalogue = Catalogue()
        self.memories = Memories(engine, self.catalogue)
        self.synapses = Synapses(engine)
        self.records = Records(engine)
        self.talk = Talk(self.records)
        self.comments = Comments(self.records, self.catalogue)
        self.facts = Facts(self.records, default_sensitivity=default_sensitivity)
        self.changer = Changer(self.catalogue, self.memories, self.synapses, self.records, self.comments, ledger)
        self.recaller = Recaller(engine, self.catalogue, self.memories, self.synapses, weights)
        self.writer = Writer(
            engine, self.catalogue, self.memories, self.synapses, self.records, default_sensitivity=default_sensitivity
        )
        self.awake = Awake(ledger.absences())
        self.damage = engine.shortfall(ledger.fact(MARKS) or {})

    def load(self) -> None:
        """Fill the catalogue and the adjacency; mend what a crash left half done, unless the store is damaged."""
        gc.disable()  # so many lasting objects come at once that looking through them again and again would double the time
        try:
            self.memories.load(mend=not self.damage)
            self.synapses.load()
            self.records.load()
        finally:
            gc.enable()
            gc.freeze()  # they last as long as the process: no later collection needs to look at them
        if not self.damage:
            lost = [key for key, edge in self.synapses.every() if self._dangles(edge)]
            self.synapses.drop(lost)
            self.record_marks()

    def reload(self) -> None:
        """Take in what the engine holds now that another store is in its place; read-only where that cannot be read."""
        self.catalogue.clear()
        self.synapses.clear()
        self.ledger.canaries.clear()  # they were asked of other memories, maybe with other vectors
        self.damage = self.engine.shortfall(self.ledger.fact(MARKS) or {})
        try:
            self.load()
        except DreamdError as error:
            self.damage = [error.detail]
            raise

    @property
    def folder(self) -> Path:
        """The state folder, in which the ledger lies."""
        return self.ledger.path.parent

    def check_writable(self) -> None:
        """Refuse to write over a damaged store."""
        if self.damage:
            raise Corrupt(
                f"The store is damaged and read-only: {'; '.join(self.damage)}.", hint="dreamctl restore_snapshot NAME"
            )

    def flush(self) -> None:
        """Bring everything to the disk and record how much there is."""
        self.engine.flush()
        if not self.damage:
            self.record_marks()

    def record_marks(self) -> None:
        """Note how much there is on the disk, which the next start compares with what it finds."""
        self.ledger.set_fact(MARKS, self.engine.marks())

    def rewrite(self, collection: str, *, scrub: bool = False) -> bool:
        """Vacuum or scrub a collection; the marks are taken before and after, since a rewrite shortens its files."""
        self.flush()
        if scrub:
            self.engine.scrub(collection)
        done = scrub or self.engine.vacuum(collection)
        self.flush()
        return done

    def reload_absences(self) -> None:
        """Take in an absence that was just recorded."""
        self.awake = Awake(self.ledger.absences())

    def settle_fingerprint(self, current: Fingerprint | None) -> Fingerprint | None:
        """The fingerprint of the stored vectors; a new store takes the current embedder's."""
        stored = self.records.fingerprint()
        if stored is None and current is not None:
            self.records.set_fingerprint(current)
            return current
        return stored

    def texts(self, rows: Iterable[Memory]) -> dict[str, Memory]:
        """Whole memories for these rows, by id."""
        return self.memories.read([row.id for row in rows])

    def _dangles(self, edge: Synapse) -> bool:
        return edge.a not in self.catalogue or edge.b not in self.catalogue
