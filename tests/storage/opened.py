"""Whole stores over a real embedded engine in a folder of the test, written and asked as the daemon does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.edge import EdgeEngine
from storage.forget import forget
from storage.gate import Gate
from storage.keywords import KeywordEncoder
from storage.ledger import Ledger
from storage.model import Memory
from storage.rank import Weights
from storage.recall import Hit, Question
from storage.redact import Redactor
from storage.remember import Write, Written
from storage.store import COLLECTIONS, Stores, collections
from storage.where import Where
from tests.fakes import HashEmbedder, SettableClock

KEYWORDS = KeywordEncoder()
REDACTOR = Redactor()


class Opened:
    """The stores of one folder; `crash` leaves them as a killed process would."""

    def __init__(
        self, folder: Path, *, default_sensitivity: str = "personal", around: Callable[[Any], Any] = lambda engine: engine
    ) -> None:  # fmt: skip
        self.folder = folder
        self.clock = SettableClock()
        self.embedder = HashEmbedder()
        self.gate = Gate(REDACTOR, self.embedder, KEYWORDS, levels={}, default=default_sensitivity)
        self._default = default_sensitivity
        self._around = around  # puts something around the engine
        self.open()

    def open(self) -> None:
        dimension = self.embedder.fingerprint.dimension
        self.engine = self._around(EdgeEngine.open(self.folder / "store", collections(dimension), reserve_mb=16))
        self._fill()

    def _fill(self) -> None:
        self.ledger = Ledger(self.folder / "state.db")
        self.stores = Stores(self.engine, self.ledger, weights=Weights(), default_sensitivity=self._default)
        self.stores.load()

    def close(self) -> None:
        self.engine.close()
        self.ledger.close()

    def empty(self) -> None:
        """Let go of everything stored; time and ids go on."""
        for name in COLLECTIONS:
            for batch in list(self.engine.scroll(name, fields=[])):
                self.engine.delete(name, [record.id for record in batch])
        self.ledger.close()
        for file in self.folder.glob("state.db*"):
            file.unlink()
        self._fill()

    def reopen(self) -> None:
        self.close()
        self.open()

    @property
    def now(self) -> float:
        return self.clock.now()

    def admit(self, given: dict[str, Any], clearance: str = "secret") -> Write:
        admitted = self.gate.admit(given)
        return Write(admitted.fields, admitted.redactions, clearance)

    def remember(self, content: str, *, clearance: str = "secret", **fields: Any) -> Written:
        """Remember through gate and embedder."""
        write = self.admit({"content": content, **fields}, clearance)
        text = self.stores.writer.text_to_embed(write)
        vectors = None if text is None else self.gate.vectors([text])[0]
        return self.stores.writer.remember(write, vectors, self.now, self.clock.new_id())

    def add(self, content: str, **fields: Any) -> str:
        """Remember and return the id."""
        return self.remember(content, **fields).memory.id

    def update(self, memory: str, *, clearance: str = "secret", if_version: int | None = None, **fields: Any) -> Memory:
        """Edit through gate and, where the writer asks for it, the embedder."""
        write = self.admit(fields, clearance)
        text = self.stores.writer.text_to_embed(write, memory)
        vectors = None if text is None else self.gate.vectors([text])[0]
        return self.stores.writer.update(memory, write, vectors, self.now, if_version=if_version).memory

    def recall(
        self,
        query: str,
        *,
        k: int = 5,
        where: dict[str, Any] | None = None,
        keywords_alone: bool = False,
        **options: Any,
    ) -> list[Hit]:
        """Ask without teaching anything; `keywords_alone` as while the embedder is away."""
        dense, terms = self.gate.question(query)
        question = Question(query, None if keywords_alone else dense, terms)
        asked = Where(now=self.now, **(where or {}))
        return self.stores.recaller.recall(question, asked, self.stores.awake, k=k, **options)

    def found(self, query: str, **options: Any) -> list[str]:
        """The ids of a recall's hits, best first."""
        return [hit.memory.id for hit in self.recall(query, **options)]

    def forget(self, *ids: str, **options: Any) -> list[str]:
        return forget(self.stores, ids, self.now, options.pop("clearance", "secret"), **options).forgotten

    def read(self, memory: str) -> Memory:
        return self.stores.memories.read_one(memory)

    def row(self, memory: str) -> Memory:
        return self.stores.memories.row(memory)
