"""The verbs of `dreamctl`: every method of the committed OpenAPI document, and what each may be given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["text", "number", "integer", "switch", "time", "path", "object", "lines", "json"]

#: Other names of a verb, and what each stands for.
ALIASES: Final = {"run": ("run_job",), "night": ("run_job", "night")}
#: Verbs that are no methods: `dreamctl` answers them alone.
LOCAL: Final = {"completion": "Print the completion script of a shell.", "help": "Show what a verb takes."}

_DOCUMENT: Final = Path(__file__).with_name("openapi.json")
_KINDS: Final[Mapping[str, Kind]] = {"number": "number", "integer": "integer", "boolean": "switch", "object": "object"}
_FORMATS: Final[Mapping[str, Kind]] = {"date-time": "time", "path": "path"}
_LAST: Final = ("scope", "clearance", "request_id")  # what many verbs share stands last in their help


class UsageError(Exception):
    """The command line is wrong and nothing was sent: `detail` says what, `hint` what to write instead."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint


class Param(NamedTuple):
    """What a verb may be given; `lines` is a file of JSON lines, `repeats` says that several values make a list.

    What is not `sent` is for `dreamctl` itself.
    """

    name: str
    kind: Kind
    about: str
    choices: tuple[str, ...]
    default: Any
    required: bool
    repeats: bool
    flags: tuple[str, ...]
    sent: bool = True

    @property
    def opposite(self) -> str:
        """The flag that switches it off."""
        return f"--no-{self.flags[-1].removeprefix('--')}"

    @property
    def offered(self) -> tuple[str, ...]:
        """The long flags worth showing: of a switch, those that change what it is by default."""
        on = tuple(flag for flag in self.flags if flag.startswith("--"))
        if self.kind != "switch":
            return on
        return (on if self.default is not True else ()) + ((self.opposite,) if self.default is not False else ())


class Verb(NamedTuple):
    """A method as a command; `positional` names the params that need no flag, in their order.

    A call of one that `leaves` ends in the daemon, too, when it is interrupted.
    """

    name: str
    group: str
    about: str
    writes: bool
    streams: bool
    positional: tuple[str, ...]
    params: Mapping[str, Param]
    leaves: bool = False


#: What `dreamctl` does with a result beside showing it.
OWN: Final[Mapping[str, Sequence[Param]]] = {
    "simulate": [
        Param("plot", "path", "Draw it into this file too: .png, .svg or .pdf.", (), None, False, False, ("--plot",), sent=False)
    ]
}  # fmt: skip


def load(document: Mapping[str, Any] | None = None) -> dict[str, Verb]:
    """Every verb by its name, in the document's order; without one, in that of the document committed beside this file."""
    if document is None:
        document = json.loads(_DOCUMENT.read_bytes())
    operations = [path["post"] for path in document["paths"].values()]
    return {operation["operationId"]: _verb(operation) for operation in operations}


def find(verbs: Mapping[str, Verb], word: str) -> Verb:
    """The verb that a word means, spelt with dashes or underscores. Raises UsageError with the nearest one."""
    name = word.replace("-", "_")
    if name not in verbs:
        raise UsageError(f"There is no verb {word!r}.", nearest(name, [*verbs, *ALIASES, *LOCAL]) or "dreamctl --help")
    return verbs[name]


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most like this one, or nothing."""
    import difflib  # only a slip needs it

    near = difflib.get_close_matches(word, list(known), 1, cutoff=0.7)
    return f"Did you mean {near[0]}?" if near else ""


def _verb(operation: Mapping[str, Any]) -> Verb:
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    schemas: Mapping[str, Any] = body.get("properties", {})
    required = body.get("required", ())
    params = {name: _param(name, schema, name in required, schemas) for name, schema in schemas.items()}
    files = (param.name for param in params.values() if param.kind == "lines" and param.required)
    positional = tuple(operation["x-positional"] or files)
    params |= {param.name: param for param in OWN.get(operation["operationId"], ())}
    order = [*positional, *(name for name in params if name not in (*positional, *_LAST)), *_LAST]
    return Verb(
        operation["operationId"], operation["tags"][0], operation["summary"], operation["x-writes"], operation["x-streams"],
        positional, {name: params[name] for name in order if name in params}, operation.get("x-leaves", False),
    )  # fmt: skip


def _param(name: str, schema: Mapping[str, Any], required: bool, siblings: Iterable[str]) -> Param:
    shapes = [shape for shape in schema.get("anyOf", [schema]) if shape.get("type") != "null"]
    lists = [shape for shape in shapes if shape.get("type") == "array"]
    items = lists[0].get("items", {}) if lists else shapes[0]
    kind = _FORMATS.get(items.get("format", "")) or _KINDS.get(items.get("type", "object"), "text")
    if lists and kind == "object":
        kind = "lines"
    if not schema.keys() & {"type", "anyOf", "$ref"}:
        kind = "json"
    return Param(
        name, kind, about=schema.get("description") or items.get("description", ""), choices=tuple(items.get("enum", ())),
        default=schema.get("default"), required=required, repeats=bool(lists) and kind != "lines",
        flags=_flags(name, bool(lists) or kind == "object", siblings),
    )  # fmt: skip


def _flags(name: str, many: bool, siblings: Iterable[str]) -> tuple[str, ...]:
    """The flags of a param: its name, one letter with one dash too, and its singular where it takes many."""
    names = [name]
    singular = name.removesuffix("ies") + "y" if name.endswith("ies") else name.removesuffix("s")
    if many and singular not in (name, *siblings):
        names.insert(0, singular)
    short = [f"-{name}"] if len(name) == 1 else []
    return (*short, *(f"--{one.replace('_', '-')}" for one in names))
