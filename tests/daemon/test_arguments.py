from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from daemon import arguments, verbs
from daemon.values import Inputs
from daemon.verbs import UsageError

VERBS = verbs.load()
NOON = 1_777_896_000.0  # 2026-05-04T12:00:00Z


def parse(*words: str, stdin: bytes = b"") -> dict[str, Any]:
    word, rest = arguments.split(words)
    assert word is not None
    return arguments.parse(verbs.find(VERBS, word), rest, Inputs(NOON, lambda: stdin))[0]


def refused(*words: str, stdin: bytes = b"") -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        parse(*words, stdin=stdin)
    return caught.value.detail, caught.value.hint


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (["remember", "I like tea"], {"content": "I like tea"}),
        (["remember", "--content", "I like tea"], {"content": "I like tea"}),
        (["remember", "x", "--tag", "a", "--tags=b"], {"content": "x", "tags": ["a", "b"]}),
        (["remember", "x", "--connect-to", "m1", "--connect_to", "m2"], {"content": "x", "connect_to": ["m1", "m2"]}),
        (["remember", "x", "--pinned"], {"content": "x", "pinned": True}),
        (["remember", "x", "--no-pinned"], {"content": "x", "pinned": False}),
        (["remember", "x", "--emotion", ".9"], {"content": "x", "emotion": 0.9}),
        (["recall", "nuts", "-k", "7"], {"query": "nuts", "k": 7}),
        (["recall", "nuts", "-k7", "--explain"], {"query": "nuts", "k": 7, "explain": True}),
        (["recall", "nuts", "--no-learn"], {"query": "nuts", "learn": False}),
        (["recall", "nuts", "--no-learn", "--learn"], {"query": "nuts", "learn": True}),
        (["recall", "--tier", "long", "nuts", "--tier", "core"], {"query": "nuts", "tier": ["long", "core"]}),
        (["recall", "nuts", "--weight", "recency=0"], {"query": "nuts", "weights": {"recency": 0}}),
        (["recall-multi", "a", "--k", "2", "b"], {"queries": ["a", "b"], "k": 2}),
        (["forget", "a", "--hard", "b"], {"ids": ["a", "b"], "hard": True}),
        (["forget", "--id", "a"], {"id": "a"}),
        (["forget", "--ids", "a", "b", "--hard"], {"ids": ["a", "b"], "hard": True}),
        (["update", "m1", "--tag", "x", "new words"], {"id": "m1", "tags": ["x"], "content": "new words"}),
        (["update", "m1", "--if-version", "3"], {"id": "m1", "if_version": 3}),
        (["connect", "a", "b", "--weight", "3"], {"a": "a", "b": "b", "weight": 3.0}),
        (["set_emotion", "m1", "0.5"], {"id": "m1", "emotion": 0.5}),
        (["run_job", "dream", "--dry_run"], {"name": "dream", "dry_run": True}),
        (["list"], {}),
    ],
)
def test_words_and_flags_become_params(words: list[str], params: dict[str, Any]) -> None:
    assert parse(*words) == params


@pytest.mark.parametrize(
    "text", ["-5", "-5 degrees in Oslo", "- buy milk", "-k is for kilo", "--- a rule ---", "", "line\nline", "今天"]
)
def test_a_text_may_look_nearly_like_a_flag(text: str) -> None:
    assert parse("remember", text) == {"content": text}


def test_after_two_dashes_every_word_is_a_text() -> None:
    assert parse("forget", "--hard", "--", "--json", "-x") == {"ids": ["--json", "-x"], "hard": True}


@pytest.mark.parametrize(
    ("word", "instant"),
    [
        ("now", "2026-05-04T12:00:00Z"),
        ("+30d", "2026-06-03T12:00:00Z"),
        ("-2h", "2026-05-04T10:00:00Z"),
        ("-1d12h", "2026-05-03T00:00:00Z"),
        ("+1.5h", "2026-05-04T13:30:00Z"),
        ("+1w", "2026-05-11T12:00:00Z"),
        ("-90s", "2026-05-04T11:58:30Z"),
        ("2026-05-04", "2026-05-04"),
        ("2026-05-04T09:30:00+02:00", "2026-05-04T09:30:00+02:00"),
    ],
)
def test_a_time_may_be_told_by_its_distance_from_now(word: str, instant: str) -> None:
    assert parse("remember", "x", "--event-at", word) == {"content": "x", "event_at": instant}


@pytest.mark.parametrize("word", ["+3", "-2x", "+", "-1h 2m", "+99999999999d"])
def test_a_distance_that_is_none_is_refused(word: str) -> None:
    detail, hint = refused("recall", "x", f"--since={word}")

    assert detail == f"SINCE cannot be {word!r}."
    assert hint


@pytest.mark.parametrize(
    ("words", "metadata"),
    [
        (['{"a": 1, "b": [null]}'], {"a": 1, "b": [None]}),
        (["a=1"], {"a": 1}),
        (["a=one"], {"a": "one"}),
        (["a=NaN"], {"a": "NaN"}),
        (['a="1"'], {"a": "1"}),
        (["a=b=c"], {"a": "b=c"}),
        (["a="], {"a": ""}),
        (["a=1", "b=true", '{"a": 2}'], {"a": 2, "b": True}),
    ],
)
def test_an_object_is_given_whole_or_member_by_member(words: list[str], metadata: dict[str, Any]) -> None:
    flags = [flag for word in words for flag in ("--metadata", word)]

    assert parse("remember", "x", *flags) == {"content": "x", "metadata": metadata}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("vim", "vim"), ("42", 42), ('"42"', "42"), ("null", None), ("-7", -7), ('{"a": [1, null]}', {"a": [1, None]}),
        ("NaN", "NaN"), ("{broken", "{broken"), ("", ""), ("a=b", "a=b"),
    ],
)  # fmt: skip
def test_a_value_is_any_json_and_what_is_none_is_a_text(word: str, value: Any) -> None:
    assert parse("fact_set", "k", word) == {"key": "k", "value": value}
    assert parse("fact_get", "k", "--default", word) == {"key": "k", "default": value}
    assert parse("fact_set", "k", "-", stdin=f"{word}\n".encode()) == {"key": "k", "value": value}


def test_a_dash_stands_for_standard_input() -> None:
    assert parse("remember", "-", stdin="zwei\nZeilen ☕\n".encode()) == {"content": "zwei\nZeilen ☕"}
    assert parse("remember", "x", "--context", "-", stdin=b"long") == {"content": "x", "context": "long"}
    assert parse("forget", "a", "-", stdin=b"b\nc\n") == {"ids": ["a", "b", "c"]}
    assert parse("remember_many", "-", stdin=b'{"content": "a"}\n\n{"content": "b"}') == {
        "items": [{"content": "a"}, {"content": "b"}]
    }


def test_a_file_of_json_lines_is_read(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text('{"content": "a\u2028b"}\n', encoding="utf-8")

    assert parse("remember_many", str(file)) == {"items": [{"content": "a\u2028b"}]}


@pytest.mark.parametrize(
    ("words", "detail", "hint"),
    [
        (["recal", "x"], "There is no verb 'recal'.", "Did you mean recall?"),
        (["nigth"], "There is no verb 'nigth'.", "Did you mean night?"),
        (["frobnicate"], "There is no verb 'frobnicate'.", "dreamctl --help"),
        (["recall", "x", "--explian"], "dreamctl recall has no flag --explian.", "Did you mean --explain?"),
        (["recall", "x", "-q"], "dreamctl recall has no flag -q.", "Put -- before a text that begins with a dash."),
        (["recall"], "QUERY is missing.", "Write: dreamctl recall QUERY [options]"),
        (["forget_where"], "SCOPE is missing.", "Write: dreamctl forget_where --scope SCOPE [options]"),
        (["undo", "a", "b"], "'b' is one word too many.", "Quote a text of several words: dreamctl undo RUN_ID [options]"),
        (["run_job", "draem"], "NAME cannot be 'draem'.", "Did you mean dream?"),
        (["list", "--tier", "7"], "TIER cannot be '7'.", "Choose from core, long, short."),
        (["list", "--limit", "many"], "LIMIT is a whole number, not 'many'.", "Write --limit 50"),
        (["list", "--limit", "1.5"], "LIMIT is a whole number, not '1.5'.", "Write --limit 50"),
        (["fading", "--days", "nan"], "DAYS is a number, not 'nan'.", "Write --days 7.0"),
        (["list", "--where", "{1}"], "WHERE is not a JSON object.", "Write --where KEY=VALUE or --where '{\"key\": 1}'"),
        (["list", "--where", "key"], "WHERE is not a JSON object.", "Write --where KEY=VALUE or --where '{\"key\": 1}'"),
        (["remember_many", "/no"], "Cannot read /no: No such file or directory.", "Name a file, or - for standard input."),
        (["list", "--timeout", "0"], "Argument --timeout: '0' is no number of seconds above 0.", "dreamctl list --help"),
        (["list", "--scope"], "Argument --scope: expected one argument.", "dreamctl list --help"),
        (["list", "--scope", "--json"], "Argument --scope: expected one argument.", "dreamctl list --help"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_told_what_is_wrong_and_what_to_write(words: list[str], detail: str, hint: str) -> None:
    assert refused(*words) == (detail, hint)


def test_bytes_that_are_no_utf_8_and_lines_that_are_no_objects_are_refused_by_their_place() -> None:
    assert refused("remember", "-", stdin=b"caf\xe9")[0] == "Standard input is not UTF-8 at byte 3."
    assert refused("remember_many", "-", stdin=b'{"content": "a"}\n[1]')[0] == "Line 2 of - is not a JSON object."


def test_the_options_of_every_verb_may_stand_before_and_behind_it() -> None:
    before, rest = arguments.split(["--socket", "recall", "--json", "list", "--timeout", "2.5"])
    assert before == "list"

    _, options = arguments.parse(VERBS["list"], rest, Inputs(NOON, bytes))

    assert (options.socket, options.json, options.timeout) == ("recall", True, 2.5)


def made(schema: dict[str, Any], positional: list[str] | None = None) -> verbs.Verb:
    """A verb with one param, read from a document as small as can be."""
    operation = {
        "operationId": "do", "tags": ["care"], "summary": "Do.", "x-writes": True, "x-streams": False,
        "x-positional": positional or [],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"entries": schema}}}}},
    }  # fmt: skip
    return verbs.load({"paths": {"/v1/do": {"post": operation}}})["do"]


def test_a_path_is_made_absolute_as_the_daemon_works_elsewhere() -> None:
    verb = made({"type": "string", "format": "path"}, ["entries"])

    params, _ = arguments.parse(verb, ["out.jsonl"], Inputs(NOON, bytes))

    assert params == {"entries": str(Path.cwd() / "out.jsonl")}


def test_many_are_given_by_the_singular_too() -> None:
    verb = made({"type": "array", "items": {"type": "number"}})

    params, _ = arguments.parse(verb, ["--entry", "1", "--entries", "2"], Inputs(NOON, bytes))

    assert params == {"entries": [1.0, 2.0]}


def test_a_shape_that_is_not_known_is_given_as_json() -> None:
    verb = made({"$ref": "#/components/schemas/Elsewhere"})

    assert arguments.parse(verb, ["--entries", '{"a": {"b": 1}}'], Inputs(NOON, bytes))[0] == {
        "entries": {"a": {"b": 1}}
    }


def test_the_help_of_a_verb_names_its_params_their_choices_and_their_defaults() -> None:
    shown = " ".join(arguments.parser_of(VERBS["recall"]).format_help().split())

    assert shown.startswith("usage: dreamctl recall QUERY [options] Find the memories that answer a question.")
    assert re.search(r"-k( N)?, --k N How many hits. \(default: 5\)", shown)
    assert "--tier {core,long,short} Of this retention class. (repeatable)" in shown
    assert "--no-learn Without it: Count as access" in shown
    assert "--learn " not in shown.replace("--no-learn", "")
    assert "hebbian, dedup, dream" in " ".join(arguments.parser_of(VERBS["run_job"]).format_help().split())


def test_the_overview_names_every_verb_once_with_a_line() -> None:
    lines = [line.split() for line in arguments.overview(VERBS).splitlines() if line.startswith("  ")]
    first = [words[0] for words in lines]

    assert all(first.count(name) == 1 for name in [*VERBS, *verbs.ALIASES, *verbs.LOCAL])
    assert all(len(line) <= 80 for line in arguments.overview(VERBS).splitlines() if line.startswith("  "))
