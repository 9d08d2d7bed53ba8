"""Asking the embedder, in its own lane, so that its failures show in `health` until it answers again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import structlog

from daemon.parts import Parts
from storage.errors import Unavailable
from storage.memories import Vectors

log = structlog.get_logger("daemon.methods.embedding")

_REASON: Final = "embedding"


async def vectors_of(parts: Parts, texts: Sequence[str]) -> list[Vectors]:
    """Both vectors of each text. Raises Unavailable where the embedder fails."""
    try:
        made = await parts.embedding.run(parts.gate.vectors, texts)
    except Unavailable:
        _note(parts, well=False)
        raise
    _note(parts, well=True)
    return made


async def question_of(parts: Parts, query: str) -> tuple[Any, Any]:
    """A query's unit row, or None where the embedder fails, and its terms."""
    dense, terms = await parts.embedding.run(parts.gate.question, query)
    _note(parts, well=dense is not None)
    return dense, terms


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
