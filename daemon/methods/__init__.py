"""Every method of the wire, a file a noun. The same word is route, verb, tool and label."""

from __future__ import annotations

from typing import Final

from daemon.methods import batch, care, counts, forget, graph, night, read, recall, write
from daemon.wire import Methods

METHODS: Final[Methods] = {
    method.name: method
    for method in (
        *write.METHODS, *batch.METHODS, *forget.METHODS, *recall.METHODS, *read.METHODS, *counts.METHODS, *graph.METHODS,
        *night.METHODS, *care.METHODS,
    )
}  # fmt: skip
