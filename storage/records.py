"""Payload-only things that belong to a memory (its former versions) or to the store (the embedder's fingerprint).

One keyword index, `owner`, finds what belongs to whom. All calls are made in the lane.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from storage.embed import Fingerprint
from storage.engine import Condition, Engine, Payload, Point
from storage.model import Version, point_id

RECORDS: Final = "records"
_FINGERPRINT: Final = point_id("\0fingerprint")


class Records:
    """Versions by memory, and the fingerprint."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def fingerprint(self) -> Fingerprint | None:
        """The embedder that the stored vectors came from; None in a new store."""
        record = self._engine.retrieve(RECORDS, [_FINGERPRINT]).get(_FINGERPRINT)
        return None if record is None else Fingerprint.from_dict(record.payload["fingerprint"])

    def set_fingerprint(self, fingerprint: Fingerprint) -> None:
        """Note which embedder the vectors come from."""
        payload: Payload = {"kind": "fingerprint", "owner": "", "fingerprint": fingerprint.to_dict()}
        self._engine.upsert(RECORDS, [Point(_FINGERPRINT, payload)])

    def add_version(self, version: Version) -> None:
        """Keep a former text of a memory; the same number again changes nothing else."""
        payload = {"kind": "version", "owner": version.memory, **version._asdict()}
        key = str(uuid.uuid5(uuid.UUID(point_id(version.memory)), f"version:{version.number}"))
        self._engine.upsert(RECORDS, [Point(key, payload)])

    def versions(self, memory: str) -> list[Version]:
        """The former texts of a memory, newest first."""
        found = [payload for payload in self._owned(memory).values() if payload.get("kind") == "version"]
        return sorted(map(_version, found), key=lambda version: version.number, reverse=True)

    def levels(self) -> Iterator[list[tuple[str, str]]]:
        """Whose each former text is and how sensitive, in batches; other calls may come between them."""
        for batch in self._engine.scroll(RECORDS, fields=("kind", "owner", "sensitivity")):
            payloads = [record.payload for record in batch if record.payload.get("kind") == "version"]
            yield [(payload["owner"], payload["sensitivity"]) for payload in payloads]

    def erase(self, memories: Sequence[str]) -> None:
        """Remove all that belongs to these memories."""
        keys = [key for memory in memories for key in self._owned(memory)]
        if keys:
            self._engine.delete(RECORDS, keys)

    def _owned(self, owner: str) -> dict[str, dict[str, Any]]:
        batches = self._engine.scroll(RECORDS, condition=Condition(owner=owner))
        return {record.id: record.payload for batch in batches for record in batch}


def _version(payload: dict[str, Any]) -> Version:
    known = {name: payload[name] for name in Version._fields if name in payload}
    return Version(**known | {"tags": tuple(payload.get("tags", ()))})
