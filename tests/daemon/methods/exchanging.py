"""Daemons that hand memories over to each other in files, and what a test looks for in these."""

from __future__ import annotations

import asyncio
import csv
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daemon.rpc import Caller
from jobs.unfinished import PENDING
from storage.records import RECORDS
from storage.store import COLLECTIONS
from tests.harness import BY_HAND, Daemon, started

FORMATS = ("jsonl", "json", "csv")

#: A sentence in each of twelve scripts, with what is easily lost on the way: families of emoji, text from right to left,
#: marks that combine, line ends of every kind, quotes, formulas, characters that print nothing.
SENTENCES = {
    "latin": 'Zoë’s café: "naïve" œuvre; a\r\nb\nc\td, \\n is none',
    "greek": "Η Άννα δεν τρώει ξηρούς καρπούς ΐ",
    "cyrillic": "Бабушка Ёлка живёт в Й-городе",
    "arabic": "=سلمى تحب القهوة\u200f (قَهْوَة) 123",
    "hebrew": "דָּוִד גר ב־תל אביב\u202b מימין\u202c",
    "devanagari": "राधा को नारियल क़ पसंद नहीं है",
    "thai": "สมชายแพ้ถั่วลิสงมาก ๆ",
    "chinese": "小明对花生过敏，住在上海。\u3000",
    "japanese": "がっこうで「ピーナッツ」を食べない㍿",
    "korean": "민수는 땅콩 알레르기가 있다 한글",
    "georgian": "+გიორგის არ უყვარს თხილი",
    "emoji": "@👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 1️⃣ 🇩🇪 e\u0323\u0301 \u2028 \u0085 \U0001f9d1\u200d\U0001f692",
}


def fill(daemon: Daemon) -> dict[str, str]:
    """One of everything that a daemon keeps; returns the ids by what they are."""
    ids = {
        name: daemon.remember(text, scope=f"world/{name}", author=f"von {name} ß") for name, text in SENTENCES.items()
    }
    plain = {"scope": "home", "session": "s1"}
    ids["nuts"] = daemon.remember("Ada is allergic to nuts", **plain, tags=["Food", "α/β"], importance=0.9, emotion=0.7)
    ids["bees"] = daemon.remember(
        "Ada keeps bees", **plain, author="Bob", context="a long story\n\n'=1", pinned=True, tier="core", type="episodic",
        event_at="2024-02-29T12:00:00.123456Z", expires_at="9999-12-31T23:59:59Z", source="inferred", confidence=0.25,
        subtype="hobby", metadata={"n": None, "f": 0.1 + 0.2, "i": 2**60, "deep": [{"é": [True, "=x"]}], "": ""},
    )  # fmt: skip
    ids["tea"] = daemon.remember("Ada drinks tea", scope="home", sensitivity="public")
    ids["pin"] = daemon.remember("The vault opens at noon", scope="home", sensitivity="secret")
    ids["old"] = daemon.remember("Ada lives in Paris", scope="home")
    ids["new"] = daemon.remember("Ada lives in Rome", scope="home")
    daemon.call("forget", id=ids["old"], superseded_by=ids["new"])
    ids["gone"] = daemon.remember("Ada owns a car", scope="home")
    daemon.call("forget", id=ids["gone"])
    daemon.clock.advance(3600.000001)
    daemon.call("update", id=ids["nuts"], content="Ada is allergic to all nuts\r\n", tags=["food", "health"])
    daemon.clock.advance(1)
    daemon.call("update", id=ids["nuts"], sensitivity="confidential")
    daemon.call("connect", a=ids["nuts"], b=ids["bees"], weight=1.23456789, label="=both Ada")
    daemon.call("connect", a=ids["tea"], b=ids["pin"])
    comment = daemon.call("comment", id=ids["nuts"], content="since when?", author="Eve")["id"]
    ids["reply"] = daemon.call("comment", id=ids["bees"], content="\u200fsince birth", reply_to=comment)["id"]
    daemon.call("mark_comments_read", ids=[comment])
    daemon.call("fact_set", key="wifi/name", value={"f": 0.1 + 0.2, "big": 10**30, "none": None}, scope="home")
    daemon.call("fact_set", key="nothing", value=None)
    for role, text in (("user", "Hello, I am Ada"), ("assistant", "Hello Ada 👋🏽")):
        daemon.call("add_turn", session="chat", role=role, content=text, scope="home/chat", metadata={"r": 0.7})
    daemon.call("end_session", session="chat", scope="home/chat")
    daemon.call("add_turn", session="open", content="still here")
    for text in ("I was here", "I am there"):
        daemon.call("write_session_state", text=text, scope="home/chat")
    for _ in range(3):
        daemon.call("recall", query="what is Ada allergic to?", scope="home", k=3)
    daemon.call("recall", query="Ada drinks tea, Ada lives in Rome", scope="home", k=3)
    daemon.call("run_job", name="hebbian")
    return ids


def exports(folder: Path) -> Path:
    """The exports of one daemon that was filled, by the names of their formats."""
    with started(options=BY_HAND) as daemon:
        fill(daemon)
        for name in FORMATS:
            daemon.call("export", path=str(folder / name), format=name)
    return folder


def saved(path: Path, *records: dict[str, Any] | str) -> str:
    """A file of these records, or lines as they are; returns its path as it goes on the wire."""
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in records))
    return str(path)


def everything(daemon: Daemon) -> dict[str, Any]:
    """All that an import could change, and whether one is not through."""

    def look() -> dict[str, Any]:
        stores = daemon.stores
        return {
            "rows": {row.id: row for row in stores.catalogue.every()},
            "edges": dict(stores.synapses.every()),
            "records": {record.id: record.payload for batch in stores.engine.scroll(RECORDS) for record in batch},
            "points": {name: stores.engine.count(name) for name in COLLECTIONS},
            "pending": stores.ledger.fact(PENDING),
        }

    return daemon.in_lane(look)


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of an export as JSON lines, its header first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def of_kind(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in lines(path) if line["kind"] == kind]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def undated(path: Path) -> bytes:
    """An export without the moment at which it was made."""
    content = path.read_bytes()
    at = content.find(b'"exported_at":"')
    return content if at < 0 else content[:at] + content[content.index(b'"', at + 15) :]


def streamed(daemon: Daemon, method: str, listener: Callable[[dict[str, Any]], None], **params: Any) -> dict[str, Any]:
    """The result of a call whose progress somebody hears."""
    assert daemon.app is not None
    result: dict[str, Any] = daemon.run(daemon.app.service.call(method, params, Caller(0, 0, ""), listener))
    return result


class Halfway:
    """A listener that stops a call at a progress, so that a test can do something meanwhile."""

    def __init__(self, when: Callable[[dict[str, Any]], bool]) -> None:
        self._when = when
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, progress: dict[str, Any]) -> None:
        if not self.reached.is_set() and self._when(progress):
            self.reached.set()
            self.go_on.wait(60)


def begun(daemon: Daemon, method: str, listener: Callable[[dict[str, Any]], None], **params: Any) -> Any:
    """A call that goes on while the test does something else; `result` waits for it."""
    assert daemon.app is not None
    call = daemon.app.service.call(method, params, Caller(0, 0, ""), listener)
    return asyncio.run_coroutine_threadsafe(call, daemon._loop)
