"""The ring of real questions in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from storage.canaries import RING, Canary
from storage.engine import Sparse
from storage.ledger import Ledger

DICE = np.random.default_rng(3)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "state.db")
    yield opened
    opened.close()


def canary(at: float, ids: tuple[str, ...] = ("a",), scope: str = "default") -> Canary:
    dense = DICE.standard_normal(16).astype(np.float32)
    return Canary(at, scope, "personal", dense / np.linalg.norm(dense), Sparse((7, 4_000_000_000), (1.5, 0.25)), ids)


def test_a_question_comes_back_as_it_was_asked(ledger: Ledger) -> None:
    asked = canary(5.0, ("ж", "b"))
    ledger.canaries.add([asked])
    (back,) = ledger.canaries.every()

    assert back._replace(dense=asked.dense) == asked
    assert np.abs(back.dense - asked.dense).max() < 1e-3


def test_the_ring_keeps_the_newest(ledger: Ledger) -> None:
    ledger.canaries.add([canary(float(at)) for at in range(RING)])
    ledger.canaries.add([canary(float(at)) for at in range(RING, RING + 10)])

    assert [one.at for one in ledger.canaries.every()] == [float(at) for at in range(RING + 9, 9, -1)]


def test_the_same_question_is_renewed_and_not_kept_twice(ledger: Ledger) -> None:
    asked = canary(1.0)
    ledger.canaries.add([asked])
    ledger.canaries.add([asked._replace(at=2.0, ids=("b",))])
    ledger.canaries.add([asked._replace(scope="other")])

    assert sorted((one.at, one.ids, one.scope) for one in ledger.canaries.every()) == [
        (1.0, ("a",), "other"), (2.0, ("b",), "default")
    ]  # fmt: skip


def test_what_returned_an_erased_memory_goes_with_it(ledger: Ledger) -> None:
    ledger.canaries.add([canary(1.0, ("a", "b")), canary(2.0, ("c",)), canary(3.0, ("b",))])
    ledger.canaries.forget(["b", "x"])

    assert [one.ids for one in ledger.canaries.every()] == [("c",)]


def test_what_was_asked_in_an_erased_scope_or_below_it_goes_with_it(ledger: Ledger) -> None:
    scopes = ("ada", "ada/coder", "adam", "*", "ad%")
    ledger.canaries.add([canary(float(n), scope=scope) for n, scope in enumerate(scopes)])
    ledger.canaries.forget_within("ada")

    assert {one.scope for one in ledger.canaries.every()} == {"adam", "*", "ad%"}


def test_the_ring_survives_a_restart_and_can_be_emptied(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "state.db")
    first.canaries.add([canary(1.0)])
    first.close()
    second = Ledger(tmp_path / "state.db")
    kept = len(second.canaries.every())
    second.canaries.clear()

    assert (kept, second.canaries.every()) == (1, [])
    second.close()
