"""What happens while memories get new vectors is not lost, and what was done before a stop or a kill is not done again."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from storage.embed import Embedder
from storage.gate import Gate
from storage.swap import NEXT, PROGRESS
from tests.daemon.methods.asking import refused
from tests.daemon.methods.providers import USE, WORDLLAMA, Providers, Waiting
from tests.daemon.serving import until
from tests.fakes import Rows
from tests.harness import BY_HAND, Daemon
from tests.jobs.reindexed import closest, contents, everything, fill, made_with_another

Make = Callable[..., Daemon]


@pytest.fixture
def providers() -> Providers:
    return Providers()


@pytest.fixture
def changed(daemons: Make, providers: Providers) -> Daemon:
    return made_with_another(daemons, providers)


# -- what happens meanwhile


class Slow:
    """Two providers, of which `wordllama` waits for the test after so many calls."""

    def __init__(self, after: int) -> None:
        self._others = Providers()
        self.waiting = Waiting("wordllama", 32, after)

    def load(self, provider: str, model: str) -> Embedder:
        return self.waiting if provider == "wordllama" else self._others.load(provider, model)


def test_what_is_written_during_a_reindex_is_not_lost(daemons: Make) -> None:
    slow = Slow(after=1)
    first = daemons(options=BY_HAND | USE, embedder=slow.load).start()
    fill(first, 80)
    first.call("forget", id="n70")
    first.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=slow.load, clock=first.clock).start()
    result: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: result.append(daemon.call("reindex")))
    thread.start()
    assert slow.waiting.reached.wait(60)

    def meanwhile() -> None:
        daemon.call("update", id="n1", content="edited meanwhile")
        daemon.call("pin", id="n2")
        daemon.call("forget", id="n3")
        daemon.call("forget", id="n4", hard=True)
        daemon.call("forget", id="n5", hard=True)
        daemon.remember("n5 again, another text", id="n5")
        daemon.call("restore", id="n70")
        daemon.call("connect", a="n6", b="n7")
        daemon.remember("made meanwhile", id="made")
        daemon.clock.advance(60)

    meanwhile()
    assert daemon.call("recall", query="note 9 about topic9", learn=False)["hits"][0]["id"] == "n9"
    refused(daemon, "conflict", "reindex")
    refused(daemon, "conflict", "restore_snapshot", name="x")
    slow.waiting.go.set()
    thread.join(60)

    assert result[0]["outcome"] == "changed"
    after = everything(daemon)
    texts = {memory: one.content for memory, one in after["memories"].items()}
    assert (texts["n1"], texts["n5"], texts["made"]) == ("edited meanwhile", "n5 again, another text", "made meanwhile")
    assert after["memories"]["n2"].pinned
    assert after["memories"]["n3"].state == "forgotten"
    assert after["memories"]["n70"].state == "live"
    assert "n4" not in texts
    assert len(texts) == 80
    daemon.restart()
    assert everything(daemon) == after
    assert daemon.call("health")["status"] == "ok"
    for memory in ("n1", "n5", "made"):
        assert closest(daemon, texts[memory]) == memory
    assert any(one["id"] == "n7" for one in daemon.call("neighbors", id="n6")["neighbors"])


def test_recall_answers_all_the_time(daemons: Make, providers: Providers) -> None:
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 300)
    first.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()
    ended = threading.Event()
    found: list[str] = []

    def ask() -> None:
        while not ended.is_set():
            number = len(found) % 300
            hits = daemon.call("recall", query=f"note {number} about topic{number}", k=1)["hits"]
            assert hits[0]["id"] == f"n{number}"
            found.append(hits[0]["id"])

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        done = daemon.call("reindex")
        seen = len(found)
        assert until(lambda: len(found) > seen + 10)
        ended.set()
        for one in asking:
            one.result()

    assert done["outcome"] == "changed"
    assert seen > 3


class Leaving:
    """The former embedder, which has just made its last rows when the stores are exchanged."""

    def __init__(self, former: Embedder, gate: Gate) -> None:
        self.fingerprint = former.fingerprint
        self.texts: list[str] = []
        self._former = former
        self._gate = gate
        self._next = gate.embedder
        gate.use(self)

    def embed(self, texts: Sequence[str]) -> Rows:
        self.texts += texts
        self._gate.use(self._next)
        return self._former.embed(texts)


def test_a_write_that_the_former_embedder_read_is_embedded_anew(changed: Daemon) -> None:
    former = changed.parts.gate.embedder
    changed.call("reindex")
    leaving = Leaving(former, changed.parts.gate)

    changed.remember("came late", id="late")

    assert leaving.texts == ["came late"]
    assert closest(changed, "came late") == "late"


def test_a_question_that_the_former_embedder_read_is_answered_by_keyword(changed: Daemon) -> None:
    former = changed.parts.gate.embedder
    changed.call("reindex")
    leaving = Leaving(former, changed.parts.gate)

    found = changed.call("recall", query="topic40", learn=False)

    assert leaving.texts == ["topic40"]
    assert found["hits"][0]["id"] == "n40"


# -- cut short


def test_a_reindex_that_a_stop_cut_short_goes_on_where_it_was(daemons: Make) -> None:
    slow = Slow(after=2)
    first = daemons(options=BY_HAND | USE, embedder=slow.load).start()
    fill(first, 200)
    first.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=slow.load, clock=first.clock).start()
    result: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: result.append(daemon.call("reindex")))
    thread.start()
    assert slow.waiting.reached.wait(60)
    stopping = threading.Thread(target=daemon.stop)
    stopping.start()
    slow.waiting.go.set()
    for one in (thread, stopping):
        one.join(60)

    assert [one["outcome"] for one in result] in ([], ["cancelled"])
    seen = len(slow.waiting.seen)
    assert 0 < seen < 200
    assert (daemon.folder / "state" / NEXT / PROGRESS).exists()
    daemon.start()
    assert daemon.call("health")["embedder"] == "use"
    assert daemon.call("runs")["runs"][0]["outcome"] == "cancelled"
    done = daemon.call("reindex")

    assert done["outcome"] == "changed"
    assert done["memories"] < 200
    assert len(slow.waiting.seen) < 200 + 33  # what was embedded when it was stopped is embedded again
    assert daemon.call("health")["status"] == "ok"
    assert len(contents(daemon)) == 200


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from tests.daemon.methods.providers import WORDLLAMA, Named, Providers
    from tests.harness import BY_HAND, Daemon

    class Deadly(Named):
        calls = 0
        def embed(self, texts):
            self.calls += 1
            if self.calls > 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().embed(texts)

    providers = Providers()
    def load(provider, model):
        return Deadly("wordllama", 32) if provider == "wordllama" else providers.load(provider, model)

    Daemon(Path(sys.argv[1]), options=BY_HAND | WORDLLAMA, embedder=load).start().call("reindex")
"""


def reindex_and_kill(stopped: Daemon) -> None:
    """Begin to reindex in another process, which is killed at its fourth batch."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(stopped.folder)]
    done = subprocess.run(command, check=False, timeout=100, cwd=Path(__file__).parents[2], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def test_a_reindex_that_was_killed_half_way_goes_on_where_it_was(daemons: Make, providers: Providers) -> None:
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 200)
    first.stop()
    reindex_and_kill(first)

    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()

    assert daemon.call("health")["embedder"] == "use"
    assert daemon.call("recall", query="topic150")["hits"][0]["id"] == "n150"
    daemon.call("update", id="n0", content="edited after the kill")
    daemon.call("forget", id="n1", hard=True)
    finished = daemon.call("reindex")
    assert finished["outcome"] == "changed"
    assert 0 < finished["memories"] < 200
    assert len(contents(daemon)) == 199
    assert contents(daemon)["n0"] == "edited after the kill"
    assert daemon.call("health")["status"] == "ok"
    daemon.restart()
    assert closest(daemon, "edited after the kill") == "n0"
    assert daemon.call("run_job", name="scrub")["counts"]["scrubbed"] > 0


def test_what_was_made_for_another_embedder_is_not_gone_on_with(daemons: Make, providers: Providers) -> None:
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 40)
    first.stop()
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()
    left = daemon.folder / "state" / NEXT
    left.mkdir()
    (left / PROGRESS).write_text('{"embedder": {"provider": "third"}, "erasures": 0}')
    (left / "memories").write_text("a file in the way")

    assert daemon.call("reindex")["memories"] == 40


def test_what_cannot_be_read_of_a_reindex_is_made_anew(daemons: Make, providers: Providers) -> None:
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 200)
    first.stop()
    reindex_and_kill(first)
    (first.folder / "state" / NEXT / "memories" / "edge_config.json").write_text("{")
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()

    assert daemon.call("reindex")["memories"] == 200
    assert len(contents(daemon)) == 200


def test_a_scrub_takes_the_copies_of_a_reindex_that_was_cut_short(daemons: Make, providers: Providers) -> None:
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 200)
    first.stop()
    reindex_and_kill(first)
    daemon = daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()
    assert (daemon.folder / "state" / NEXT).exists()
    daemon.call("forget", id="n0", hard=True)

    daemon.call("run_job", name="scrub")

    assert not (daemon.folder / "state" / NEXT).exists()
    assert daemon.call("reindex")["memories"] == 199
