"""Memories with a form: a fact says what the object of a subject's predicate is, a procedure how something is done.

They are memories as all others are, found by their words; their parts are in their metadata, found by `where`. The parts
are masked as the whole text would be, for a predicate may tell that its object is a secret.
`fact` and `procedure` are pure; the others are called in the lane.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from storage.errors import Invalid
from storage.gate import Admitted, Gate
from storage.memories import Vectors
from storage.model import DEFAULT_SCOPE, SENSITIVITIES, Memory
from storage.redact import MASK
from storage.remember import Write, Written
from storage.store import Stores
from storage.where import Where

FACT: Final = {"type": "semantic", "subtype": "fact"}
PROCEDURE: Final = {"type": "procedural", "subtype": "procedure"}


def fact(
    gate: Gate, options: Mapping[str, Any], subject: str, predicate: str, object_: str, *, functional: bool
) -> Admitted:
    """The write of a fact as it may be kept; `options` are other fields of the memory. Raises Invalid or TooLarge."""
    told = gate.admit({"told": [
        ("subject", subject.strip()), ("", " "), ("predicate", predicate.strip()), ("", " "), ("object", object_.strip()),
    ]})  # fmt: skip
    subject, _, predicate, _, object_ = told.fields["told"]
    parts = {"subject": subject, "predicate": predicate, "object": object_, "functional": functional}
    return _admitted(gate, options, told, parts)


def procedure(gate: Gate, options: Mapping[str, Any], name: str, trigger: str, steps: Sequence[str]) -> Admitted:
    """The write of a procedure as it may be kept: its name, when it is for, and its steps by number. Raises as `fact`."""
    numbered = [
        part for number, step in enumerate(steps, 1) for part in (("", f"\n{number}. "), ("steps", step.strip()))
    ]
    told = gate.admit({"told": [("name", name.strip()), ("", "\nWhen: "), ("trigger", trigger.strip()), *numbered]})
    name, _, trigger, *rest = told.fields["told"]
    return _admitted(gate, options, told, {"name": name, "trigger": trigger, "steps": rest[1::2]})


def remember_fact(stores: Stores, write: Write, vectors: Vectors | None, now: float, new_id: str) -> Written:
    """Keep a fact; of a functional one the other memories of this scope that name another object are superseded by it.

    What takes their place is as sensitive as they are, unless the caller said how sensitive it is. Those above the
    caller's clearance stay as they are. Raises as `Writer.remember`.
    """
    others = list(_rivals(stores, write, now)) if write.fields["metadata"]["functional"] else []
    if "sensitivity" not in write.fields:
        levels = [row.sensitivity for row in others] + [write.fields.get("sensitivity_floor", SENSITIVITIES[0])]
        write = _with(write, sensitivity_floor=max(levels, key=SENSITIVITIES.index))
    written = _kept(stores, write, FACT, vectors, now, new_id)
    kept = written.memory.id
    gone = {row.id: {"invalid_at": now, "superseded_by": kept} for row in others if row.id != kept}
    stores.memories.move(gone)
    return written._replace(superseded=tuple(gone))


def remember_procedure(stores: Stores, write: Write, vectors: Vectors | None, now: float, new_id: str) -> Written:
    """Keep a procedure; without an id, one of the same name in this scope is edited. Raises as `Writer.remember`."""
    known = None if "id" in write.fields else _namesake(stores, write, now)
    return _kept(stores, write if known is None else _with(write, id=known.id), PROCEDURE, vectors, now, new_id)


def _admitted(gate: Gate, options: Mapping[str, Any], told: Admitted, parts: dict[str, Any]) -> Admitted:
    """The whole write through the gate: the text, its parts beside the caller's own metadata, and the options."""
    own = options.get("metadata") or {}
    for name in parts:
        if name in own:
            raise Invalid(
                f"metadata has a key {name!r}, which is one of the parts: {', '.join(parts)}.",
                hint="Choose another key.", field="metadata",
            )  # fmt: skip
    admitted = gate.admit({**options, "content": "".join(told.fields["told"]), "metadata": {**own, **parts}})
    floors = [one.fields["sensitivity_floor"] for one in (told, admitted) if "sensitivity_floor" in one.fields]
    floor = {"sensitivity_floor": max(floors, key=SENSITIVITIES.index)} if floors else {}
    hits = {
        kind: told.redactions.get(kind, 0) + admitted.redactions.get(kind, 0)
        for kind in told.redactions | admitted.redactions
    }
    return Admitted(admitted.fields | floor, hits)


def _with(write: Write, defaults: Mapping[str, Any] = {}, **fields: Any) -> Write:
    """The write with these fields, and with the defaults of what it does not say."""
    return write._replace(fields={**defaults, **write.fields, **fields})


def _kept(
    stores: Stores, write: Write, form: Mapping[str, str], vectors: Vectors | None, now: float, new_id: str
) -> Written:
    """Store a write of this form; a memory that has its id or its text says the parts from now on."""
    row = stores.catalogue.get(write.fields.get("id", ""))
    if row is not None:
        labels = _labels(row, write, form)
        return stores.writer.remember(_with(write, labels, metadata=labels["metadata"]), vectors, now, new_id)
    written = stores.writer.remember(_with(write, form), vectors, now, new_id)
    if written.created:
        return written
    memory = written.memory
    edited = stores.writer.update(memory.id, Write(_labels(memory, write, form), {}, write.clearance), None, now)
    return written._replace(memory=edited.memory, changed=written.changed | edited.changed)


def _labels(memory: Memory, write: Write, form: Mapping[str, str]) -> dict[str, Any]:
    """What makes a memory say the parts of a write beside what it says already: it may have been remembered as plain text."""
    metadata = memory.metadata | write.fields["metadata"]
    if memory.metadata.get("functional") is True:
        metadata["functional"] = True
    return {"metadata": metadata, "subtype": memory.subtype or form["subtype"]}


def _rivals(stores: Stores, write: Write, now: float) -> Iterator[Memory]:
    """The live memories of exactly this scope that say another object of the same subject and predicate.

    A part that was masked names nothing: two secrets look alike.
    """
    parts = write.fields["metadata"]
    if MASK in parts["subject"] or MASK in parts["predicate"]:
        return
    subject, predicate, object_ = (_folded(parts[name]) for name in ("subject", "predicate", "object"))
    for row in _here(stores, write, now, "subject"):
        theirs = [_folded(row.metadata.get(name)) for name in ("subject", "predicate", "object")]
        if theirs[:2] == [subject, predicate] and theirs[2] not in (object_, ""):
            yield row


def _namesake(stores: Stores, write: Write, now: float) -> Memory | None:
    """The oldest live procedure of exactly this scope that has this name."""
    name = _folded(write.fields["metadata"]["name"])
    same = (
        row
        for row in _here(stores, write, now, "name")
        if isinstance(row.metadata.get("steps"), list) and _folded(row.metadata.get("name")) == name
    )
    return min(same, key=lambda row: (row.created_at, row.id), default=None)


def _here(stores: Stores, write: Write, now: float, part: str) -> Iterator[Memory]:
    """The live memories of exactly this scope that have such a part, as the caller sees them."""
    where = Where(now=now, clearance=write.clearance)
    catalogue = stores.catalogue
    rows = (catalogue.get(one) for one in catalogue.scope(write.fields.get("scope", DEFAULT_SCOPE)).live)
    return (row for row in rows if row is not None and part in row.metadata and where.admits(row))


def _folded(text: Any) -> str:
    """A part as it is compared: without regard to case."""
    return unicodedata.normalize("NFC", text.casefold()) if isinstance(text, str) else ""
