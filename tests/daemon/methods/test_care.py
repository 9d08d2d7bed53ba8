"""How the daemon is."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from daemon import __version__
from tests.daemon.methods.asking import WatchedEmbedder, refused
from tests.harness import Daemon


def test_health_tells_who_it_is_and_what_it_keeps(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    daemon.remember("Ada bakes cake", connect_to=[tea])
    daemon.call("forget", id=daemon.remember("gone"))
    daemon.clock.advance(90)

    health = daemon.call("health")

    assert health == {
        "status": "ok", "reasons": [], "version": __version__, "pid": os.getpid(), "uptime_s": 90.0, "memories": 2, "bin": 1,
        "edges": 1, "engine": "qdrant-edge", "embedder": "use", "socket": str(daemon.folder / "s"),
        "state_dir": str(daemon.folder / "state"), "paused": False, "running": None, "last_night": None,
        "last_night_outcome": None, "last_night_undone": False,
    }  # fmt: skip


def test_health_does_not_count_what_is_past_its_end(daemon: Daemon) -> None:
    daemon.remember("stays")
    daemon.remember("ends", expires_at="2026-01-02")
    before = daemon.call("health")["memories"]
    daemon.clock.advance(86_400)

    assert (before, daemon.call("health")["memories"]) == (2, 1)


def test_health_lists_each_reason_with_what_to_do_until_it_is_mended(daemon: Daemon) -> None:
    daemon.parts.health.degrade("store", "It is read-only.", "dreamctl restore_snapshot NAME")
    daemon.parts.health.degrade("metrics", "No port.", "Set one.")

    health = daemon.call("health")

    assert health["status"] == "degraded"
    assert health["reasons"] == [
        {"name": "metrics", "detail": "No port.", "hint": "Set one."},
        {"name": "store", "detail": "It is read-only.", "hint": "dreamctl restore_snapshot NAME"},
    ]
    daemon.parts.health.mend("metrics")
    daemon.parts.health.mend("store")
    daemon.parts.health.mend("store")
    assert daemon.call("health")["status"] == "ok"


def test_an_embedder_that_fails_shows_in_health_until_it_answers_again(
    watched: Daemon, embedder: WatchedEmbedder
) -> None:
    watched.remember("green tea")
    for method, params in (("recall", {"query": "tea"}), ("remember_many", {"items": [{"content": "black tea"}]})):
        embedder.broken = True
        watched.call(method, **params)
        broken = watched.call("health")
        embedder.broken = False
        watched.call(method, **params)

        assert [(one["name"], one["hint"][:14]) for one in broken["reasons"]] == [("embedding", "Restart dreamd")]
        assert watched.call("health")["status"] == "ok"


def test_version_tells_what_runs(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_EMBEDDING__PROVIDER": "wordllama"}).start()

    version = daemon.call("version")

    assert version["version"] == __version__
    assert version["python"] == platform.python_version()
    assert version["engine"].startswith("qdrant-edge 0.")
    assert version["embedder"] == "wordllama"
    assert refused(daemon, "invalid", "version", verbose=True).extra["field"] == "verbose"
