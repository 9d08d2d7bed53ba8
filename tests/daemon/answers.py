"""Answers of the daemon's methods, whole, for tests to show and to vary."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

ID = "3f2a9c1e-7b1f-4c3a-9a52-0c5b5ad2c001"
THEN = "2020-01-01T09:00:00Z"

MEMORY: dict[str, Any] = {
    "id": ID, "content": "Ada is allergic to nuts", "author": "", "scope": "default", "session": "", "type": "semantic",
    "subtype": "", "tags": ["food"], "entities": [], "metadata": {"trip": 1}, "tier": "short", "heat": "warm",
    "pinned": False, "emotion": 0.5, "importance": 0.5, "confidence": 1.0, "source": "stated", "provenance": "direct",
    "sensitivity": "personal", "source_turns": [], "redactions": {}, "version": 1, "change_summary": "",
    "state": "live", "created_at": THEN, "updated_at": THEN, "event_at": None, "accessed_at": None, "access_count": 0,
    "expires_at": None, "invalid_at": None, "superseded_by": None, "forgotten_at": None, "forgotten_reason": "",
    "content_hash": "c0ffee",
}  # fmt: skip
HIT: dict[str, Any] = MEMORY | {"score": 0.8349}
REMEMBERED: dict[str, Any] = {"id": ID, "created": True, "version": 1, "sensitivity": "personal", "redactions": {}}
STEP: dict[str, Any] = {
    "run_id": "run-1", "job": "dream", "trigger": "schedule", "dry_run": False, "outcome": "changed", "reason": None,
    "counts": {"linked": 3, "settled": 0}, "examples": [{"id": "m1", "reason": "near m2"}], "started_at": THEN,
    "ended_at": THEN, "took_s": 0.812, "late_by_s": None, "cost_usd": 0.0, "seed": 1, "parent": None, "undo_of": None,
    "undone_by": None,
    "canary": None,
}  # fmt: skip
RUN: dict[str, Any] = {
    name: STEP[name]
    for name in ("run_id", "job", "dry_run", "outcome", "reason", "counts", "examples", "took_s")
} | {"steps": []}  # fmt: skip
HEALTH: dict[str, Any] = {
    "status": "ok", "reasons": [], "version": "0.1.0", "pid": 12, "uptime_s": 3700.2, "memories": 3, "bin": 1, "edges": 5,
    "engine": "qdrant-edge", "embedder": "use", "socket": "/run/dreamd.sock", "state_dir": "/var/lib/dreamd",
    "paused": False, "running": None, "last_night": None, "last_night_outcome": None, "last_night_undone": False,
}  # fmt: skip

SIMULATED_DAY = {
    "day": 1, "at": "2026-01-02T03:04:05Z", "live": 10, "faded": 0, "expired": 0, "merged": 0, "returned": 0, "lost": 0,
    "bin": 9, "purged": 0, "edges": 1_234,
}  # fmt: skip


def simulated(days: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    """What `simulate` answers, from how many are live, faded, returned and lost each day."""
    rows = [
        SIMULATED_DAY | {
            "day": number, "at": f"{date(2026, 1, 1) + timedelta(days=number)}T00:00:00Z",
            "live": live, "faded": faded, "returned": returned, "lost": lost,
        }
        for number, (live, faded, returned, lost) in enumerate(days, 1)
    ]  # fmt: skip
    return {"days": len(rows), "recalls": "zipf", "rows": rows}
