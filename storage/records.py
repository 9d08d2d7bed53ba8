"""Payload-only things beside the memories: former versions, comments, facts, turns, session states, the fingerprint.

A record has a `kind` and an `owner`: the memory that it belongs to, or what stands for its scope or its session
(`owner_of`). One that a merge gave to another memory also says in `origins` whose it was before, the first one first.
What is absent is left out of it, never None. One keyword index finds what belongs to whom. Who keeps a kind of record
may register an index of it in RAM, which hears of every change after the store accepted it. All calls are made in the
lane.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from storage.embed import Fingerprint
from storage.engine import Condition, Engine, Payload, Point
from storage.model import Version, covers, point_id

RECORDS: Final = "records"
BATCH: Final = 256
#: How an owner begins that is no memory.
NO_MEMORY: Final = "\0"
_FINGERPRINT: Final = point_id("\0fingerprint")


class Index(Protocol):
    """What a keeper of one kind of record knows of them in RAM."""

    kind: str
    fields: Sequence[str]  # of the payload, that `put` needs at the start

    def clear(self) -> None:
        """Know of none."""

    def put(self, key: str, payload: Payload) -> None:
        """Know of a record, whatever it was before."""

    def drop(self, key: str) -> None:
        """Know of it no more; it may be none of this kind."""


class _Origins:
    """Which records a merge took from which memory, whoever has them now; of any kind."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}  # by memory
        self._origins: dict[str, Sequence[str]] = {}  # by key

    def put(self, key: str, payload: Payload) -> None:
        self.drop(key)
        if "origins" in payload:
            self._origins[key] = payload["origins"]
            for memory in payload["origins"]:
                self._keys.setdefault(memory, {})[key] = None

    def drop(self, key: str) -> None:
        for memory in self._origins.pop(key, ()):
            self._keys[memory].pop(key, None)

    def of(self, memories: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(key for memory in memories for key in self._keys.get(memory, ())))


class Records:
    """Records by key and by owner."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._indexes: dict[str, Index] = {}
        self._origins = _Origins()
        self._fingerprint: Fingerprint | None = None  # every write asks for it

    def register(self, index: Index) -> None:
        """Let an index hear of every record of its kind."""
        self._indexes[index.kind] = index

    def load(self) -> None:
        """Fill the indexes from the store, which may be another than before."""
        self._fingerprint = None
        self._origins = _Origins()
        for one in self._indexes.values():
            one.clear()
        fields = {"kind", "origins", *(name for one in self._indexes.values() for name in one.fields)}
        for batch in self._engine.scroll(RECORDS, fields=sorted(fields)):
            for record in batch:
                self._origins.put(record.id, record.payload)
                index = self._indexes.get(record.payload.get("kind", ""))
                if index is not None:
                    index.put(record.id, record.payload)

    def put(self, records: Mapping[str, Payload]) -> None:
        """Write records whole, by key; each says its `kind` and its `owner`."""
        points = [Point(key, payload) for key, payload in records.items()]
        for start in range(0, len(points), BATCH):
            batch = points[start : start + BATCH]
            self._engine.upsert(RECORDS, batch)
            for point in batch:
                self._origins.put(point.id, point.payload)
                index = self._indexes.get(point.payload["kind"])
                if index is not None:
                    index.put(point.id, point.payload)

    def drop(self, keys: Sequence[str]) -> None:
        """Remove records; keys that are not there do not matter."""
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            self._engine.delete(RECORDS, batch)
            for key in batch:
                self._origins.drop(key)
                for index in self._indexes.values():
                    index.drop(key)

    def get(self, keys: Sequence[str]) -> dict[str, Payload]:
        """The records that exist, by key."""
        found: dict[str, Payload] = {}
        for start in range(0, len(keys), BATCH):
            records = self._engine.retrieve(RECORDS, keys[start : start + BATCH])
            found |= {key: record.payload for key, record in records.items()}
        return found

    def owned(self, owner: str, kind: str) -> dict[str, Payload]:
        """The records of one kind that belong to an owner, by key."""
        return {key: payload for key, payload in self.of(owner).items() if payload.get("kind") == kind}

    def of(self, owner: str) -> dict[str, Payload]:
        """All records that belong to an owner, by key, those of kinds that we do not know among them."""
        batches = self._engine.scroll(RECORDS, condition=Condition(owner=owner))
        return {record.id: record.payload for batch in batches for record in batch}

    def taken_from(self, memories: Sequence[str]) -> list[str]:
        """The keys of what merges took from these memories, whoever has it now."""
        return self._origins.of(memories)

    def within(self, scope: str) -> Iterator[dict[str, Payload]]:
        """What belongs to a scope or one below it and to no memory: facts, turns, session states.

        By key, with `scope` and `sensitivity` alone, in batches between which other calls may come.
        """
        for batch in self._engine.scroll(RECORDS, fields=("owner", "scope", "sensitivity")):
            yield {record.id: record.payload for record in batch if _lies_in(record.payload, scope)}

    def erase(self, memories: Sequence[str]) -> None:
        """Remove all that belongs to these memories."""
        self.drop([key for memory in memories for key in self.of(memory)])

    # -- the embedder's fingerprint

    def fingerprint(self) -> Fingerprint | None:
        """The embedder that the stored vectors came from; None in a new store."""
        if self._fingerprint is None:
            payload = self.get([_FINGERPRINT]).get(_FINGERPRINT)
            self._fingerprint = None if payload is None else Fingerprint.from_dict(payload["fingerprint"])
        return self._fingerprint

    def set_fingerprint(self, fingerprint: Fingerprint) -> None:
        """Note which embedder the vectors come from."""
        self.put({_FINGERPRINT: {"kind": "fingerprint", "owner": "", "fingerprint": fingerprint.to_dict()}})
        self._fingerprint = fingerprint

    # -- former versions

    def add_version(self, version: Version) -> None:
        """Keep a former text of a memory; the same number again changes nothing else."""
        self.put({version_key(version.memory, version.number): version_payload(version)})

    def versions(self, memory: str) -> list[Version]:
        """The former texts of a memory, newest first."""
        found = map(version_of, self.owned(memory, "version").values())
        return sorted(found, key=lambda version: (version.replaced_at, version.number), reverse=True)

    def levels(self) -> Iterator[list[tuple[str, str]]]:
        """Whose each former text is and how sensitive, in batches; other calls may come between them."""
        for batch in self._engine.scroll(RECORDS, fields=("kind", "owner", "sensitivity")):
            payloads = [record.payload for record in batch if record.payload.get("kind") == "version"]
            yield [(payload["owner"], payload["sensitivity"]) for payload in payloads]


def owner_of(kind: str, *names: str) -> str:
    """The owner of records that belong to no memory, such as a scope's facts; no memory's id can look so."""
    return NO_MEMORY + "\0".join((kind, *names))


def record_key(owner: str, name: str) -> str:
    """The engine's id of a record: UUIDv5 of its name under its owner."""
    return str(uuid.uuid5(uuid.UUID(point_id(owner)), name))


def version_key(memory: str, number: int) -> str:
    """The engine's id of a former version."""
    return record_key(memory, f"version:{number}")


def version_payload(version: Version) -> Payload:
    """A former version as it is stored."""
    return {"kind": "version", "owner": version.memory, **version._asdict(), "tags": list(version.tags)}


def version_of(payload: Mapping[str, Any]) -> Version:
    """The former version in a payload."""
    known = {name: payload[name] for name in Version._fields if name in payload}
    return Version(**known | {"tags": tuple(payload.get("tags", ()))})


def _lies_in(payload: Mapping[str, Any], scope: str) -> bool:
    return payload.get("owner", "").startswith(NO_MEMORY) and "scope" in payload and covers(scope, payload["scope"])
