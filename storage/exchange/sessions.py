"""The `next` edges of a session into which memories were imported that bring none: other systems know of no such edges."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from storage.changes import Change, Edge
from storage.model import Synapse, synapse_key
from storage.remember import NEXT_WEIGHT
from storage.store import Stores


def chained(stores: Stores, scope: str, session: str, brought: Collection[str], now: float) -> list[Change]:
    """What puts the memories that were brought into the chain of their session, by the order of creation.

    Called in the lane.
    """
    members = list(stores.catalogue.scope(scope).sessions.get(session, ()))
    place = {memory: index for index, memory in enumerate(members)}
    changes: list[Change] = []
    for one in members:
        for after in stores.synapses.after(one):
            between = members[place[one] + 1 : place.get(after, 0)]
            if any(memory in brought for memory in between):
                key = synapse_key(one, after, "next")
                changes.append(Edge(key, stores.synapses.get(key), None, scope))
    for one, after in pairwise(members):
        if (one in brought or after in brought) and after not in stores.synapses.after(one):
            edge = Synapse(one, after, "next", NEXT_WEIGHT, now, now)
            changes.append(Edge(edge.key, stores.synapses.get(edge.key), edge, scope))
    return changes
