"""Every method of the wire, a file a noun. The same word is route, verb, tool and label."""

from __future__ import annotations

from typing import Final

from daemon.methods import (
    batch,
    bulk,
    care,
    comments,
    context,
    counts,
    entities,
    exchange,
    facts,
    forget,
    graph,
    heat,
    merge,
    night,
    read,
    recall,
    simulate,
    snapshots,
    statements,
    talk,
    wakeup,
    write,
)
from daemon.wire import Methods

METHODS: Final[Methods] = {
    method.name: method
    for method in (
        *write.METHODS, *batch.METHODS, *forget.METHODS, *bulk.METHODS, *merge.METHODS, *heat.METHODS,
        *recall.METHODS, *read.METHODS, *counts.METHODS, *entities.METHODS,
        *graph.METHODS, *talk.METHODS, *context.METHODS, *comments.METHODS, *wakeup.METHODS, *facts.METHODS,
        *statements.METHODS, *night.METHODS, *simulate.METHODS, *care.METHODS, *snapshots.METHODS,
        *exchange.METHODS,
    )
}  # fmt: skip
