"""Faults of the seed systems that no single part answers for, each under its id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.errors import Unavailable
from tests.daemon.methods.asking import at_once
from tests.fakes import NotedEngine
from tests.harness import Daemon
from tests.storage.opened import Opened


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Whole stores over an engine that notes what it is asked."""
    whole = Opened(tmp_path, around=NotedEngine)
    yield whole
    whole.close()


def test_c19_a_tag_is_found_however_it_is_spelt(daemon: Daemon) -> None:
    memory = daemon.remember("the stand-up is at nine", tags=["Work", "ÉTÉ"])

    for spelt in ("work", "WORK", "Work", "été", "ÉTÉ", "e\u0301te\u0301"):
        for filter_ in ("tags", "tags_any"):
            assert [one["id"] for one in daemon.call("list", **{filter_: [spelt]})["memories"]] == [memory], spelt
            hits = daemon.call("recall", query="stand-up", learn=False, **{filter_: [spelt]})["hits"]
            assert [one["id"] for one in hits] == [memory], spelt


@pytest.mark.parametrize("method", ["recall", "recall_multi", "get", "history", "context"])
def test_c22_a_store_that_cannot_be_asked_is_an_error_and_never_an_empty_answer(daemon: Daemon, method: str) -> None:
    daemon.remember("Ada likes tea", id="tea")
    asked: dict[str, Any] = {
        "recall": {"query": "tea"}, "recall_multi": {"queries": ["tea"]}, "get": {"id": "tea"}, "history": {"id": "tea"},
        "context": {"session": "s", "query": "tea"},
    }[method]  # fmt: skip
    daemon.in_lane(daemon.stores.engine.close)

    with pytest.raises(Unavailable):
        daemon.call(method, **asked)


def test_d15_what_an_edit_a_move_or_an_erasure_asks_of_the_engine_does_not_grow_with_the_store(opened: Opened) -> None:
    def asked() -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        memory = opened.add(f"the one of round {len(opened.stores.catalogue)}")
        opened.engine.noted.clear()
        for name, act in (
            ("update", lambda: opened.update(memory, content=f"another text {memory}")),
            ("forget", lambda: opened.forget(memory)),
            ("erase", lambda: opened.forget(memory, hard=True)),
        ):
            act()
            made[name] = list(opened.engine.noted)
            opened.engine.noted.clear()
        return made

    few = asked()
    for number in range(300):
        opened.add(f"note {number}")
    assert asked() == few


def test_d16_one_fact_told_by_many_at_once_is_one_memory(daemon: Daemon) -> None:
    told = at_once(daemon, *[("remember", {"content": "the gate code is on the door"})] * 12)

    assert len({one["id"] for one in told}) == 1
    assert sum(one["created"] for one in told) == 1
    assert daemon.call("stats")["total"] == 1


def test_case59_readers_beside_a_writer_meet_no_error(daemon: Daemon) -> None:
    reads: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": "note"}), ("list", {}), ("stats", {}), ("wakeup", {}), ("entities", {}), ("graph_stats", {}),
        ("fact_list", {}), ("comments", {}), ("tags", {}), ("fading", {}),
    ]  # fmt: skip
    for number in range(10):
        calls = [
            ("remember", {"content": f"note {number}", "session": "s"}),
            ("fact_set", {"key": f"k{number}", "value": 1}),
        ]
        answers = at_once(daemon, *calls, *reads)
        assert not [one for one in answers if isinstance(one, BaseException)]
    assert daemon.call("stats")["total"] == len(daemon.call("fact_list")["facts"]) == 10
