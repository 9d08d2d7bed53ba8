"""Request ids: claimed by one caller at a time, recognised for a day, bound to what they stood for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.retries import KEPT_SECONDS, Retries
from storage.errors import Conflict
from storage.ledger import Ledger


@pytest.fixture
def retries(tmp_path: Path) -> Iterator[Retries]:
    ledger = Ledger(tmp_path / "state.db")
    yield Retries(ledger)
    ledger.close()


def test_an_answer_is_kept_for_its_request_and_its_day(retries: Retries) -> None:
    retries.keep("r", "remember", {"content": "x"}, {"id": "m"}, now=1000.0)

    assert retries.answer("r", "remember", {"content": "x", "request_id": "r"}, 1000.0 + KEPT_SECONDS) == {"id": "m"}
    assert retries.answer("r", "remember", {"content": "x"}, 1001.0 + KEPT_SECONDS) is None
    assert retries.answer("other", "remember", {"content": "x"}, 1000.0) is None


@pytest.mark.parametrize(
    ("method", "params"), [("remember", {"content": "y"}), ("update", {"content": "x"}), ("remember", {})]
)
def test_another_request_with_the_same_id_is_a_conflict(retries: Retries, method: str, params: dict[str, str]) -> None:
    retries.keep("r", "remember", {"content": "x"}, {"id": "m"}, now=1000.0)

    with pytest.raises(Conflict, match="another request") as caught:
        retries.answer("r", method, params, 1000.0)

    assert caught.value.extra["field"] == "request_id"


def test_claims_on_one_id_follow_each_other_and_others_do_not_wait(retries: Retries) -> None:
    order: list[str] = []

    async def hold(name: str, requests: list[str], until: asyncio.Event | None = None) -> None:
        async with retries.claim(requests):
            order.append(f"{name} begins")
            if until is not None:
                await until.wait()
            order.append(f"{name} ends")

    async def play() -> None:
        go_on = asyncio.Event()
        first = asyncio.create_task(hold("first", ["a", "b"], go_on))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(hold("second", ["b", "c"])), asyncio.create_task(hold("third", ["c", "b"]))]
        await hold("apart", ["c", "d"])
        go_on.set()
        await asyncio.wait_for(asyncio.gather(first, *waiting), 20)

    asyncio.run(play())

    assert order[:3] == ["first begins", "apart begins", "apart ends"]
    assert order[3] == "first ends"
    assert sorted(order[4:]) == ["second begins", "second ends", "third begins", "third ends"]
    assert order.index("second ends") == order.index("second begins") + 1


def test_a_claim_ends_with_whatever_ends_the_work(retries: Retries) -> None:
    async def play() -> None:
        with pytest.raises(RuntimeError, match="broken"):
            async with retries.claim(["a"]):
                raise RuntimeError("broken")
        async with asyncio.timeout(20), retries.claim(["a"]):
            pass

    asyncio.run(play())
