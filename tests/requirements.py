"""What a test needs of its machine: skipped where it is missing on a desk, failed where it is missing in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

NOBODY: Final = 65534


def require(condition: bool, reason: str) -> None:
    """Go on only if `condition` holds."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI lacks it: {reason}")
    pytest.skip(reason)


def whole_proof() -> bool:
    """Whether the long proofs run in full length (`make proof`) and not in CI's share of it."""
    return os.environ.get("PROOF") == "whole"


@contextmanager
def unprivileged() -> Iterator[None]:
    """Act as a user whom permissions bind: the superuser becomes `nobody` for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
