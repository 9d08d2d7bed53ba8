"""Long texts: they go through the embedding lane in turns, so that they hold up neither a recall nor the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from daemon.client import CallError, Client
from storage.embed import BATCH_BYTES, Embedder, Fingerprint, ModelEmbedder
from tests.daemon.serving import until
from tests.fakes import HashEmbedder
from tests.harness import Daemon

LONG = "The committee met again and discussed the weather. " * 400  # 20 kB
QUERY = "who asked?"


class HeldModel:
    """A model that stops before the first batch of a long text, until it is let go.

    It notes its batches, and what `watch` gives before each.
    """

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.reached, self.go = threading.Event(), threading.Event()
        self.watch: Callable[[], Any] = lambda: None
        self.seen: list[Any] = []
        self._words = HashEmbedder()

    def load(self, _provider: str, _model: str) -> Embedder:
        return ModelEmbedder(Fingerprint("use", "words", 64), self.encode)

    def encode(self, texts: list[str]) -> Any:
        self.batches.append(texts)
        self.seen.append(self.watch())
        if "committee" in texts[0] and not self.reached.is_set():
            self.reached.set()
            assert self.go.wait(20)
        return self._words.embed(texts)

    @property
    def kinds(self) -> str:
        """The batches in the order in which they were embedded: L of a long text, s short."""
        return "".join("L" if "committee" in batch[0] else "s" for batch in self.batches)


@pytest.fixture
def model() -> Iterator[HeldModel]:
    model = HeldModel()
    yield model
    model.go.set()


@pytest.fixture
def slow(daemons: Any, model: HeldModel) -> Daemon:
    """A started daemon with that model."""
    started: Daemon = daemons(embedder=model.load).start()
    return started


class Clients:
    """Calls over the socket, each from a thread of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self._path = daemon.folder / "s"
        self._pool = ThreadPoolExecutor(8)

    def begin(self, method: str, **params: Any) -> Future[dict[str, Any]]:
        return self._pool.submit(self._call, method, params)

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        with Client(self._path, 60) as client:
            return client.call(method, **params)


LONG_WRITES = {
    "remember": {"content": LONG},
    "remember_many": {"items": [{"content": f"{n} {LONG}"} for n in range(6)]},
    "recall": {"query": LONG[:16_000]},
}


@pytest.mark.parametrize("method", LONG_WRITES)
def test_a_short_call_waits_for_one_turn_of_a_long_one(slow: Daemon, model: HeldModel, method: str) -> None:
    clients = Clients(slow)
    long = clients.begin(method, **LONG_WRITES[method])
    assert model.reached.wait(20)
    short = clients.begin("recall", query=QUERY)
    assert until(lambda: slow.parts.embedding.waiting == 1)

    model.go.set()
    short.result(60)
    long.result(60)

    assert model.kinds.startswith("LsLL")
    assert model.kinds.count("s") == 1


@pytest.mark.parametrize("method", LONG_WRITES)
def test_no_turn_embeds_more_than_a_batch(slow: Daemon, model: HeldModel, method: str) -> None:
    model.go.set()

    slow.call(method, **LONG_WRITES[method])

    assert len(model.batches) > 3
    assert all(sum(len(text.encode()) for text in batch) <= BATCH_BYTES for batch in model.batches)


def test_a_slice_of_a_batch_is_bounded_in_characters_too(slow: Daemon, model: HeldModel) -> None:
    """What is in the first slices can be found while the last one is embedded."""
    items = [{"content": f"{n} {LONG}", "id": f"m{n}"} for n in range(6)]
    model.go.set()
    model.watch = lambda: slow.stores.catalogue.get("m0") is not None

    done = slow.call("remember_many", items=items)

    assert done["created"] == 6
    assert (model.seen[0], model.seen[-1]) == (False, True)


def test_a_long_text_is_found_by_what_stands_anywhere_in_it(slow: Daemon, model: HeldModel) -> None:
    model.go.set()
    slow.call("remember", content=LONG + " Biscuit barks.", id="long")

    assert [hit["id"] for hit in slow.call("recall", query="Biscuit")["hits"]] == ["long"]


@pytest.mark.parametrize("method", LONG_WRITES)
def test_at_the_end_a_call_with_turns_left_is_refused_and_a_short_one_is_finished(
    slow: Daemon, model: HeldModel, method: str
) -> None:
    clients = Clients(slow)
    slow.call("remember", content="before", id="before")
    long = clients.begin(method, **LONG_WRITES[method])
    assert model.reached.wait(20)
    short = clients.begin("remember", content="in flight", id="short")
    assert until(lambda: slow.parts.embedding.waiting == 1)
    ending = ThreadPoolExecutor(1).submit(slow.stop)
    assert until(lambda: slow.app is None or not slow.app.service.open)

    model.go.set()
    ending.result(60)

    with pytest.raises(CallError, match=r"^The daemon is stopping\.$") as refused:
        long.result(60)
    assert (refused.value.kind, refused.value.hint) == ("unavailable", "dreamctl health")
    assert short.result(60)["created"]
    assert model.kinds.count("L") == 1
    slow.start()
    assert [slow.call("get", id=one)["content"] for one in ("before", "short")] == ["before", "in flight"]
    assert slow.call("stats")["total"] == 2


def test_a_batch_that_the_end_cut_short_goes_on_where_it_was_when_it_is_sent_again(
    slow: Daemon, model: HeldModel
) -> None:
    clients = Clients(slow)
    items = [{"content": f"note {n}"} for n in range(40)] + [{"content": LONG}]
    batch = clients.begin("remember_many", items=items, request_id="r")
    assert model.reached.wait(20)
    ending = ThreadPoolExecutor(1).submit(slow.stop)
    assert until(lambda: slow.app is None or not slow.app.service.open)
    model.go.set()
    ending.result(60)
    with pytest.raises(CallError, match="stopping"):
        batch.result(60)

    again = slow.start().call("remember_many", items=items, request_id="r")

    assert (again["failed"], again["created"]) == (0, 9)
    assert slow.call("stats")["total"] == 41
    assert slow.call("health")["status"] == "ok"


def test_a_refusal_at_the_end_is_no_fault_of_the_embedder(slow: Daemon, model: HeldModel) -> None:
    long = Clients(slow).begin("remember", content=LONG)
    assert model.reached.wait(20)
    slow.parts.embedding.refuse_patient()

    model.go.set()

    with pytest.raises(CallError, match="stopping"):
        long.result(60)
    assert slow.call("health")["status"] == "ok"
