"""The write gate and the embedder as jobs reach them: from their own thread, behind the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from storage.gate import Admitted, Gate
from storage.lane import Lane
from storage.memories import Vectors

SLICE: Final = 32  # texts embedded in one generator: what is kept in RAM at once


class JobTexts:
    """`jobs.context.Texts` over the embedding lane; never called from the event loop or from a lane."""

    def __init__(self, gate: Gate, embedding: Lane) -> None:
        self._gate = gate
        self._embedding = embedding

    def admit(self, given: Mapping[str, Any]) -> Admitted:
        """The fields of a write through the gate. Raises Invalid or TooLarge."""
        return self._embedding.call(self._gate.admit, given)

    def vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """Both vectors of each text, in turns. Raises Unavailable where the embedder is away or the daemon stops."""
        made: list[Vectors] = []
        for start in range(0, len(texts), SLICE):
            made += self._embedding.call_in_turns(self._gate.vectors_in_turns(texts[start : start + SLICE]))
        return made
