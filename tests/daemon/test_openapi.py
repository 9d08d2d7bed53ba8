from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from daemon import __version__, openapi, verbs
from daemon.arguments import parser_of
from daemon.methods import METHODS

DOCUMENT = json.loads(openapi.FILE.read_text(encoding="utf-8"))
OPERATIONS = {path: item["post"] for path, item in DOCUMENT["paths"].items()}
VERBS = verbs.load()


def references(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                if key == "$ref":
                    yield item
                yield from references(item)
        case list():
            for item in value:
                yield from references(item)


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema, itself included."""
    yield value
    for item in value.get("properties", {}).values():
        yield from schemas(item)
    for item in value.get("anyOf", []):
        yield from schemas(item)
    for name in ("items", "additionalProperties"):
        if isinstance(value.get(name), dict):
            yield from schemas(value[name])


def body(operation: dict[str, Any]) -> dict[str, Any]:
    return operation["requestBody"]["content"]["application/json"]["schema"]


def test_the_committed_document_is_what_the_methods_make() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.text(), (
        "stale: run `make openapi` and commit the outcome"
    )


def test_it_is_an_openapi_3_1_document() -> None:
    assert DOCUMENT.keys() <= {"openapi", "info", "servers", "paths", "components"}
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["title"] == "dreamd"
    assert DOCUMENT["info"]["version"] == __version__
    assert [operation["operationId"] for operation in OPERATIONS.values()] == list(METHODS)


@pytest.mark.parametrize("path", OPERATIONS)
def test_each_operation_is_whole(path: str) -> None:
    operation = OPERATIONS[path]

    assert DOCUMENT["paths"][path].keys() == {"post"}
    assert path == f"/v1/{operation['operationId']}"
    assert len(operation["tags"]) == 1
    assert operation["summary"].endswith(".")
    assert body(operation)["type"] == "object"
    assert body(operation)["additionalProperties"] is False
    assert set(body(operation).get("required", ())) <= body(operation).get("properties", {}).keys()
    assert operation["responses"].keys() == {"200", "default"}
    assert all(answer["description"] and answer["content"] for answer in operation["responses"].values())


@pytest.mark.parametrize("path", OPERATIONS)
def test_what_the_command_line_adds_is_there_and_names_params(path: str) -> None:
    operation = OPERATIONS[path]

    assert isinstance(operation["x-writes"], bool)
    assert isinstance(operation["x-streams"], bool)
    assert set(operation["x-positional"]) <= body(operation).get("properties", {}).keys()
    assert operation.get("x-leaves", True) is True


def test_every_reference_leads_to_a_schema_and_every_schema_is_referred_to() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}

    assert set(references(DOCUMENT)) == known


def test_every_schema_says_what_it_takes() -> None:
    roots = [body(operation) for operation in OPERATIONS.values()]
    roots += [
        operation["responses"]["200"]["content"]["application/json"]["schema"] for operation in OPERATIONS.values()
    ]
    roots += DOCUMENT["components"]["schemas"].values()
    known = {"object", "array", "string", "number", "integer", "boolean", "null"}
    every = [schema for root in roots for schema in schemas(root)]
    anything = {"title", "description", "default"}  # a schema of no more than these allows any value

    assert [one for one in every if not one.keys() & {"type", "anyOf", "$ref"} and one.keys() - anything] == []
    assert {one["type"] for one in every if "type" in one} <= known


@pytest.mark.parametrize("name", VERBS)
def test_each_method_is_a_verb_whose_params_are_told_apart_by_their_flags(name: str) -> None:
    verb = VERBS[name]
    flags = [flag for param in verb.params.values() for flag in (*param.flags, param.opposite)]

    sent = {param.name for param in verb.params.values() if param.sent}
    assert sent == body(OPERATIONS[f"/v1/{name}"]).get("properties", {}).keys()
    assert len(flags) == len(set(flags))
    assert parser_of(verb).format_help().startswith(f"usage: dreamctl {name} ")


def test_no_method_has_the_name_of_a_word_which_dreamctl_keeps_for_itself() -> None:
    assert VERBS.keys().isdisjoint({*verbs.ALIASES, *verbs.LOCAL})
    assert {words[0] for words in verbs.ALIASES.values()} <= VERBS.keys()


def test_only_the_last_positional_param_takes_several_words() -> None:
    greedy = {verb.name: [verb.params[name].repeats for name in verb.positional] for verb in VERBS.values()}

    assert all(not any(repeats[:-1]) for repeats in greedy.values())
