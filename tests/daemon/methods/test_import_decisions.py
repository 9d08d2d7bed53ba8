"""What an import stores, keeps as it is here, skips or refuses, and that it tells of each."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.methods.asking import refused
from tests.daemon.methods.exchanging import everything, exports, lines, saved, streamed, undated
from tests.harness import BY_HAND, Daemon

SECRET = "sk-ant-" + "a1b2c3d4" * 5


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return exports(tmp_path_factory.mktemp("exports"))


@pytest.fixture
def target(daemons) -> Daemon:
    return daemons(options=BY_HAND).start()


def test_one_bad_line_among_thousands_is_told_and_the_others_are_stored(target, tmp_path) -> None:
    records: list[dict[str, Any] | str] = [{"content": f"note number {n}", "id": f"m{n}"} for n in range(2_000)]
    records[77] = '{"content": "the secret plan'
    records[1_500] = {"content": "the secret plan", "importance": "high"}
    result = target.call("import", path=saved(tmp_path / "a", *records))

    assert result["imported"] == target.call("stats")["total"] == 1_998
    assert [one["place"] for one in result["failed"]] == ["line 78", "line 1501"]
    assert result["failed"][1]["detail"] == "importance: it is no number"
    assert "plan" not in json.dumps(result)
    (run,) = target.call("runs", job="import")["runs"]
    assert {name: run["counts"][name] for name in ("memory", "skipped", "failed", "conflicts")} == {
        "memory": 1_998, "skipped": 0, "failed": 2, "conflicts": 0,
    }  # fmt: skip
    assert "plan" not in json.dumps(run)


def test_of_very_many_failures_a_hundred_are_listed_and_all_are_counted(target, tmp_path) -> None:
    target.call("remember_many", items=[{"content": f"ours {n}", "id": f"m{n}"} for n in range(150)])
    theirs = [{"content": f"theirs {n}", "id": f"m{n}"} for n in range(150)]
    result = target.call("import", path=saved(tmp_path / "a", *theirs, *("oops" for _ in range(130))))

    assert (len(result["conflicts"]), result["conflicts_total"]) == (100, 150)
    assert (len(result["failed"]), result["failed_total"]) == (100, 130)
    assert target.call("get", id="m149")["content"] == "ours 149"


@pytest.mark.parametrize("spoil", [
    lambda text: text[:-100],
    lambda text: text.replace('"format_version":1', '"format_version":7'),
    lambda text: "\n".join(text.split("\n")[:-2]) + "\n",
    lambda text: "",
])  # fmt: skip
def test_a_file_that_is_cut_newer_or_empty_is_refused_before_anything_is_written(
    source, target, tmp_path, spoil
) -> None:
    before = everything(target)
    (tmp_path / "a").write_text(spoil((source / "jsonl").read_text()))
    error = refused(target, "invalid", "import", path=str(tmp_path / "a"))

    assert error.extra["field"] == "path"
    assert everything(target) == before
    assert {run["outcome"] for run in target.call("runs")["runs"]} <= {"failed"}


def test_paths_at_which_there_is_nothing_to_read_are_refused(target, tmp_path) -> None:
    refused(target, "not_found", "import", path=str(tmp_path / "none"))
    refused(target, "invalid", "import", path=str(tmp_path))
    refused(target, "invalid", "import", path="relative.jsonl")
    refused(target, "invalid", "import", path=str(tmp_path), format="xml")
    assert target.call("runs")["runs"] == []


def test_b11_kinds_and_fields_of_a_later_version_are_counted_and_named(target, tmp_path) -> None:
    path = saved(
        tmp_path / "a",
        {"kind": "photo", "a": 1}, {"kind": "photo"}, {"kind": "dream log!"},
        {"kind": "memory", "id": "a", "content": "x", "mood": "sunny"}, {"kind": "memory", "id": "b", "content": "y"},
        {"kind": "edge", "a": "a", "b": "b", "weight": 1, "colour": "red"},
    )  # fmt: skip
    result = target.call("import", path=path)

    assert result["unknown"] == {"photo": 2, "other": 1, "edge.colour": 1}
    assert result["counts"] == {"memory": 2, "edge": 1}
    assert target.call("get", id="a")["metadata"] == {"mood": "sunny"}


def test_c8_a_secret_in_a_file_is_masked_wherever_it_stands(target, tmp_path) -> None:
    path = saved(
        tmp_path / "a",
        {"kind": "memory", "id": "a", "content": f"key {SECRET}", "sensitivity": "public", "metadata": {"k": SECRET}},
        {"kind": "memory", "id": "b", "content": "b", "version": 2, "entities": [SECRET], "tags": [SECRET]},
        {"kind": "version", "memory": "b", "number": 1, "content": SECRET},
        {"kind": "edge", "a": "a", "b": "b", "weight": 1, "label": SECRET},
        {"kind": "comment", "memory": "a", "content": SECRET},
        {"kind": "fact", "key": "k", "value": [SECRET]},
        {"kind": "turn", "session": "s", "content": SECRET},
        {"kind": "session_state", "text": SECRET},
    )  # fmt: skip
    result = target.call("import", path=path)
    target.call("export", path=str(tmp_path / "b"))

    assert result["failed"] == []
    assert sum(result["redactions"].values()) >= 9
    assert SECRET not in (tmp_path / "b").read_text()
    assert {one["sensitivity"] for one in lines(tmp_path / "b")[1:] if "sensitivity" in one} == {"confidential"}
    assert target.call("get", id="a")["redactions"] == {"anthropic_key": 2}


def test_c17_times_are_utc_whatever_zone_they_are_told_in_and_absurd_ones_are_refused(target, tmp_path) -> None:
    path = saved(
        tmp_path / "a",
        {"id": "naive", "content": "a", "created_at": "2026-03-29T02:30:00"},  # an hour that Berlin skipped
        {"id": "zoned", "content": "b", "created_at": "2026-03-29T04:30:00+02:00"},
        {"id": "day", "content": "c", "created_at": "2026-03-29", "expires_at": "9999-12-31"},
        {"id": "no1", "content": "d", "created_at": "2026-13-01T00:00:00Z"},
        {"id": "no2", "content": "e", "event_at": "99999-01-01T00:00:00Z"},
        {"id": "no3", "content": "f", "expires_at": True},
    )
    result = target.call("import", path=path)

    assert [one["place"] for one in result["failed"]] == ["line 4", "line 5", "line 6"]
    assert target.call("get", id="naive")["created_at"] == "2026-03-29T02:30:00Z"
    assert target.call("get", id="zoned")["created_at"] == "2026-03-29T02:30:00Z"
    assert target.call("get", id="day")["created_at"] == "2026-03-29T00:00:00Z"


def test_ours_is_kept_where_the_same_id_says_something_else_or_lies_elsewhere(target, tmp_path) -> None:
    target.remember("ours", id="m", scope="home")
    target.remember("also ours", id="n", scope="home")
    before = everything(target)
    path = saved(
        tmp_path / "a", {"id": "m", "content": "theirs", "scope": "home"}, {"id": "n", "content": "also ours", "scope": "away"},
        {"id": "m", "content": "ours", "scope": "home", "importance": 1.0},
    )  # fmt: skip
    result = target.call("import", path=path)

    assert result["conflicts"] == [{"id": "m", "place": "line 1"}, {"id": "n", "place": "line 2"}]
    assert (result["imported"], result["skipped"], result["conflicts_total"]) == (0, 1, 2)
    assert everything(target) == before


def test_what_lies_above_the_callers_clearance_is_neither_told_nor_changed(target, tmp_path) -> None:
    target.remember("hush", id="m", sensitivity="secret")
    path = saved(tmp_path / "a", {"id": "m", "content": "hush"}, {"kind": "comment", "memory": "m", "content": "hm"})
    result = target.call("import", path=path, clearance="personal")

    assert (result["imported"], result["skipped"], result["conflicts"]) == (0, 0, [])
    assert [one["detail"] for one in result["failed"]] == [
        "its id is not free",
        "it belongs to a memory that is not here",
    ]
    assert target.call("comments", id="m")["comments"] == []


def test_the_same_words_twice_are_one_memory_unless_each_has_an_id(target, tmp_path) -> None:
    known = target.remember("known")
    path = saved(
        tmp_path / "a", {"content": "known"}, {"content": "new"}, {"content": "new"}, {"id": "own", "content": "new"}
    )
    result = target.call("import", path=path)

    assert (result["imported"], result["skipped"]) == (2, 2)
    assert {one["content"] for one in target.call("list")["memories"]} == {"known", "new"}
    assert target.call("get", id="own")["content"] == "new"
    assert target.call("get", id=known)["provenance"] == "direct"


def test_what_nobody_marked_gets_our_defaults(target, tmp_path) -> None:
    (told,) = target.call("import", path=saved(tmp_path / "a", {"content": "Where does Ada live?"}))["counts"].items()
    (memory,) = target.call("list")["memories"]

    assert told == ("memory", 1)
    assert {name: memory[name] for name in ("scope", "type", "tier", "heat", "source", "provenance", "sensitivity")} == {
        "scope": "default", "type": "semantic", "tier": "short", "heat": "warm", "source": "stated", "provenance": "import",
        "sensitivity": "personal",
    }  # fmt: skip
    assert memory["entities"] == ["Ada"]
    assert memory["created_at"] == memory["updated_at"] == "2026-01-01T00:00:00Z"


def test_edges_versions_and_comments_without_their_memory_are_told(target, tmp_path) -> None:
    target.remember("a", id="a")
    target.remember("b", id="b", scope="away")
    path = saved(
        tmp_path / "a",
        {"kind": "edge", "a": "a", "b": "nobody", "weight": 1}, {"kind": "edge", "a": "a", "b": "b", "weight": 1},
        {"kind": "version", "memory": "nobody", "number": 1, "content": "x"},
        {"kind": "version", "memory": "a", "number": 1, "content": "x"}, {"kind": "comment", "memory": "nobody", "content": "x"},
    )  # fmt: skip
    result = target.call("import", path=path)

    assert [one["detail"] for one in result["failed"]] == [
        "it belongs to a memory that is not here", "number: the memory itself is version 1",
        "it leads to a memory that is not here", "its ends lie in different scopes", "it belongs to a memory that is not here",
    ]  # fmt: skip
    assert result["counts"] == {}


def test_records_may_stand_in_any_order(source, target, tmp_path) -> None:
    header, *records = (source / "jsonl").read_text().split("\n")[:-1]
    result = target.call("import", path=saved(tmp_path / "a", header, *reversed(records)))
    target.call("export", path=str(tmp_path / "b"))

    assert result["failed"] == []
    assert undated(tmp_path / "b") == undated(source / "jsonl")


def test_a_successor_that_is_not_here_is_not_named(target, tmp_path) -> None:
    at = "2026-01-01T00:00:00Z"
    path = saved(
        tmp_path / "a", {"id": "a", "content": "a", "invalid_at": at, "superseded_by": "nobody"},
        {"id": "b", "content": "b", "invalid_at": at, "superseded_by": "c"}, {"id": "c", "content": "c"},
        {"id": "d", "content": "d", "invalid_at": at, "superseded_by": "e"}, {"id": "e", "content": "e", "scope": "away"},
    )  # fmt: skip
    target.call("import", path=path)

    assert [target.call("get", id=one)["superseded_by"] for one in "abd"] == [None, "c", None]


def test_memories_of_a_session_follow_each_other_where_the_file_tells_no_edges(target, tmp_path) -> None:
    """Other systems have sessions without edges; one that went between two that are here parts them."""
    target.remember("first", id="m1", session="s")
    target.clock.advance(10)
    target.remember("third", id="m3", session="s")
    at = "2026-01-01T00:00:05Z"
    path = saved(
        tmp_path / "a", {"id": "m2", "content": "second", "session": "s", "created_at": at},
        {"id": "m4", "content": "fourth", "session": "s"}, {"id": "n", "content": "elsewhere", "session": "t"},
        {"id": "o", "content": "in the bin", "session": "s", "created_at": at, "forgotten_at": at},
    )  # fmt: skip
    run = target.call("import", path=path)["run_id"]

    def chain() -> list[tuple[str, str]]:
        edges = target.in_lane(lambda: [edge for _, edge in target.stores.synapses.every()])
        return sorted((edge.a, edge.b) for edge in edges if edge.kind == "next")

    assert chain() == [("m1", "m2"), ("m2", "m3"), ("m3", "m4")]
    target.call("undo", run_id=run)
    assert chain() == [("m1", "m3")]


def test_the_format_may_be_named_and_text_is_a_memory_a_paragraph(target, tmp_path) -> None:
    (tmp_path / "notes").write_text("Ada keeps bees.\nThree hives.\n\nAda knits.\n")
    refused(target, "invalid", "import", path=str(tmp_path / "notes"))
    result = target.call("import", path=str(tmp_path / "notes"), format="text")

    assert (result["format"], result["imported"]) == ("text", 2)
    listed = target.call("list")["memories"]
    assert {one["content"] for one in listed} == {"Ada keeps bees.\nThree hives.", "Ada knits."}
    assert len({one["created_at"] for one in listed}) == 2


@pytest.mark.parametrize("lists", [{"results": [{"id": "m", "memory": "x", "user_id": "u"}]}])
def test_other_systems_are_read_too(target, tmp_path, lists) -> None:
    (tmp_path / "a").write_text(json.dumps(lists))

    assert target.call("import", path=str(tmp_path / "a"))["format"] == "mem0"
    assert target.call("get", id="m")["scope"] == "u"


def test_progress_is_told_in_two_parts(target, tmp_path) -> None:
    told: list[dict[str, Any]] = []
    path = saved(tmp_path / "a", *({"content": f"note {n}"} for n in range(100)))
    result = streamed(target, "import", told.append, path=path)

    assert {(one["job"], one["run_id"]) for one in told} == {("import", result["run_id"])}
    assert [one["done"] for one in told if not one["total"]] == [32, 64, 96]
    assert [(one["done"], one["total"]) for one in told if one["total"]] == [
        (32, 100),
        (64, 100),
        (96, 100),
        (100, 100),
    ]


def nested(levels: int) -> str:
    """A JSON value so deep."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [100, 600, 900, 5_000])
def test_a_line_that_is_nested_too_deeply_is_skipped_and_the_others_are_stored(target, tmp_path, levels) -> None:
    deep = nested(levels)
    path = saved(
        tmp_path / "a", '{"content": "a", "id": "a"}', f'{{"content": "b", "metadata": {{"k": {deep}}}}}',
        f'{{"content": "c", "mood": {deep}}}', f'{{"kind": "turn", "session": "s", "content": "d", "mood": {deep}}}',
        f'{{"kind": "fact", "key": "k", "value": {deep}}}', '{"content": "z", "id": "z"}',
    )  # fmt: skip
    result = target.call("import", path=path)

    assert result["imported"] == 2
    assert [one["place"] for one in result["failed"]] == [f"line {number}" for number in (2, 3, 4, 5)]
    assert all("nested" in one["detail"] for one in result["failed"])


def test_of_very_many_unknown_names_a_hundred_are_told_and_none_that_is_no_word(target, tmp_path) -> None:
    records = [{"kind": "kind_" + chr(97 + n // 26) + chr(97 + n % 26)} for n in range(300)]
    path = saved(
        tmp_path / "a", *records, {"content": "x", "id": "x"},
        {"kind": "comment", "memory": "x", "content": "hm", "My Secret 1234": 1, "mood": 2},
    )  # fmt: skip
    unknown = target.call("import", path=path)["unknown"]

    assert len(unknown) == 100
    assert sum(unknown.values()) == 302
    assert unknown["other"] == 203
    assert "Secret" not in json.dumps(unknown)


def test_redactions_count_what_the_gate_knows_alone(daemons, tmp_path) -> None:
    target = daemons(options={**BY_HAND, "DREAMD_REDACT__PATTERNS": '{"badge": "EMP-[0-9]+"}'}).start()
    counts = {"jwt": 2, "badge": 1, "hunter2": 3, SECRET: 1, "two words": 1}
    result = target.call("import", path=saved(tmp_path / "a", {"id": "a", "content": "x", "redactions": counts}))

    assert result["imported"] == 1
    assert target.call("get", id="a")["redactions"] == {"jwt": 2, "badge": 1}


@pytest.mark.parametrize("name", ["version", "access_count", "access_days", "cooled_at_count"])
def test_numbers_that_nobody_counts_up_to_are_refused_and_the_limit_is_told(target, tmp_path, name) -> None:
    path = saved(
        tmp_path / "a", {"id": "a", "content": "a", name: 10**9}, {"id": "b", "content": "b", name: 2**63 - 1},
        {"id": "c", "content": "c", "redactions": {"jwt": 2**63 - 1}},
    )  # fmt: skip
    result = target.call("import", path=path)

    assert [one["place"] for one in result["failed"]] == ["line 2", "line 3"]
    assert all("1000000000" in one["detail"] for one in result["failed"])
    assert getattr(everything(target)["rows"]["a"], name) == 10**9


def test_circles_of_successors_are_cut_and_no_memory_is_lost(target, tmp_path) -> None:
    heirs = {"self": "self", "a": "b", "b": "c", "c": "a", "d": "a"}
    path = saved(
        tmp_path / "a",
        *(
            {"id": one, "content": one, "invalid_at": "2026-01-01", "superseded_by": heir}
            for one, heir in heirs.items()
        ),
    )
    result = target.call("import", path=path)
    found = {one["id"]: one["superseded_by"] for one in target.call("list", state="superseded")["memories"]}

    assert (result["imported"], result["failed"]) == (5, [])
    assert found.keys() == heirs.keys()
    left = {one: heir for one, heir in found.items() if heir is not None}
    assert left.items() <= heirs.items()
    assert len(left) == 3
    assert left["d"] == "a"


def test_circles_of_answers_are_cut_and_no_comment_is_lost(target, tmp_path) -> None:
    answers = {"self": "self", "a": "b", "b": "a", "c": "a"}
    comments = [
        {"kind": "comment", "id": one, "memory": "m", "content": one, "reply_to": other}
        for one, other in answers.items()
    ]
    target.call("import", path=saved(tmp_path / "a", {"kind": "memory", "id": "m", "content": "x"}, *comments))
    found = {one["id"]: one["reply_to"] for one in target.call("comments", id="m")["comments"]}

    assert found.keys() == answers.keys()
    assert found["self"] is None
    assert [found["a"], found["b"]].count(None) == 1
    assert found["c"] == "a"


@pytest.mark.parametrize("content", [b"one\rtwo", b"one\rtwo\nthree", None])
def test_what_is_in_no_known_format_is_invalid_whatever_its_line_ends(target, tmp_path, content) -> None:
    if content is None:
        with closing(sqlite3.connect(tmp_path / "a")) as connection:
            connection.execute('CREATE TABLE "of a\rcook" (name TEXT)')
        content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content)

    assert "in no format that is known here" in refused(target, "invalid", "import", path=str(tmp_path / "a")).detail


def test_texts_and_tables_with_the_line_ends_of_old_macs_are_read(target, tmp_path) -> None:
    (tmp_path / "a.csv").write_bytes(b"content,tags\rone,x\rtwo,y\r")
    (tmp_path / "b.txt").write_bytes(b"three\rstill three\r\rfour")

    assert target.call("import", path=str(tmp_path / "a.csv"))["format"] == "csv"
    assert target.call("import", path=str(tmp_path / "b.txt"))["format"] == "text"
    found = {one["content"] for one in target.call("list")["memories"]}
    assert found == {"one", "two", "three\rstill three", "four"}


def test_what_hidden_records_there_are_is_not_told(target, tmp_path) -> None:
    facts = {"k": "secret", "n": "personal"}
    ours = [{"kind": "fact", "key": key, "value": 1, "sensitivity": level} for key, level in facts.items()]
    target.call("import", path=saved(tmp_path / "ours", *ours))
    path = saved(tmp_path / "a", {"kind": "fact", "key": "k", "value": 2}, {"kind": "fact", "key": "n", "value": 2})

    for dry_run in (True, False):
        result = target.call("import", path=path, clearance="personal", dry_run=dry_run)
        assert (result["counts"], result["kept"], result["failed"]) == ({}, {"fact": 1}, [])
    assert target.call("fact_get", key="k")["value"] == 1


def test_comments_of_a_file_are_told_as_events(target, tmp_path) -> None:
    assert target.app is not None
    events = target.app.parts.events
    path = saved(
        tmp_path / "a",
        {"kind": "memory", "id": "m", "content": "x"},
        {"kind": "comment", "memory": "m", "content": "c"},
    )
    target.call("import", path=path)
    told = [(event.type, event.ids) for event in events._ring]

    assert ("commented", ("m",)) in told


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_import_tells_into_which_scopes_the_memories_went(daemon: Daemon, tmp_path: Path, dry_run: bool) -> None:
    lines = [{"content": f"note {n}", "scope": scope} for n, scope in enumerate(("a/b", "a/b", "c"))] + [
        {"content": "x"}
    ]
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"kind": "memory", **line}) + "\n" for line in lines))

    done = daemon.call("import", path=str(path), dry_run=dry_run)

    assert done["scopes"] == {"a/b": 2, "c": 1, "default": 1}
