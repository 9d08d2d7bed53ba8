"""Marks of what a job has looked at: a name each, kept until they are let go of."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.examined import mark
from storage.ledger import Ledger

parts = st.lists(st.text("ab\n", max_size=3), min_size=1, max_size=4)


@settings(deadline=None)
@given(parts, parts)
def test_a_mark_is_of_all_its_parts_in_their_order(one: list[str], other: list[str]) -> None:
    assert -(2**63) <= mark(*one) < 2**63
    assert (mark(*one) == mark(*other)) == (one == other)


def test_each_job_has_marks_of_its_own(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    ledger.examined.add("dedup", [1, -(2**63), 2**63 - 1])
    ledger.examined.add("dedup", [1, 2])
    ledger.examined.add("link", [1])
    ledger.examined.drop("dedup", {1, 7})
    ledger.close()
    ledger = Ledger(tmp_path / "state.db")

    assert ledger.examined.of("dedup") == {2, -(2**63), 2**63 - 1}
    assert ledger.examined.of("link") == {1}
    assert ledger.examined.of("other") == set()
    ledger.close()
