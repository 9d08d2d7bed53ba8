"""A run that a test makes itself, in its own thread, so that it can come between two steps of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from daemon.texts import JobTexts
from jobs.context import Context
from tests.harness import Daemon


def context(daemon: Daemon, *, settings: dict[str, Any] | None = None, **changed: Any) -> Context:
    """What the runner would hand to a job, but for what is changed."""
    parts = daemon.parts
    plain: dict[str, Any] = {
        "stores": parts.stores, "lane": parts.lane, "settings": replace(parts.runner.settings, **(settings or {})),
        "run_id": daemon.clock.new_id(), "now": daemon.clock.now(), "rng": daemon.clock.rng(1), "dry_run": False,
        "stopping": lambda: False, "progress": lambda _done, _total: None, "learned": parts.learn.take,
        "texts": JobTexts(parts.gate, parts.embedding),
    }  # fmt: skip
    return Context(**{**plain, **changed})
