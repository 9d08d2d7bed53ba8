"""What a test needs of its machine: skipped where it is missing on a desk, failed where it is missing in CI."""

from __future__ import annotations

import os

import pytest


def require(condition: bool, reason: str) -> None:
    """Go on only if `condition` holds."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI lacks it: {reason}")
    pytest.skip(reason)
