"""No result of any read method ever breaks its filter: random memories, random filters, an oracle written apart."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import DreamdError
from storage.instants import parse_instant
from storage.model import SENSITIVITIES
from tests.harness import BY_HAND, Daemon, started

SCOPES = ("a", "a/b", "a/b/c", "d", "default")
TAGS = ("tea", "work", "home")
SUBTYPES = ("", "note", "plan")
TYPES = ("semantic", "episodic", "procedural", "active")
TIERS, HEATS, SOURCES = ("short", "long", "core"), ("cold", "warm", "hot"), ("stated", "inferred", "learned")
AUTHORS = ("", "Ada", "Grace")
CHARACTERS = {"everyday": "likes tea and plans the work of the week", "rare": "keeps the vault code"}


class World:
    """A daemon filled once; `level` and `scope` of every planted word, which is part of all that belongs to its thing."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.places: dict[str, tuple[str, str]] = {}  # word -> (scope, sensitivity)
        self.memories: dict[str, dict[str, Any]] = {}
        dice = random.Random(20261130)
        for number in range(90):
            self._remember(number, dice)
        for number in range(60):
            a, b = dice.sample(sorted(self.memories), 2)
            if self.memories[a]["scope"] == self.memories[b]["scope"]:
                daemon.call("connect", a=a, b=b, label=self._word(f"L{number}", *self._higher(a, b)))
        for number, memory in enumerate(dice.sample(sorted(self.memories), 30)):
            self._edit_and_comment(number, memory)
        for number in range(30):
            scope, level = dice.choice(SCOPES), "personal"  # what nobody marked
            daemon.call("fact_set", key=self._word(f"K{number}", scope, level), value=f"v{number}", scope=scope)
            session, word = f"talk{number % 7}", self._word(f"T{number}", scope, level)
            daemon.call("add_turn", session=session, role="user", content=f"{word} was said", scope=scope)
            daemon.call("write_session_state", text=f"{self._word(f'S{number}', scope, level)} is next", scope=scope)
        for memory in dice.sample(sorted(self.memories), 6):
            daemon.call("forget", id=memory)
            self.memories[memory]["state"] = "forgotten"

    def _word(self, name: str, scope: str, level: str) -> str:
        word = f"Zq{name}x"
        self.places[word] = (scope, level)
        return word

    def _higher(self, *memories: str) -> tuple[str, str]:
        """The scope of these memories, and the highest of their levels."""
        levels = [self.memories[memory]["sensitivity"] for memory in memories]
        return self.memories[memories[0]]["scope"], max(levels, key=SENSITIVITIES.index)

    def _remember(self, number: int, dice: random.Random) -> None:
        fields: dict[str, Any] = {
            "scope": dice.choice(SCOPES), "sensitivity": dice.choice(SENSITIVITIES), "type": dice.choice(TYPES),
            "subtype": dice.choice(SUBTYPES), "tier": dice.choice(TIERS), "source": dice.choice(SOURCES),
            "author": dice.choice(AUTHORS), "pinned": dice.random() < 0.2, "confidence": dice.choice((0.2, 0.5, 1.0)),
            "event_at": f"2025-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}T00:00:00Z",
            "importance": dice.random(), "emotion": dice.random(),
        }  # fmt: skip
        word = self._word(f"M{number}", fields["scope"], fields["sensitivity"])
        tags = [*dice.sample(TAGS, dice.randint(0, 3)), word.lower()]
        self.places[word.lower()] = self.places[word]
        metadata = {"number": number, "odd": bool(number % 2), "word": word}
        text = f"{dice.choice(sorted(CHARACTERS.values()))}, says {word} to “{word} Song”."
        self.daemon.remember(
            text, id=word, tags=tags, metadata=metadata, session=f"s{number % 9}", context=word, **fields
        )
        self.memories[word] = fields | {"tags": tags, "metadata": metadata, "state": "live", "heat": "warm"}

    def _edit_and_comment(self, number: int, memory: str) -> None:
        """A comment of its own, and a former text that was more sensitive than what the memory says now may be."""
        scope, level = self._higher(memory)
        self.daemon.call("comment", id=memory, content=f"{self._word(f'C{number}', scope, level)}?", author="user")
        self.daemon.call("update", id=memory, content=f"{memory} {self._word(f'V{number}', scope, level)} again.")
        self.daemon.call("update", id=memory, content=f"{memory} once more, number {number}.")

    def hidden(self, scope: str, clearance: str) -> list[str]:
        """The words that a caller who reads this scope with this clearance may not meet."""
        return [word for word, place in self.places.items() if not seen(place, scope, clearance)]


def seen(place: tuple[str, str], scope: str, clearance: str) -> bool:
    where, level = place
    inside = scope == "*" or where == scope or where.startswith(f"{scope}/")
    return inside and SENSITIVITIES.index(level) <= SENSITIVITIES.index(clearance)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with started(options=BY_HAND) as daemon:
        yield World(daemon)


scopes = st.sampled_from((*SCOPES, "*", "a"))
clearances = st.sampled_from(SENSITIVITIES)


@st.composite
def filters(draw: st.DrawFn) -> dict[str, Any]:
    """Any filters, each there about every fourth time."""
    some: dict[str, st.SearchStrategy[Any]] = {
        "tags": st.lists(st.sampled_from(TAGS), min_size=1, max_size=2), "type": st.sampled_from(TYPES),
        "tags_any": st.lists(st.sampled_from((*TAGS, "zqm3x")), min_size=1, max_size=2),
        "subtype": st.sampled_from(("note", "plan")), "author": st.sampled_from(("Ada", "Grace")),
        "tier": st.sampled_from(TIERS), "heat": st.sampled_from((["hot", "warm"], "cold")),
        "source": st.sampled_from(SOURCES), "pinned": st.booleans(), "min_confidence": st.sampled_from((0.3, 0.6)),
        "sensitivity": st.sampled_from((*SENSITIVITIES, ["public", "secret"])),
        "since": st.sampled_from(("2025-04-01", "2025-09-01")), "until": st.sampled_from(("2025-05-01", "2025-10-01")),
        "entity": st.sampled_from(("ada", "ZqM5x", "zqm5x song")),
        "where": st.sampled_from(({"odd": True}, {"number": {"lt": 40}}, {"number": {"in": [1, 2, 3]}, "odd": {"ne": False}})),
    }  # fmt: skip
    chosen = [name for name in some if draw(st.integers(0, 3)) == 0]
    asked = {name: draw(some[name]) for name in chosen} | {"scope": draw(scopes), "clearance": draw(clearances)}
    if asked.get("since", "") > asked.get("until", "9999"):  # that is invalid
        del asked["since"]
    return asked


def breaks(one: dict[str, Any], asked: dict[str, Any], planted: dict[str, Any]) -> str | None:
    """Which filter a memory of a result breaks; the reading of API.md, not of `storage.where`."""
    words = {
        name: value if isinstance(value, list) else [value]
        for name, value in asked.items()
        if name in ("type", "subtype", "author", "tier", "heat", "source", "sensitivity")
    }
    for name, wanted in words.items():
        if one[name] not in wanted:
            return name
    if not seen((one["scope"], one["sensitivity"]), asked["scope"], asked["clearance"]):
        return "scope or clearance"
    if not set(asked.get("tags", [])) <= set(one["tags"]):
        return "tags"
    if "tags_any" in asked and not set(asked["tags_any"]) & set(one["tags"]):
        return "tags_any"
    if "pinned" in asked and one["pinned"] != asked["pinned"]:
        return "pinned"
    if one["confidence"] < asked.get("min_confidence", 0):
        return "min_confidence"
    happened = parse_instant(one["event_at"] or one["created_at"])
    if "since" in asked and happened < parse_instant(asked["since"]):
        return "since"
    if "until" in asked and happened > parse_instant(asked["until"]):
        return "until"
    named = {name.lower() for name in [one["author"], *one["entities"]]}
    if "entity" in asked and asked["entity"].lower() not in named:
        return "entity"
    return "where" if not holds(planted["metadata"], asked.get("where", {})) else None


def holds(metadata: dict[str, Any], where: dict[str, Any]) -> bool:
    if where.get("odd") is True and metadata["odd"] is not True:
        return False
    number = where.get("number", {})
    return metadata["number"] < number.get("lt", 1000) and metadata["number"] in number.get("in", range(1000))


@settings(deadline=None, max_examples=150)
@given(
    asked=filters(),
    query=st.sampled_from(("tea at work", "the vault code", "ZqM17x", "Ada", "Zq")),
    k=st.integers(1, 40),
)
def test_no_hit_and_no_line_of_a_list_breaks_a_filter(world: World, asked: dict[str, Any], query: str, k: int) -> None:
    results = {
        "recall": world.daemon.call("recall", query=query, k=k, learn=False, **asked)["hits"],
        "recall_multi": world.daemon.call("recall_multi", queries=[query, "week"], k=k, learn=False, **asked)["hits"],
        "list": world.daemon.call("list", limit=500, **asked)["memories"],
    }
    for method, found in results.items():
        for one in found:
            planted = world.memories[one["id"]]
            assert breaks(one, asked, planted) is None, (method, one["id"])
            assert planted["state"] == "live"
    listed = {one["id"] for one in results["list"]}
    assert {one["id"] for one in results["recall"]} <= listed


@settings(deadline=None, max_examples=60)
@given(scope=scopes, clearance=clearances, memory=st.integers(0, 89))
def test_no_read_method_says_a_word_of_what_lies_outside_scope_or_clearance(
    world: World, scope: str, clearance: str, memory: int
) -> None:
    """Ids, texts, tags, authors, labels, comments, former texts, facts, turns and states: no way leads around."""
    low: dict[str, Any] = {"clearance": clearance}
    reads: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": "tea Zq vault", "k": 100, "learn": False, "explain": True}), ("list", {"limit": 500}),
        ("list", {"state": "forgotten"}), ("tags", {}), ("entities", {}), ("stats", {}), ("fading", {"days": 3650}),
        ("wakeup", {"max_tokens": 100_000}), ("comments", {}), ("comments", {"unread": True}), ("fact_list", {}),
        ("read_session_state", {}),
        *(("context", {"session": f"talk{n}", "query": "tea Zq", "facts": 50}) for n in range(7)),
    ]  # fmt: skip
    hidden = world.hidden(scope, clearance)
    for method, params in reads:
        answer = asked(world, method, scope=scope, **params, **low)
        assert not [word for word in hidden if word in answer], (method, params)
    out_of_clearance = world.hidden("*", clearance)
    for method in ("get", "history", "neighbors", "comments"):
        answer = asked(world, method, id=f"ZqM{memory}x", **low).replace(f"ZqM{memory}x", "")
        assert not [word for word in out_of_clearance if word in answer], method


@pytest.mark.parametrize("clearance", SENSITIVITIES)
@pytest.mark.parametrize("scope", ["a", "a/b", "*"])
def test_an_export_holds_no_word_of_what_lies_outside_scope_or_clearance(
    world: World, folder: Path, scope: str, clearance: str
) -> None:
    for format_ in ("jsonl", "json", "csv"):
        path = folder / f"out.{format_}"
        world.daemon.call("export", path=str(path), format=format_, scope=scope, clearance=clearance)
        text = path.read_text()
        assert not [word for word in world.hidden(scope, clearance) if word in text], format_
        shown = [word for word, place in world.places.items() if seen(place, scope, clearance) and word[2] == "M"]
        assert all(word in text for word in shown), format_


def asked(world: World, method: str, **params: Any) -> str:
    """The whole answer as text, or the whole error."""
    try:
        return json.dumps(world.daemon.call(method, **params), ensure_ascii=False)
    except DreamdError as error:
        return f"{error.detail} {error.hint} {error.extra}"
