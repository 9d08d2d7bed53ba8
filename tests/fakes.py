"""Whole stand-ins for what a test must control: an embedder, a broken one, and the clock."""

from __future__ import annotations

import hashlib
import random
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from storage.embed import Fingerprint
from storage.engine import Engine, Payload, Point

Rows = NDArray[np.float32]


class HashEmbedder:
    """Sums a fixed random direction for each word, so texts are as similar as the words which they share."""

    def __init__(self, dimension: int = 64) -> None:
        self.fingerprint = Fingerprint("hash", "words", dimension)
        self._directions: dict[str, NDArray[np.float64]] = {}

    def embed(self, texts: Sequence[str]) -> Rows:
        rows = np.zeros((len(texts), self.fingerprint.dimension))
        for number, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()) or [text]:
                rows[number] += self._direction(word)
        unit: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _direction(self, word: str) -> NDArray[np.float64]:
        if word not in self._directions:
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
            self._directions[word] = np.random.default_rng(seed).standard_normal(self.fingerprint.dimension)
        return self._directions[word]


class BrokenEmbedder:
    """A HashEmbedder whose answers are wrong in one way, until `mode` is set to None."""

    def __init__(self, mode: Literal["raise", "nan", "zeros", "short", "fewer"] | None, dimension: int = 64) -> None:
        self.mode = mode
        self._whole = HashEmbedder(dimension)
        self.fingerprint = self._whole.fingerprint

    def embed(self, texts: Sequence[str]) -> Rows:
        rows = self._whole.embed(texts)
        match self.mode:
            case "raise":
                raise RuntimeError("the model is broken")
            case "nan":
                return np.full_like(rows, np.nan)
            case "zeros":
                return np.zeros_like(rows)
            case "short":
                return rows[:, :-1]
            case "fewer":
                return rows[:-1]
            case None:
                return rows


class Killed(BaseException):
    """Ends a call as a kill of the process would: nothing of ours may catch it."""


class MortalEngine:
    """Passes everything on to an engine until so many writes were made; each one after them fails."""

    def __init__(self, engine: Engine, error: BaseException) -> None:
        self._engine = engine
        self._error = error
        self.writes_left: float = float("inf")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        self._write()
        self._engine.upsert(collection, points)

    def set_payload(self, collection: str, patches: Mapping[str, Payload]) -> None:
        self._write()
        self._engine.set_payload(collection, patches)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        self._write()
        self._engine.delete(collection, ids)

    def _write(self) -> None:
        if self.writes_left <= 0:
            raise self._error
        self.writes_left -= 1


class NotedEngine:
    """Passes everything on to an engine and notes what was asked, in order; a scroll without a condition stands out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.noted: list[str] = []

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._engine, name)
        if not callable(asked):
            return asked

        def noting(*arguments: Any, **options: Any) -> Any:
            whole = name == "scroll" and options.get("condition") is None
            self.noted.append(f"{name} {arguments[0] if arguments else ''}{' whole' * whole}")
            return asked(*arguments, **options)

        return noting


class SettableClock:
    """A clock that stands still until it is advanced, and gives the same ids in the same order every time."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:  # 2026-01-01T00:00:00Z
        self._now = start
        self._monotonic = 0.0
        self._ids = 0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._now += seconds
        self._monotonic += seconds

    def set(self, now: float) -> None:
        """Set the wall clock alone, as a person or NTP does, forward or back."""
        self._now = now

    def new_id(self) -> str:
        self._ids += 1
        return str(uuid.UUID(int=self._ids, version=4))

    def rng(self, seed: int) -> random.Random:
        return random.Random(seed)
