"""Methods for memories with a form: facts as subject, predicate and object, and procedures as steps."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pydantic import Field

from daemon.methods.embedding import size_of
from daemon.methods.write import NewOptions, Remembered, remembered, stored
from daemon.parts import Parts
from daemon.wire import Method, Type
from storage import statements
from storage.embed import BATCH_BYTES
from storage.memories import Vectors
from storage.remember import Write, Writer, Written

MAX_STEPS: Final = 256


class FactParams(NewOptions):
    """A fact: what the object of a subject's predicate is."""

    subject: str = Field(description="What it is about, such as Ada.")
    predicate: str = Field(description="What is said of it, such as lives in.")
    object: str = Field(description="And what that is, such as Rome.")
    type: Type | None = Field(default=None, description="semantic (default), episodic, procedural or active.")
    subtype: str | None = Field(default=None, description="A finer type of your own; default fact.")
    functional: bool = Field(
        default=False, description="There is one object at a time: what this scope said of it before is superseded."
    )


class ProcedureParams(NewOptions):
    """A procedure: how something is done."""

    name: str = Field(description="What it is called; without an id, the same name again edits it.")
    trigger: str = Field(description="When it is to be used.")
    steps: list[str] = Field(min_length=1, max_length=MAX_STEPS, description="What to do, in order.")
    type: Type | None = Field(default=None, description="procedural (default), semantic, episodic or active.")
    subtype: str | None = Field(default=None, description="A finer type of your own; default procedure.")


class RememberedFact(Remembered):
    """What `remember_fact` did, and whose place it took."""

    superseded: list[str]


async def remember_fact(parts: Parts, params: FactParams) -> RememberedFact:
    """Keep a fact."""
    admit = partial(
        statements.fact, parts.gate, params.given(), params.subject, params.predicate, params.object,
        functional=params.functional,
    )  # fmt: skip
    kept = await parts.embedding.run(admit, urgent=_is_short(params))
    written = await stored(parts, kept, params.clearance, partial(_fact, parts, parts.clock.new_id()))
    parts.meter.count_forgotten("superseded", len(written.superseded))
    return {**remembered(parts, written, kept.redactions), "superseded": list(written.superseded)}


async def remember_procedure(parts: Parts, params: ProcedureParams) -> Remembered:
    """Keep a procedure."""
    admit = partial(statements.procedure, parts.gate, params.given(), params.name, params.trigger, params.steps)
    kept = await parts.embedding.run(admit, urgent=_is_short(params))
    written = await stored(parts, kept, params.clearance, partial(_procedure, parts, parts.clock.new_id()))
    return remembered(parts, written, kept.redactions)


def _is_short(params: Any) -> bool:
    return size_of(params.model_dump()) <= BATCH_BYTES


def _fact(parts: Parts, new_id: str, _: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
    return statements.remember_fact(parts.stores, write, vectors, now, new_id)


def _procedure(parts: Parts, new_id: str, _: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
    return statements.remember_procedure(parts.stores, write, vectors, now, new_id)


METHODS: Final = (
    Method(
        "remember_fact", "facts", FactParams, RememberedFact, remember_fact, True,
        "Remember a fact as subject, predicate and object.", ("subject", "predicate", "object"),
    ),
    Method(
        "remember_procedure", "facts", ProcedureParams, Remembered, remember_procedure, True,
        "Remember how something is done, step by step.", ("name", "trigger", "steps"),
    ),
)  # fmt: skip
