"""The event stream of a whole daemon over its socket, read as curl reads it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from daemon.events import CAPACITY, GAP
from jobs.table import NIGHT
from storage.model import DAY
from tests.daemon.serving import Wire
from tests.harness import BY_HAND, Daemon, started

Line = dict[str, Any]
MARK = "mark"  # what a test remembers last, so that it need not wait for what must not come


class Follower:
    """One client of `GET /v1/events`, which reads a line when it is asked to."""

    def __init__(self, wire: Wire, query: str, after: str) -> None:
        resume = f"Last-Event-ID: {after}\r\n" if after else ""
        wire.send(f"GET /v1/events{query} HTTP/1.1\r\nHost: dreamd\r\n{resume}\r\n".encode())
        self.answer = http.client.HTTPResponse(wire.socket)
        self.answer.begin()
        self.raw: list[bytes] = []

    def line(self) -> Line:
        self.raw.append(self.answer.readline())
        return json.loads(self.raw[-1])

    def until(self, wanted: Callable[[Line], bool]) -> list[Line]:
        """The lines that come before the first one that is wanted; that one is read and left out."""
        found = []
        while not wanted(line := self.line()):
            found.append(line)
        return found

    def until_mark(self, daemon: Daemon) -> list[Line]:
        """All lines that came before a memory which is remembered now."""
        mark = daemon.remember(f"{MARK} {daemon.clock.new_id()}", scope=MARK)
        return self.until(lambda line: line["ids"] == [mark])


@contextmanager
def following(daemon: Daemon, query: str = "", after: str = "") -> Iterator[Follower]:
    with Wire(daemon.config.socket) as wire:
        yield Follower(wire, query, after)


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    """A daemon that holds nothing; a day has passed since another test left it."""
    shared.in_lane(lambda: shared.stores.changer.erase([row.id for row in shared.stores.catalogue.every()]))
    shared.clock.advance(2 * DAY)
    return shared


def seen(lines: list[Line]) -> list[tuple[str, str, list[str], dict[str, int]]]:
    return [(line["type"], line["scope"], line["ids"], line["counts"]) for line in lines]


def kinds(lines: list[Line]) -> list[str]:
    return [line["type"] for line in lines]


def test_writes_are_told_as_they_happen(daemon: Daemon) -> None:
    with following(daemon) as follower:
        tea = daemon.remember("Ada likes tea", scope="alice")
        milk = daemon.remember("with milk", scope="alice", connect_to=[tea])
        daemon.call("update", id=tea, content="Ada loves tea")
        daemon.call("set_tier", id=tea, tier="core")
        daemon.call("update", id=tea, tier="long", tags=["drink"])
        daemon.call("pin", id=tea)
        daemon.call("connect", a=milk, b=tea)
        daemon.call("disconnect", a=tea, b=milk)
        daemon.call("forget", id=milk)
        daemon.call("restore", id=milk)
        daemon.call("forget", id=milk, superseded_by=tea)
        daemon.call("forget", ids=[milk, tea], hard=True)
        lines = follower.until_mark(daemon)

    pair = sorted([tea, milk])
    one, two = {"memories": 1}, {"edges": 1, "memories": 2}
    assert seen(lines) == [
        ("remembered", "alice", [tea], one),
        ("remembered", "alice", [milk], one),
        ("linked", "alice", [milk, tea], two),
        ("updated", "alice", [tea], one),
        ("tier_changed", "alice", [tea], one),
        ("updated", "alice", [tea], one),
        ("tier_changed", "alice", [tea], one),
        ("updated", "alice", [tea], one),
        ("linked", "alice", pair, two),
        ("pruned", "alice", pair, two),
        ("forgotten", "alice", [milk], one),
        ("restored", "alice", [milk], one),
        ("superseded", "alice", [milk], one),
        ("purged", "alice", [milk, tea], {"memories": 2}),
    ]


def test_the_answer_is_ndjson_and_its_instants_are_rfc_3339(daemon: Daemon) -> None:
    with following(daemon) as follower:
        daemon.remember("Ada likes tea")
        line = follower.line()

        assert follower.answer.headers["Content-Type"] == "application/x-ndjson"
        assert set(line) == {"id", "at", "type", "scope", "ids", "counts"}
        assert line["at"] == daemon.call("get", id=line["ids"][0])["created_at"]


def test_what_changes_nothing_is_no_event(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    milk = daemon.remember("Grace likes tea")
    with following(daemon) as follower:
        daemon.call("remember", content="Ada likes tea")  # a use
        daemon.call("update", id=tea, content="Ada likes tea", tier="short")
        daemon.call("restore", id=tea)
        daemon.call("forget", ids=["nobody"] * 2 + ["nowhere"])
        daemon.call("recall", query="likes tea", k=2)
        daemon.call("get", id=milk)
        daemon.call("remember_many", items=[{"content": ""}, {"content": "x", "nonsense": 1}])
        daemon.run(daemon.app.background.fold())  # wires the two, and is no run
        assert daemon.call("neighbors", id=tea)["neighbors"]

        assert follower.until_mark(daemon) == []


def test_a_batch_is_told_item_by_item(daemon: Daemon) -> None:
    old = daemon.remember("what was here")
    with following(daemon) as follower:
        done = daemon.call(
            "remember_many",
            items=[{"content": "new"}, {"content": " "}, {"id": old, "content": "edited"}, {"content": "newer"}],
        )
        lines = follower.until_mark(daemon)

    new, _, _, newer = done["results"]
    assert [(line["type"], line["ids"]) for line in lines] == [
        ("remembered", [new["id"]]),
        ("updated", [old]),
        ("remembered", [newer["id"]]),
    ]


def test_known_content_that_was_forgotten_is_told_as_restored(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    daemon.call("forget", id=tea)
    with following(daemon) as follower:
        daemon.remember("Ada likes tea")

        assert [(line["type"], line["ids"]) for line in follower.until_mark(daemon)] == [("restored", [tea])]


def test_known_content_that_becomes_more_sensitive_is_told_as_updated(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    with following(daemon) as follower:
        daemon.remember("Ada likes tea", sensitivity="secret")

        assert [(line["type"], line["ids"]) for line in follower.until_mark(daemon)] == [("updated", [tea])]


def test_a_retry_is_told_once(daemon: Daemon) -> None:
    with following(daemon) as follower:
        for _ in range(3):
            daemon.call("remember", content="Ada likes tea", request_id="r-1")

        assert kinds(follower.until_mark(daemon)) == ["remembered"]


def test_types_and_scope_filter(daemon: Daemon) -> None:
    with ExitStack() as stack:
        queries = {
            "types": "?types=forgotten,restored",
            "scope": "?scope=alice",
            "both": "?types=forgotten&scope=alice/coder&types=%20restored",
        }
        followers = {name: stack.enter_context(following(daemon, query)) for name, query in queries.items()}
        daemon.remember("one", id="one", scope="alice")
        daemon.remember("two", id="two", scope="alice/coder")
        daemon.remember("three", id="three", scope="alicia")
        for memory in ("three", "two", "one"):
            daemon.call("forget", id=memory)
        daemon.call("restore", id="two")

        expected = {
            "types": [("forgotten", "three"), ("forgotten", "two"), ("forgotten", "one"), ("restored", "two")],
            "scope": [
                ("remembered", "one"), ("remembered", "two"), ("forgotten", "two"), ("forgotten", "one"),
                ("restored", "two"),
            ],
            "both": [("forgotten", "two"), ("restored", "two")],
        }  # fmt: skip
        for name, follower in followers.items():
            lines = [follower.line() for _ in expected[name]]
            assert [(line["type"], *line["ids"]) for line in lines] == expected[name]


@pytest.mark.parametrize(
    ("query", "after", "field", "hint"),
    [
        ("?types=forgoten", "", "types", "Did you mean 'forgotten'?"),
        ("?type=forgotten", "", "type", "types=TYPE"),
        ("?scope=a//b", "", "scope", "scope"),
        ("", "not-an-id", "Last-Event-ID", "Last-Event-ID"),
    ],
)
def test_a_wrong_request_is_a_problem_and_no_stream(daemon: Daemon, query, after, field, hint) -> None:
    with Wire(daemon.config.socket) as wire:
        answer = wire.ask("GET", f"/v1/events{query}", Last_Event_ID=after)

    assert answer.is_problem("invalid", 400)
    assert answer.json["field"] == field
    assert hint in answer.json["hint"]


def test_a_client_that_comes_back_goes_on_where_it_left(daemon: Daemon) -> None:
    with following(daemon) as follower:
        daemon.remember("one", id="one")
        last = follower.line()["id"]
    daemon.remember("two", id="two")
    daemon.call("forget", id="two")
    with following(daemon, after=last) as follower:
        daemon.call("restore", id="two")

        assert [(line["type"], line["ids"]) for line in (follower.line() for _ in range(3))] == [
            ("remembered", ["two"]), ("forgotten", ["two"]), ("restored", ["two"]),
        ]  # fmt: skip


def test_after_a_restart_the_client_is_told_of_the_gap_and_gets_what_there_is(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    with following(daemon) as follower:
        daemon.remember("one", id="one")
        last = follower.line()["id"]
    daemon.restart()
    daemon.remember("two", id="two")
    with following(daemon, "?types=remembered", after=last) as follower:
        gap, two = follower.line(), follower.line()

    assert (gap["type"], gap["scope"], gap["ids"], gap["counts"]) == (GAP, "*", [], {})
    assert (two["type"], two["ids"]) == ("remembered", ["two"])
    assert two["id"].rpartition("-")[0] == gap["id"].rpartition("-")[0] != last.rpartition("-")[0]
    with following(daemon, after=gap["id"]) as follower:
        assert follower.line() == two


def test_a_dry_run_is_no_event(daemon: Daemon) -> None:
    daemon.remember("old", id="old", expires_at="2020-01-01T00:00:00Z")
    with following(daemon) as follower:
        dry = daemon.call("run_job", name="night", dry_run=True)
        assert dry["outcome"] == "changed"

        assert follower.until_mark(daemon) == []


def grown(daemon: Daemon) -> None:
    """A store in which a night has something to do in each of its steps."""
    for n in range(40):
        daemon.remember(f"over since long {n}", id=f"over{n}", scope="a", expires_at="2020-01-01T00:00:00Z")
    daemon.remember("to be purged", id="late", scope="a")
    daemon.call("forget", id="late")
    daemon.remember("felt", id="felt", scope="b", emotion=0.9, tier="short")
    daemon.remember("beside it", id="beside", scope="b", tier="long")
    daemon.call("connect", a="felt", b="beside", weight=0.2)
    daemon.remember("fades away", id="faint", scope="b/c")
    daemon.beat(31)
    daemon.call("recall", query="felt", k=1, scope="b")
    daemon.remember("wired", id="w1", scope="d")
    daemon.remember("wired too", id="w2", scope="d")
    daemon.call("recall", query="wired", k=2, scope="d")


def test_a_night_is_told_step_by_step_with_what_each_changed(daemon: Daemon) -> None:
    grown(daemon)
    with following(daemon) as follower:
        night = daemon.call("run_job", name="night")
        lines = follower.until_mark(daemon)

    steps = {run["run_id"]: run for run in daemon.call("runs", limit=50)["runs"]}
    runs = [line for line in lines if line["type"].startswith("job_")]
    assert all(line["scope"] == "*" for line in runs)
    assert [line["type"] for line in runs] == [
        "job_started",
        *["job_started", "job_finished"] * len(NIGHT),
        "job_finished",
    ]
    assert runs[0]["ids"] == runs[-1]["ids"] == [night["run_id"]]
    assert runs[-1]["counts"] == night["counts"]
    assert [steps[line["ids"][0]]["job"] for line in runs[1:-1:2]] == list(NIGHT)
    assert all(line["counts"] == steps[line["ids"][0]]["counts"] for line in runs[2::2])

    done = [line for line in lines if not line["type"].startswith("job_")]
    assert {(line["type"], line["scope"], *line["ids"]) for line in done if line["type"] != "expired"} >= {
        ("linked", "d", "w1", "w2"),
        ("pruned", "b", "beside", "felt"),
        ("tier_changed", "b", "felt"),
        ("decayed", "b/c", "faint"),
        ("purged", "a", "late"),
    }
    expired = [line for line in done if line["type"] == "expired"]
    assert sorted(memory for line in expired for memory in line["ids"]) == sorted(f"over{n}" for n in range(40))
    assert sum(line["counts"]["memories"] for line in expired) == 40


def test_an_undo_is_told_by_what_comes_back(daemon: Daemon) -> None:
    daemon.remember("over", id="over", scope="a", expires_at="2020-01-01T00:00:00Z")
    run = daemon.call("run_job", name="decay")
    with following(daemon) as follower:
        undone = daemon.call("undo", run_id=run["run_id"])
        lines = follower.until_mark(daemon)

    assert seen(lines) == [
        ("job_started", "*", [undone["run_id"]], {}),
        ("restored", "a", ["over"], {"memories": 1}),
        ("job_finished", "*", [undone["run_id"]], {"restored": 1, "left": 0}),
    ]


def test_no_event_ever_holds_a_text(daemon: Daemon) -> None:
    """All that a person wrote is marked by one word, which is in no line."""
    with following(daemon) as follower:
        word = "quokka"
        daemon.remember(f"a {word}", id="one", author=word, tags=[word], metadata={word: word}, context=word)
        daemon.remember(f"another {word}", id="two", session=word, subtype=word, expires_at="2020-01-01T00:00:00Z")
        daemon.call("update", id="one", content=f"the {word}")
        daemon.remember(f"a third {word}", id="three")
        daemon.call("connect", a="one", b="three", label=word)
        daemon.call("recall", query=word)
        daemon.call("run_job", name="night")
        daemon.call("forget", id="one")
        lines = follower.until_mark(daemon)

    assert {"remembered", "updated", "linked", "expired", "forgotten", "job_finished"} <= set(kinds(lines))
    assert not any(word.encode() in raw for raw in follower.raw)


def test_events_come_in_the_order_of_what_they_tell_however_many_write(daemon: Daemon) -> None:
    """Each of eight clients forgets what another has just remembered, as soon as a follower has told it."""
    with following(daemon, "?scope=race") as follower, following(daemon, "?scope=race&types=remembered") as signal:
        writers = [
            threading.Thread(target=lambda n=n: daemon.remember(f"text {n}", id=f"m{n}", scope="race"))
            for n in range(8)
        ]
        for writer in writers:
            writer.start()
        for _ in writers:
            daemon.call("forget", id=signal.line()["ids"][0])
        for writer in writers:
            writer.join()
        lines = [follower.line() for _ in range(16)]

    for n in range(8):
        assert [line["type"] for line in lines if line["ids"] == [f"m{n}"]] == ["remembered", "forgotten"]


def test_several_followers_get_the_same_lines(daemon: Daemon) -> None:
    with ExitStack() as stack:
        followers = [stack.enter_context(following(daemon)) for _ in range(5)]
        for n in range(10):
            daemon.remember(f"text {n}")
        first, *others = ([follower.line() for _ in range(10)] for follower in followers)

    assert len({line["id"] for line in first}) == 10
    assert others == [first] * 4


def test_a_client_that_does_not_read_holds_up_nobody_and_learns_what_it_missed(daemon: Daemon) -> None:
    total = 4 * CAPACITY
    with following(daemon) as slow, following(daemon) as quick:
        for n in range(total):
            daemon.parts.events.emit("linked", "a", [f"{n:064}"] * 4, {"edges": 1})
        end = daemon.remember("the end")
        assert quick.until(lambda line: line["ids"] == [end])
        lines = slow.until(lambda line: line["ids"] == [end])

    gaps = [line for line in lines if line["type"] == GAP]
    assert gaps
    assert len(lines) - len(gaps) + sum(gap["counts"]["missed"] for gap in gaps) == total


def test_followers_end_at_once_when_the_daemon_stops(daemons: Callable[..., Daemon]) -> None:
    """The stream is a whole HTTP answer: a client can tell its end from a broken connection."""
    daemon = daemons(options=BY_HAND).start()
    with following(daemon) as one, following(daemon, "?types=purged") as two:
        daemon.remember("one", id="one")
        assert one.line()["ids"] == ["one"]
        daemon.stop()

        assert (one.answer.read(), two.answer.read()) == (b"", b"")
