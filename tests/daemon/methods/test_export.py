"""`export`: everything that a scope holds and a clearance covers, whole or not at all, while the daemon goes on."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.errors import Unavailable
from storage.exchange.forms import MEMORY_FIELDS, PLURALS
from storage.instants import parse_instant
from tests.daemon.methods.asking import refused
from tests.daemon.methods.exchanging import SENTENCES, Halfway, begun, fill, lines, of_kind, streamed, table
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def ids(daemon: Daemon) -> dict[str, str]:
    return fill(daemon)


def exported(daemon: Daemon, path: Path, **params: object) -> Path:
    daemon.call("export", path=str(path), **params)
    return path


def test_the_header_tells_what_there_is_and_each_record_stands_on_a_line(daemon, ids, tmp_path) -> None:
    result = daemon.call("export", path=str(tmp_path / "a"))
    header, *records = lines(tmp_path / "a")
    counts = Counter(record["kind"] for record in records)

    assert {name: header[name] for name in ("kind", "format", "format_version", "version", "scope")} == {
        "kind": "header", "format": "dreamd", "format_version": 1, "version": "0.1.0", "scope": "*",
    }  # fmt: skip
    assert header["exported_at"].endswith("Z")
    assert header["counts"] == result["counts"] == counts
    assert result["memories"] == counts["memory"] == len(SENTENCES) + 8
    assert min(result["counts"].values()) > 0
    assert result["bytes"] == (tmp_path / "a").stat().st_size
    assert (result["path"], result["format"], result["scope"]) == (str(tmp_path / "a"), "jsonl", "*")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_case55_a_memory_is_told_with_all_its_fields_and_its_times_as_everywhere(daemon, ids, tmp_path) -> None:
    memories = {one["id"]: one for one in of_kind(exported(daemon, tmp_path / "a"), "memory")}

    for name in ("nuts", "bees", "old", "gone"):
        told, shown = memories[ids[name]], daemon.call("get", id=ids[name])
        assert tuple(told) == ("kind", *MEMORY_FIELDS)
        for field in set(MEMORY_FIELDS) - {"metadata", "access_days", "cooled_at_count"}:
            assert told[field] == shown[field], field
    assert memories[ids["bees"]]["event_at"] == "2024-02-29T12:00:00.123456Z"
    assert memories[ids["nuts"]]["access_count"] == 3
    assert [memories[ids[name]]["state"] for name in ("nuts", "old", "gone")] == ["live", "superseded", "forgotten"]
    assert memories[ids["old"]]["superseded_by"] == ids["new"]


def test_memories_stand_in_the_order_in_which_they_were_made_and_before_what_hangs_on_them(
    daemon, ids, tmp_path
) -> None:
    header, *records = lines(exported(daemon, tmp_path / "a"))
    kinds = [record["kind"] for record in records]

    assert list(dict.fromkeys(kinds)) == list(header["counts"])
    assert kinds == sorted(kinds, key=list(header["counts"]).index)
    made = [parse_instant(record["created_at"]) for record in records if record["kind"] == "memory"]
    assert made == sorted(made)
    assert [one["number"] for one in of_kind(tmp_path / "a", "version")] == [1, 2]


def test_an_edge_tells_its_ends_its_weight_and_since_when_that_is_so(daemon, ids, tmp_path) -> None:
    edges = of_kind(exported(daemon, tmp_path / "a"), "edge")
    (made,) = [edge for edge in edges if edge["label"]]

    assert made.keys() == {"kind", "a", "b", "weight", "as_of", "edge_kind", "label", "created_at"}
    assert {made["a"], made["b"]} == {ids["nuts"], ids["bees"]}
    assert made["edge_kind"] == "manual"
    assert {edge["edge_kind"] for edge in edges} == {"manual", "next", "hebbian"}


def test_facts_keep_every_digit_and_null(daemon, ids, tmp_path) -> None:
    facts = {one["key"]: one["value"] for one in of_kind(exported(daemon, tmp_path / "a"), "fact")}

    assert facts == {"wifi/name": {"f": 0.1 + 0.2, "big": 10**30, "none": None}, "nothing": None}


def test_a_document_holds_the_same_in_a_list_a_kind(daemon, ids, tmp_path) -> None:
    header, *records = lines(exported(daemon, tmp_path / "a"))
    document = json.loads(exported(daemon, tmp_path / "b", format="json").read_text())

    assert [record for name in PLURALS.values() for record in document.pop(name)] == records
    assert document == {name: value for name, value in header.items() if name != "kind"}


def test_a_table_holds_the_memories_alone(daemon, ids, tmp_path) -> None:
    result = daemon.call("export", path=str(tmp_path / "a.csv"), format="csv")
    rows = {row["id"]: row for row in table(tmp_path / "a.csv")}

    assert result["counts"] == {"memory": len(rows)}
    assert rows[ids["nuts"]]["content"] == "Ada is allergic to all nuts\r\n"
    assert rows[ids["latin"]]["content"] == SENTENCES["latin"]
    assert rows[ids["arabic"]]["content"] == "'" + SENTENCES["arabic"]
    assert rows[ids["bees"]]["context"] == "a long story\n\n'=1"
    assert json.loads(rows[ids["nuts"]]["tags"]) == ["food", "health"]
    assert not [
        cell for row in rows.values() for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    ]


def test_a_scope_is_told_with_what_lies_below_it(daemon, ids, tmp_path) -> None:
    header, *records = lines(exported(daemon, tmp_path / "a", scope="home"))

    assert header["scope"] == "home"
    assert {one["scope"] for one in records if "scope" in one} == {"home", "home/chat"}
    assert {one["kind"] for one in records} == set(header["counts"])
    assert lines(exported(daemon, tmp_path / "b", scope="home/chat"))[0]["counts"] == {
        "memory": 1, "version": 0, "edge": 0, "comment": 0, "fact": 0, "turn": 2, "session_state": 2,
    }  # fmt: skip


def test_what_the_clearance_does_not_cover_is_told_nowhere_and_counted_nowhere(daemon, ids, tmp_path) -> None:
    header, *records = lines(exported(daemon, tmp_path / "a", clearance="personal", scope="home"))
    told = {one["id"] for one in records if one["kind"] == "memory"}
    text = (tmp_path / "a").read_text()

    assert told & set(ids.values()) == {ids[name] for name in ("bees", "tea", "old", "new", "gone")}
    assert ids["nuts"] not in text  # its versions, its edges and what answers a comment on it with it
    assert ids["pin"] not in text
    assert "nuts" not in text
    assert "vault" not in text
    assert Counter(header["counts"]) == Counter(one["kind"] for one in records)
    assert [one["id"] for one in records if one["kind"] == "comment"] == [ids["reply"]]
    assert [one["reply_to"] for one in records if one["kind"] == "comment"] == [None]


def test_a_version_that_was_public_goes_only_with_its_memory_and_a_raised_one_with_its_level(tmp_path) -> None:
    with started(options=BY_HAND) as daemon:
        memory = daemon.remember("one", sensitivity="public")
        daemon.call("update", id=memory, content="two", sensitivity="personal")
        hidden = daemon.remember("three", sensitivity="secret")
        daemon.call("forget", id=memory, superseded_by=hidden)

        assert lines(exported(daemon, tmp_path / "a", clearance="public"))[0]["counts"]["version"] == 0
        path = exported(daemon, tmp_path / "b", clearance="personal")
        assert [one["content"] for one in of_kind(path, "version")] == ["one"]
        assert [one["superseded_by"] for one in of_kind(path, "memory")] == [None]


def test_the_memory_that_a_session_became_is_not_named_to_who_may_not_know_of_it(tmp_path) -> None:
    with started(options=BY_HAND) as daemon:
        daemon.call("add_turn", session="s", content="hello")
        memory = daemon.call("end_session", session="s")["memory"]
        daemon.call("update", id=memory, sensitivity="secret")

        assert [one["ended"] for one in of_kind(exported(daemon, tmp_path / "a"), "turn")] == [memory]
        assert [one["ended"] for one in of_kind(exported(daemon, tmp_path / "b", clearance="personal"), "turn")] == [""]


def test_a_scope_in_which_nothing_is_or_nothing_that_is_covered_is_not_found_in_the_same_words(
    daemon, ids, tmp_path
) -> None:
    daemon.remember("hush", scope="cellar", sensitivity="secret")
    missing = refused(daemon, "not_found", "export", path=str(tmp_path / "a"), scope="attic")
    hidden = refused(daemon, "not_found", "export", path=str(tmp_path / "a"), scope="cellar", clearance="personal")

    assert hidden.detail.replace("cellar", "attic") == missing.detail
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_makes_a_file_with_a_header_alone(tmp_path) -> None:
    with started(options=BY_HAND) as daemon:
        result = daemon.call("export", path=str(tmp_path / "a"))

        assert set(result["counts"].values()) == {0}
        assert len(lines(tmp_path / "a")) == 1


def test_nothing_is_overwritten_and_where_nothing_can_be_written_is_told(daemon, ids, tmp_path) -> None:
    (tmp_path / "there").write_text("mine")

    refused(daemon, "conflict", "export", path=str(tmp_path / "there"))
    for path in (str(tmp_path / "no" / "a"), "relative.jsonl", "", str(tmp_path / ("x" * 300))):
        assert refused(daemon, "invalid", "export", path=path).extra["field"] == "path"
    refused(daemon, "invalid", "export", path=str(tmp_path / "a"), format="xml")
    assert (tmp_path / "there").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]


def test_looking_is_no_use_of_a_memory(daemon, ids, tmp_path) -> None:
    before = daemon.in_lane(lambda: {row.id: row for row in daemon.stores.catalogue.every()})
    exported(daemon, tmp_path / "a")

    assert daemon.in_lane(lambda: {row.id: row for row in daemon.stores.catalogue.every()}) == before
    assert daemon.parts.learn.take().accesses == {}


def test_progress_is_told_up_to_the_end(daemon, ids, tmp_path) -> None:
    told: list[dict[str, object]] = []
    result = streamed(daemon, "export", told.append, path=str(tmp_path / "a"))

    assert {one["job"] for one in told} == {"export"}
    assert [one["done"] for one in told] == sorted(one["done"] for one in told)
    assert told[-1]["done"] == told[-1]["total"] == sum(result["counts"].values())


def test_what_changes_meanwhile_is_told_as_it_is_when_it_is_read_and_counted_so(tmp_path) -> None:
    """Erased, raised above the clearance, edited and new: the counts are those of the file."""
    with started(options=BY_HAND) as daemon:
        daemon.call("remember_many", items=[{"content": f"note {n}", "id": f"m{n:03}"} for n in range(100)])
        daemon.call("connect", a="m000", b="m090")
        daemon.call("connect", a="m000", b="m095")
        daemon.call("connect", a="m000", b="m001")
        halfway = Halfway(lambda progress: True)
        call = begun(daemon, "export", halfway, path=str(tmp_path / "a"), clearance="personal")
        assert halfway.reached.wait(60)
        daemon.call("forget", id="m090", hard=True)
        daemon.call("update", id="m095", sensitivity="secret")
        daemon.call("update", id="m096", content="edited")
        daemon.remember("too late")
        halfway.go_on.set()
        result = call.result(60)

    header, *records = lines(tmp_path / "a")
    contents = {one["id"]: one["content"] for one in records if one["kind"] == "memory"}
    assert header["counts"] == result["counts"]
    assert Counter(header["counts"]) == Counter(one["kind"] for one in records)
    assert header["counts"]["memory"] == len(contents) == 98
    assert contents.keys().isdisjoint({"m090", "m095"})
    assert contents["m096"] == "edited"
    assert [(one["a"], one["b"]) for one in records if one["kind"] == "edge"] == [("m000", "m001")]


def test_recall_and_remember_go_on_while_a_file_is_written(tmp_path) -> None:
    with started(options=BY_HAND) as daemon:
        daemon.call("remember_many", items=[{"content": f"note {n}"} for n in range(100)])
        halfway = Halfway(lambda progress: True)
        call = begun(daemon, "export", halfway, path=str(tmp_path / "a"))
        assert halfway.reached.wait(60)

        assert daemon.call("recall", query="note 7")["hits"]
        assert not (tmp_path / "a").exists()
        halfway.go_on.set()
        assert call.result(60)["memories"] == 100


def test_an_export_that_the_daemons_end_cuts_short_leaves_no_file(folder, tmp_path) -> None:
    daemon = Daemon(folder, options=BY_HAND).start()
    daemon.call("remember_many", items=[{"content": f"note {n}"} for n in range(200)])
    halfway = Halfway(lambda progress: True)
    call = begun(daemon, "export", halfway, path=str(tmp_path / "a"))
    assert halfway.reached.wait(60)
    daemon.stop()
    halfway.go_on.set()

    with pytest.raises(Unavailable):
        call.result(60)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_exported_into_the_state_folder(daemon) -> None:
    daemon.remember("x")
    folder = daemon.stores.folder
    for path in (folder / "out.jsonl", folder / "snapshots" / "out.jsonl", folder / ".." / folder.name / "out.jsonl"):
        path.parent.mkdir(exist_ok=True)
        error = refused(daemon, "invalid", "export", path=str(path))
        assert "state folder" in error.detail
        assert not path.exists()
