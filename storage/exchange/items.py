"""What a reader finds in a file that is imported: items in our own names, and faults where something cannot be read."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

#: What a file may hold, in the order in which it can be stored: each kind refers to those before it alone.
KINDS: Final = ("memory", "version", "edge", "comment", "fact", "turn", "session_state")


class Item(NamedTuple):
    """One thing of a file, under our names; instants are epoch seconds, and nothing has passed the gate yet.

    `place` says where it stood, such as `line 12`; fields that we do not know are kept for the metadata.
    """

    kind: str
    place: str
    fields: dict[str, Any]


class Fault(NamedTuple):
    """Something that cannot be read, and why; `detail` never quotes what a memory says."""

    place: str
    detail: str
