"""Asking gate and embedder, in their own lane; failures of the embedder show in `health` until it answers again.

What is short goes at one go, as urgent as every request. What is long goes in turns behind the others: a recall waits for
one turn at most, and when the daemon stops what has turns left is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from daemon.parts import Parts
from storage.embed import BATCH_BYTES
from storage.engine import Sparse, Vector
from storage.errors import Unavailable
from storage.gate import Admitted
from storage.lane import Stopping
from storage.memories import Vectors

log = structlog.get_logger("daemon.methods.embedding")

_REASON: Final = "embedding"


async def admitted(parts: Parts, given: Mapping[str, Any]) -> Admitted:
    """The fields of a write through the gate, which takes up to 0.3 s for 256 KiB."""
    return await parts.embedding.run(parts.gate.admit, given, urgent=size_of(given) <= BATCH_BYTES)


async def vectors_of(parts: Parts, texts: Sequence[str]) -> list[Vectors]:
    """Both vectors of each text. Raises Unavailable where the embedder fails, Stopping where it takes no more."""
    try:
        if len(texts) == 1 and _is_short(texts[0]):
            made = await parts.embedding.run(parts.gate.vectors, texts)
        else:
            made = await parts.embedding.run_in_turns(parts.gate.vectors_in_turns(texts))
    except Stopping:
        raise
    except Unavailable:
        _note(parts, well=False)
        raise
    _note(parts, well=True)
    return made


async def question_of(parts: Parts, query: str) -> tuple[Vector | None, Sparse]:
    """A query's unit row, or None where the embedder fails, and its terms."""
    if _is_short(query):
        dense, terms = await parts.embedding.run(parts.gate.question, query)
    else:
        dense, terms = await parts.embedding.run_in_turns(parts.gate.question_in_turns(query))
    _note(parts, well=dense is not None)
    return dense, terms


def size_of(given: Any) -> int:
    """About how many characters a write brings, in whatever field."""
    return len(str(given))


def _is_short(text: str) -> bool:
    return len(text) <= BATCH_BYTES and len(text.encode(errors="replace")) <= BATCH_BYTES


def _note(parts: Parts, *, well: bool) -> None:
    if well:
        parts.health.mend(_REASON)
    elif parts.has_embedder and _REASON not in parts.health.reasons:
        log.warning("embedding.failed", embedder=parts.embedder_name)
        parts.health.degrade(
            _REASON,
            f"The embedder {parts.embedder_name} fails: recall goes on by keyword, and nothing can be remembered.",
            "Restart dreamd; if it stays so: journalctl --user -u dreamd",
        )
