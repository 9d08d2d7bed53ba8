"""Work for real nights, a client that writes meanwhile, and what must hold of a store whatever happened to it.

For `test_killed.py`. What was acknowledged is noted as soon as the answer is there; a write whose answer never came may
have been done or not, and is held to one of the two.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from daemon.client import CallError, Client
from daemon.presence import OWED_SINCE
from storage.edge import EdgeEngine
from storage.instants import format_instant
from storage.ledger import Ledger
from storage.memories import BIN, LIVE
from storage.model import DAY
from storage.rank import Weights
from storage.records import RECORDS
from storage.store import Stores, collections
from storage.synapses import SYNAPSES
from tests.bench.process import Process

WORDS = 256  # of the quicker embedder: the length of its vectors
STATES = ("live", "superseded", "forgotten")
MANY = 4  # of what a night moves or erases for each of the rest
PAUSE = 0.02  # seconds between two writes of the client
COMPARED = (
    "state",
    "content",
    "tags",
    "tier",
    "heat",
    "pinned",
    "emotion",
    "importance",
    "superseded_by",
    "sensitivity",
)


class Twins(NamedTuple):
    """Two memories that say the same in other letters; each has a tag, a comment and an edge by hand of its own."""

    one: str
    other: str
    tags: tuple[str, str]
    partners: tuple[str, str]


@dataclass(slots=True)
class Noted:
    """What the store must hold."""

    stored: set[str] = field(default_factory=set)
    outlived: set[str] = field(default_factory=set)  # past their time in the bin: a night may erase them
    expired: set[str] = field(default_factory=set)  # no list shows them until a night has moved them
    guarded: set[str] = field(default_factory=set)  # core or pinned
    twins: list[Twins] = field(default_factory=list)
    texts: dict[str, tuple[str, int]] = field(default_factory=dict)  # what the client wrote, with its version
    edges: set[tuple[str, str]] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, list[str | None]] = field(default_factory=dict)  # by id or key: either of two; None = not there


def word(number: int) -> str:
    """A word for a number: 317 is `fabala`."""
    return "".join("jbdfghklmn"[int(digit)] + "a" for digit in f"{number:03}")


def work(noted: Noted, name: str, now: float, size: int) -> Iterator[dict[str, Any]]:
    """Lines of an import that leave something to do for each job; `size` is how many of each kind there are."""
    scopes = [f"{name}/a", f"{name}/b/c"]
    spoken: list[dict[str, Any]] = []

    def memory(kind: str, n: int, text: str = "", *, days: float = 3.0, **fields: Any) -> dict[str, Any]:
        one = f"{name}-{kind}{n}"
        noted.stored.add(one)
        at = format_instant(now - days * DAY)
        content = text or f"{kind} of {name}: {word(n)} and {word(n + 400)} by the {word(n * 7 % 900)}"
        return {"kind": "memory", "id": one, "content": content, "scope": scopes[n % 2], "created_at": at, **fields}

    for n in range(size):
        yield memory("core", n, tier="core", emotion=0.9)
        yield memory("pinned", n, pinned=True, days=200.0)
        noted.guarded |= {f"{name}-core{n}", f"{name}-pinned{n}"}
        yield memory("fresh", n, session=f"{name}-s{n // 6}", emotion=n % 10 / 10)
        yield memory("idle", n, days=90.0, heat="hot", accessed_at=format_instant(now - 10 * DAY), access_count=2)
        used = format_instant(now - DAY)
        yield memory("used", n, days=20.0, accessed_at=used, access_count=4, access_days=3)
        yield memory("faded", n, days=120.0)
        for m in range(n, MANY * size, size):
            yield memory("expired", m, expires_at=format_instant(now - 3600.0))
            yield memory("gone", m, days=90.0, forgotten_at=format_instant(now - 50 * DAY), forgotten_reason="decayed")
            noted.expired.add(f"{name}-expired{m}")
            noted.outlived.add(f"{name}-gone{m}")
        replaced = {"invalid_at": format_instant(now - 400 * DAY), "superseded_by": f"{name}-core{n}"}
        yield memory("former", n, days=500.0, **replaced)
        noted.outlived.add(f"{name}-former{n}")
        yield memory(
            "near", n, f"{name} keeps the spare key number {word(n)} behind the blue door of house {word(n % 3)}"
        )
        text = f"the {word(n)} of {name} hangs behind the door of the {word(n + 500)}"
        yield memory("twin", n, text, tags=[f"{name}-left{n}"])
        yield memory("double", n, text.upper() if n % 2 else f"{text.capitalize()} ", tags=[f"{name}-right{n}"])
        next_core = f"{name}-core{(n + 2) % (size - size % 2 or 1)}"  # of the same scope
        twins = Twins(
            f"{name}-twin{n}",
            f"{name}-double{n}",
            (f"{name}-left{n}", f"{name}-right{n}"),
            (f"{name}-core{n}", next_core),
        )
        noted.twins.append(twins)
        spoken += [
            {"kind": "comment", "memory": one, "content": f"said of {one}", "author": "ada"} for one in twins[:2]
        ]
        for one, partner in zip(twins[:2], twins.partners, strict=True):
            spoken.append({"kind": "edge", "a": one, "b": partner, "weight": 4.0, "edge_kind": "manual"})
            noted.edges.add((one, partner))
        old = format_instant(now - 60 * DAY)
        weak = {"kind": "edge", "weight": 0.5, "edge_kind": "hebbian", "as_of": old, "created_at": old}
        spoken.append({**weak, "a": f"{name}-used{n}", "b": f"{name}-fresh{n}"})
    yield from sorted(spoken, key=lambda line: ("edge", "comment").index(line["kind"]))
    yield {"kind": "fact", "scope": name, "key": "made_for", "value": name}


def bring_in(client: Client, folder: Path, noted: Noted, name: str, now: float, size: int) -> None:
    """Import such work; nothing of it may be left out."""
    path = folder / f"{name}.jsonl"
    lines = list(work(noted, name, now, size))
    head = {"kind": "header", "format": "dreamd", "format_version": 1, "counts": {}}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))
    done = client.call("import", path=str(path))
    assert (done["failed_total"], done["conflicts_total"], done["skipped"]) == (0, 0, 0), done
    noted.facts[f"{name}:made_for"] = name


@contextmanager
def asked(process: Process, call: Callable[[Client], Any]) -> Iterator[None]:
    """A call in a thread of its own, whose daemon may be killed meanwhile."""
    with ThreadPoolExecutor(1) as pool, process.client() as client:
        answer = pool.submit(call, client)
        yield
        try:
            answer.result()
        except CallError as error:
            if error.kind not in ("unavailable", "not_running"):
                raise


class Writer:
    """A client that writes until it is told to end: remembers, edits, connects, sets facts."""

    def __init__(self, noted: Noted, name: str, dice: random.Random) -> None:
        self.ended = threading.Event()
        self._noted = noted
        self._name = name
        self._dice = dice
        self._old = [f"{name}-{kind}{n}" for kind in ("faded", "idle", "used", "near") for n in range(0, 6, 2)]
        self._own: list[str] = []

    def __call__(self, client: Client) -> None:
        """Note each write as soon as it is acknowledged."""
        number = 0
        while not self.ended.wait(PAUSE):
            self._write(client, number)
            number += 1

    def _write(self, client: Client, number: int) -> None:
        choice = self._dice.random()
        if choice < 0.5 or len(self._own) < 4:
            self._remember(client, f"{self._name}-w{number}", f"note {word(number % 900)} {number} of {self._name}")
        elif choice < 0.75:
            old = self._old and self._dice.random() < 0.2
            memory = self._old.pop() if old else self._dice.choice(self._own)
            self._update(client, memory, f"edit {number} of {self._name} {word(number % 900)}")
        elif choice < 0.9:
            a, b = sorted(self._dice.sample(self._own, 2))
            client.call("connect", a=a, b=b)
            self._noted.edges.add((a, b))
        else:
            self._set_fact(client, f"k{number % 7}", f"value {number}")

    def _remember(self, client: Client, memory: str, text: str) -> None:
        self._noted.doubtful[memory] = [None, text]
        client.call("remember", content=text, id=memory, scope=f"{self._name}/notes")
        del self._noted.doubtful[memory]
        self._noted.stored.add(memory)
        self._noted.texts[memory] = (text, 1)
        self._own.append(memory)

    def _update(self, client: Client, memory: str, text: str) -> None:
        """Of an old memory the night may have been quicker: then it is a conflict, and stays in the bin."""
        former = self._noted.texts.pop(memory, None)
        self._noted.doubtful[memory] = [former[0] if former else "", text]
        try:
            version = client.call("update", id=memory, content=text)["version"]
        except CallError as error:
            if error.kind != "conflict" or former is not None:
                raise
        else:
            self._noted.texts[memory] = (text, version)
        del self._noted.doubtful[memory]

    def _set_fact(self, client: Client, key: str, value: str) -> None:
        known = f"{self._name}:{key}"
        self._noted.doubtful[known] = [self._noted.facts.pop(known, None), value]
        client.call("fact_set", key=key, value=value, scope=self._name)
        self._noted.facts[known] = value
        del self._noted.doubtful[known]


@dataclass(slots=True)
class Book:
    """All that a daemon tells of its store."""

    memories: dict[str, dict[str, Any]]
    listed: dict[str, list[str]]  # the ids by state
    edges: dict[tuple[str, str], set[str]]  # kinds, by pair
    comments: Counter[str]  # how many each memory has
    facts: dict[str, str]
    total: int


def read_book(client: Client, folder: Path) -> Book:
    """Ask for everything: lists of every state, and an export."""
    path = folder / "book.jsonl"
    path.unlink(missing_ok=True)
    client.call("export", path=str(path))
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        lines.setdefault(line["kind"], []).append(line)
    edges: dict[tuple[str, str], set[str]] = {}
    for edge in lines.get("edge", ()):
        a, b = sorted((edge["a"], edge["b"]))
        edges.setdefault((a, b), set()).add(edge["edge_kind"])
    return Book(
        {one["id"]: one for one in lines["memory"]},
        {state: [one for page in pages(client, state) for one in page] for state in STATES},
        edges,
        Counter(one["memory"] for one in lines.get("comment", ())),
        {f"{one['scope']}:{one['key']}": one["value"] for one in lines.get("fact", ())},
        client.call("stats", scope="*")["total"],
    )


def pages(client: Client, state: str) -> Iterator[list[str]]:
    cursor: dict[str, str] = {}
    while True:
        page = client.call("list", scope="*", state=state, limit=500, **cursor)
        yield [memory["id"] for memory in page["memories"]]
        if not page["cursor"]:
            return
        cursor = {"cursor": page["cursor"]}


def check(book: Book, noted: Noted) -> None:
    """What must hold, whatever was killed; what was in doubt is settled by what is there."""
    settle(book, noted)
    there = Counter(one for ids in book.listed.values() for one in ids)
    assert max(there.values()) == 1, "a memory in two states"
    hidden = book.memories.keys() - there.keys()
    assert there.keys() <= book.memories.keys()
    assert hidden <= noted.expired, "a memory in no state"
    assert book.total == len(book.listed["live"])
    assert noted.stored - book.memories.keys() <= noted.outlived, "a memory is lost"
    live = set(book.listed["live"])
    assert noted.guarded <= live
    assert live.isdisjoint(noted.outlived)
    wrong = {
        one: written for one, written in noted.texts.items()
        if one not in live or (book.memories[one]["content"], book.memories[one]["version"]) != written
    }  # fmt: skip
    assert not wrong, "an acknowledged text is not there"
    assert noted.facts.items() <= book.facts.items()
    survivors = {one: book.memories[one]["superseded_by"] for one in book.listed["superseded"]}
    for twins in noted.twins:
        check_twins(book, twins, live)
    for edge in noted.edges:
        a, b = sorted(survivors.get(end, end) for end in edge)
        assert "manual" in book.edges.get((a, b), ()), f"the edge {edge} is lost"


def settle(book: Book, noted: Noted) -> None:
    """Either of the two that a write in doubt may have left must be there, and is what counts from now on."""
    for name, either in noted.doubtful.items():
        if ":" in name:
            value = book.facts.get(name)
            assert value in either, f"the fact {name} is neither of {either}"
            noted.facts |= {} if value is None else {name: value}
            continue
        memory = book.memories.get(name)
        assert memory is not None or None in either, f"{name} is lost"
        if memory is None:
            continue
        noted.stored.add(name)
        assert memory["content"] in either or "" in either, f"{name} says neither of {either}"
        if memory["content"] in either:
            noted.texts[name] = (memory["content"], memory["version"])
    noted.doubtful.clear()


def check_twins(book: Book, twins: Twins, live: set[str]) -> None:
    """Both are there as they were, or one is the other's successor and has all that was its own."""
    ids = {twins.one, twins.other}
    left = ids & live
    rows = {one: book.memories[one] for one in ids}
    assert left, f"both of {ids} are gone"
    if left == ids:
        tags = {one: set(rows[one]["tags"]) for one in ids}
        assert tags == {twins.one: {twins.tags[0]}, twins.other: {twins.tags[1]}}, f"{ids} are half merged"
        assert {one: book.comments[one] for one in ids} == dict.fromkeys(ids, 1), f"{ids} are half merged"
        return
    survivor, duplicate = *left, *(ids - left)
    assert (rows[duplicate]["state"], rows[duplicate]["superseded_by"]) == ("superseded", survivor)
    assert set(twins.tags) <= set(rows[survivor]["tags"]), f"{survivor} lacks what {duplicate} had"
    assert (book.comments[survivor], book.comments[duplicate]) == (2, 0), f"{survivor} lacks what {duplicate} had"
    assert not [pair for pair in book.edges if duplicate in pair], f"{duplicate} still has edges"


def check_back(before: Book, after: Book, noted: Noted) -> None:
    """All that nobody touched meanwhile is as it was, but for what was erased for good."""
    untouched = before.memories.keys() - noted.texts.keys() - noted.outlived
    for one in untouched:
        was, now = ({name: book.memories[one][name] for name in COMPARED} for book in (before, after))
        assert was == now
        assert before.comments[one] == after.comments[one]


def audit(state: Path) -> None:
    """A store that was stopped cleanly, looked at from within: every count agrees, nothing hangs in the air."""
    engine = EdgeEngine.open(state / "store", collections(WORDS), reserve_mb=16)
    ledger = Ledger(state / "state.db")
    try:
        stored = {name: engine.count(name) for name in (LIVE, BIN, SYNAPSES, RECORDS)}
        stores = Stores(engine, ledger, weights=Weights(), default_sensitivity="personal")
        assert not stores.damage
        stores.load()  # drops what it finds to be left over
        catalogue = stores.catalogue
        known = {LIVE: len(catalogue), BIN: catalogue.gone_count, SYNAPSES: len(stores.synapses)}
        assert stored == known | {RECORDS: engine.count(RECORDS)}
        assert all(edge.a in catalogue and edge.b in catalogue for _, edge in stores.synapses.every())
        owners = {
            record.payload["owner"] for batch in engine.scroll(RECORDS, fields=("owner", "kind")) for record in batch
            if record.payload.get("kind") in ("version", "comment")
        }  # fmt: skip
        assert {owner for owner in owners if owner not in catalogue} == set()
    finally:
        engine.close()
        ledger.close()


def earlier(state: Path, hours: float) -> None:
    """Let all runs of a stopped daemon have taken place so much earlier, so that a scheduled one is due."""
    with closing(sqlite3.connect(state / "state.db")) as ledger, ledger:
        for column in ("runs SET started_at", "runs SET ended_at", "journal SET at"):
            ledger.execute(f"UPDATE {column} = {column.split()[-1]} - ?", (hours * 3600.0,))
        ledger.execute("UPDATE meta SET value = value - ? WHERE key = ?", (hours * 3600.0, OWED_SINCE))
