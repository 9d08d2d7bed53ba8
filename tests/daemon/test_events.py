"""The ring of events: what a follower gets, from where, and how it learns what it missed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.events import CAPACITY, GAP, MAX_IDS, TYPES, Events
from storage.errors import Invalid
from tests.fakes import SettableClock

PATIENCE = 20.0
Line = dict[str, Any]


def ring(**options: Any) -> Events:
    return Events(SettableClock().now, boot="b7", **options)


async def take(lines: AsyncIterator[Line], count: int) -> list[Line]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(lines) for _ in range(count)]


def take_until(lines: AsyncIterator[Line], last: str) -> Coroutine[Any, Any, list[Line]]:
    """The lines up to the one with the id `last`, which must come."""

    async def taken() -> list[Line]:
        found: list[Line] = []
        async with asyncio.timeout(PATIENCE):
            async for line in lines:
                found.append(line)
                if line["id"] == last:
                    return found
        raise AssertionError("the lines ended")

    return taken()


def in_loop(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


def numbers(lines: Sequence[Line]) -> list[int]:
    return [int(line["id"].partition("-")[2]) for line in lines]


def test_a_line_says_what_the_contract_names_and_nothing_else() -> None:
    async def scene() -> None:
        events = ring()
        lines = events.follow((), "", "")
        events.emit("forgotten", "alice/coder", ["m1", "m2"])

        (line,) = await take(lines, 1)
        assert line == {
            "id": "b7-1", "at": "2026-01-01T00:00:00Z", "type": "forgotten", "scope": "alice/coder",
            "ids": ["m1", "m2"], "counts": {"memories": 2},
        }  # fmt: skip
        assert list(line) == ["id", "at", "type", "scope", "ids", "counts"]

    in_loop(scene)


def test_the_types_are_those_of_the_contract_and_the_alarm_of_a_night() -> None:
    assert " ".join(TYPES) == (
        "remembered updated forgotten restored expired decayed purged merged superseded extracted consolidated evicted"
        " compacted tier_changed heat_changed linked pruned commented job_started job_finished spend_refused canary_alarm"
    )


def test_a_follower_begins_with_the_next_event_even_if_it_reads_late() -> None:
    async def scene() -> None:
        events = ring()
        events.emit("remembered", "a")
        lines = events.follow((), "", "")
        events.emit("remembered", "a")
        events.emit("remembered", "a")

        assert numbers(await take(lines, 2)) == [2, 3]

    in_loop(scene)


def test_after_an_id_a_follower_goes_on_right_behind_it() -> None:
    async def scene() -> None:
        events = ring()
        for _ in range(200):
            events.emit("remembered", "a")

        assert numbers(await take(events.follow((), "", "b7-3"), 197)) == list(range(4, 201))
        waiting = events.follow((), "", "b7-200")
        events.emit("remembered", "a")
        assert numbers(await take(waiting, 1)) == [201]

    in_loop(scene)


def test_a_gap_says_how_many_events_are_gone_and_can_be_resumed_from() -> None:
    async def scene() -> None:
        events = ring(capacity=5)
        for _ in range(12):
            events.emit("remembered", "a")
        gap, *rest = await take(events.follow((), "", "b7-3"), 6)

        assert (gap["type"], gap["scope"], gap["ids"], gap["counts"]) == (GAP, "*", [], {"missed": 4})
        assert numbers(rest) == [8, 9, 10, 11, 12]
        again = await take(events.follow((), "", gap["id"]), 5)
        assert again == rest

    in_loop(scene)


def test_an_id_of_another_process_is_a_gap_of_unknown_size_before_all_that_there_is() -> None:
    async def scene() -> None:
        events = ring()
        fresh = events.follow((), "", "a1-900")
        (gap,) = await take(fresh, 1)
        assert (gap["id"], gap["type"], gap["counts"]) == ("b7-0", GAP, {})
        events.emit("remembered", "a")
        events.emit("updated", "a")

        assert numbers(await take(fresh, 2)) == [1, 2]
        late = await take(events.follow((), "", "a1-1"), 3)
        assert [line["type"] for line in late] == [GAP, "remembered", "updated"]

    in_loop(scene)


def test_a_gap_passes_every_filter() -> None:
    async def scene() -> None:
        events = ring(capacity=2)
        for _ in range(4):
            events.emit("remembered", "a")
        (gap,) = await take(events.follow({"decayed"}, "b", "b7-1"), 1)

        assert gap["type"] == GAP

    in_loop(scene)


def test_a_follower_that_falls_out_of_the_ring_is_told_where_it_stands() -> None:
    async def scene() -> None:
        events = ring(capacity=10)
        lines = events.follow((), "", "")
        for _ in range(3):
            events.emit("remembered", "a")
        assert numbers(await take(lines, 1)) == [1]
        for _ in range(30):
            events.emit("remembered", "a")

        rest = await take_until(lines, "b7-33")
        gaps = [line for line in rest if line["type"] == GAP]
        told = [line for line in rest if line["type"] != GAP]
        assert [gap["counts"] for gap in gaps] == [{"missed": 20}]
        assert numbers(told) == [2, 3, *range(24, 34)]

    in_loop(scene)


def test_types_and_scope_choose_the_events() -> None:
    async def scene() -> None:
        events = ring()
        lines = {
            "types": events.follow({"decayed", "expired"}, "", ""),
            "scope": events.follow((), "alice", ""),
            "both": events.follow({"decayed"}, "alice/coder", ""),
            "all": events.follow((), "*", ""),
        }
        events.emit("job_started", "*", ["r1"])
        for scope in ("alice", "alice/coder", "alicia", "bob"):
            events.emit("remembered", scope)
            events.emit("decayed", scope)
        events.emit("job_finished", "*", ["r1"])

        assert numbers(await take(lines["types"], 4)) == [3, 5, 7, 9]
        assert numbers(await take(lines["scope"], 4)) == [2, 3, 4, 5]
        assert numbers(await take(lines["both"], 1)) == [5]
        assert numbers(await take(lines["all"], 10)) == list(range(1, 11))

    in_loop(scene)


@pytest.mark.parametrize(
    ("types", "scope", "after", "field", "told"),
    [
        ({"remembred"}, "", "", "types", "Did you mean 'remembered'?"),
        ({"remembered", "xyz"}, "", "", "types", "spend_refused"),
        ({GAP}, "", "", "types", "spend_refused"),
        ((), "a//b", "", "scope", "scope"),
        ((), "", "17", "Last-Event-ID", "Last-Event-ID"),
        ((), "", "b7-2", "Last-Event-ID", "Last-Event-ID"),
        ((), "", "b7-1 ", "Last-Event-ID", "Last-Event-ID"),
        ((), "", "b7--1", "Last-Event-ID", "Last-Event-ID"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_first_line(types, scope, after, field, told) -> None:
    async def scene() -> None:
        events = ring()
        events.emit("remembered", "a")
        with pytest.raises(Invalid) as caught:
            events.follow(types, scope, after)
        assert caught.value.extra["field"] == field
        assert told in caught.value.hint

    in_loop(scene)


def test_of_many_ids_a_hundred_are_listed_and_the_count_says_how_many_there_are() -> None:
    async def scene() -> None:
        events = ring()
        lines = events.follow((), "", "")
        ids = [f"m{n}" for n in range(MAX_IDS + 50)]
        events.emit("purged", "a", ids)
        events.emit("linked", "a", ids, {"edges": 80})
        events.emit("job_finished", "*", ["r1"], {"purged": 150})
        events.emit("commented", "a")
        purged, linked, finished, bare = await take(lines, 4)

        assert (purged["ids"], purged["counts"]) == (ids[:MAX_IDS], {"memories": 150})
        assert (linked["ids"], linked["counts"]) == (ids[:MAX_IDS], {"edges": 80, "memories": 150})
        assert (finished["ids"], finished["counts"]) == (["r1"], {"purged": 150})
        assert (bare["ids"], bare["counts"]) == ([], {})

    in_loop(scene)


def test_what_an_emitter_keeps_of_its_own_does_not_change_what_was_told() -> None:
    async def scene() -> None:
        events = ring()
        lines = events.follow((), "", "")
        ids, counts = ["m1"], {"edges": 1}
        events.emit("linked", "a", ids, counts)
        ids.append("m2")
        counts["edges"] = 9
        (line,) = await take(lines, 1)
        assert (line["ids"], line["counts"]) == (["m1"], {"edges": 1, "memories": 1})
        line["counts"]["edges"] = 5
        (again,) = await take(events.follow((), "", "b7-0"), 1)
        assert again["counts"] == {"edges": 1, "memories": 1}

    in_loop(scene)


def test_a_type_that_does_not_exist_cannot_be_emitted() -> None:
    with pytest.raises(ValueError, match="remembred"):
        ring().emit("remembred", "a")


def test_the_ring_holds_ten_thousand_events() -> None:
    async def scene() -> None:
        events = ring()
        for _ in range(CAPACITY + 7):
            events.emit("remembered", "a")
        gap, *rest = await take_until(events.follow((), "", "b7-0"), f"b7-{CAPACITY + 7}")

        assert gap["counts"] == {"missed": 7}
        assert numbers(rest) == list(range(8, CAPACITY + 8))

    assert CAPACITY == 10_000
    in_loop(scene)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 70), st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150)), max_size=6))
def test_events_and_gaps_together_are_all_that_was_emitted(capacity: int, turns: list[tuple[int, int]]) -> None:
    """However emitting and reading alternate: each number comes once, in order, or lies in a gap that says so."""

    async def scene() -> None:
        events = ring(capacity=capacity)
        lines = events.follow((), "", "")
        place = emitted = 0
        for emits, reads in [*turns, (1, 10**6)]:
            for _ in range(emits):
                events.emit("remembered", "a")
            emitted += emits
            for _ in range(reads):
                if place == emitted:
                    break
                (line,) = await take(lines, 1)
                (number,) = numbers([line])
                if line["type"] == GAP:
                    assert number == place + line["counts"]["missed"]
                    assert number > place
                else:
                    assert number == place + 1
                place = number
        assert place == emitted

    in_loop(scene)


def test_events_of_many_threads_reach_every_follower_in_one_order() -> None:
    async def scene() -> None:
        events = ring()
        followers = [events.follow((), "", "") for _ in range(3)]
        ready = threading.Barrier(4)

        def emit(name: str) -> None:
            ready.wait(PATIENCE)
            for n in range(500):
                events.emit("remembered", name, [f"{name}{n}"])

        threads = [threading.Thread(target=emit, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        first, *others = await asyncio.gather(*(take(lines, 2000) for lines in followers))
        for thread in threads:
            thread.join()

        assert numbers(first) == list(range(1, 2001))
        assert others == [first, first]
        for name in "abcd":
            assert [line["ids"] for line in first if line["scope"] == name] == [[f"{name}{n}"] for n in range(500)]

    in_loop(scene)


def test_a_follower_that_left_keeps_nobody_from_emitting_and_others_from_following() -> None:
    async def scene() -> None:
        events = ring()
        left = asyncio.create_task(take(events.follow((), "", ""), 1))
        stays = events.follow((), "", "")
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        events.emit("remembered", "a")

        assert numbers(await take(stays, 1)) == [1]

    in_loop(scene)


def test_a_thread_that_outlives_the_loop_may_go_on_emitting() -> None:
    events = ring()

    async def scene() -> None:
        events.follow((), "", "")

    in_loop(scene)
    events.emit("remembered", "a")
    events.emit("remembered", "a")

    async def later() -> None:
        assert numbers(await take(events.follow((), "", "b7-0"), 2)) == [1, 2]

    in_loop(later)
