"""Recall over the wire: its filters, its weights, what it answers, and what asking teaches."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest

from daemon.methods.recall import MAX_QUERY_CHARS
from tests.daemon.methods.asking import WatchedEmbedder, refused
from tests.harness import Daemon

WHY = {
    "cosine", "bm25", "spread", "session", "entity", "date", "question", "evidence", "citation", "emotion", "recency",
    "importance", "heat", "final", "path", "via",
}  # fmt: skip

ITEMS: list[dict[str, Any]] = [
    {"id": "tea", "content": "green tea in the morning", "author": "Ada", "tags": ["drink", "habit"], "tier": "long",
     "metadata": {"cups": 2, "hot": True, "note": "sencha"}, "event_at": "2025-12-01", "confidence": 0.9, "pinned": True},
    {"id": "cocoa", "content": "cocoa tea blend at night", "author": "Bea", "tags": ["drink"], "type": "episodic",
     "subtype": "evening", "source": "inferred", "metadata": {"cups": 1, "note": None}, "confidence": 0.4,
     "sensitivity": "public", "event_at": "2025-12-20"},
    {"id": "kettle", "content": "the tea kettle is broken", "scope": "default/kitchen", "metadata": {"cups": "2"}},
    {"id": "other", "content": "green tea elsewhere", "scope": "elsewhere", "tags": ["drink"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def teas(shared: Daemon) -> Daemon:
    assert shared.call("remember_many", items=ITEMS)["failed"] == 0
    return shared


def found(daemon: Daemon, query: str = "tea", **params: Any) -> list[str]:
    hits = daemon.call("recall", query=query, learn=False, **params)["hits"]
    return [hit["id"] for hit in hits]


def test_an_entity_is_who_said_it_or_whom_it_mentions(daemon: Daemon) -> None:
    daemon.remember("green tea in the morning", id="said", author="Ada")
    daemon.remember("cocoa tea blend at night for Ada", id="mentioned", author="Bea")

    assert set(found(daemon, entity="ada")) == {"said", "mentioned"}
    assert found(daemon, entity="BEA") == ["mentioned"]


def test_a_hit_is_a_memory_with_its_score_and_no_reason_unless_asked_for(teas: Daemon) -> None:
    answer = teas.call("recall", query="green tea", learn=False)

    listed = {one["id"]: one for one in teas.call("list")["memories"]}
    best = answer["hits"][0]
    assert answer.keys() == {"hits", "took_ms"}
    assert {name: best[name] for name in best if name != "score"} == listed["tea"]
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)


def test_explain_tells_every_term_and_they_are_what_the_score_is_made_of(teas: Daemon) -> None:
    for hit in teas.call("recall", query="green tea", explain=True, learn=False)["hits"]:
        why = hit["why"]
        terms = [value for name, value in why.items() if name not in ("evidence", "final", "path", "via")]

        assert why.keys() == WHY
        assert why["path"].split(" via ")[0] in ("dense", "keyword", "association")
        assert sum(terms) == pytest.approx(why["final"], abs=0.01)
        assert hit["score"] == pytest.approx(why["final"], abs=0.001)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"tea", "cocoa", "kettle"}),
        ({"scope": "default/kitchen"}, {"kettle"}),
        ({"scope": "*"}, {"tea", "cocoa", "kettle", "other"}),
        ({"scope": "nowhere"}, set()),
        ({"scope": "def"}, set()),
        ({"tags": ["drink"]}, {"tea", "cocoa"}),
        ({"tags": ["DRINK", "habit"]}, {"tea"}),
        ({"tags_any": ["habit", "none"]}, {"tea"}),
        ({"type": "episodic"}, {"cocoa"}),
        ({"type": ["episodic", "semantic"]}, {"tea", "cocoa", "kettle"}),
        ({"subtype": "evening"}, {"cocoa"}),
        ({"subtype": ["Evening"]}, {"cocoa"}),
        ({"author": "Ada"}, {"tea"}),
        ({"author": ["Ada", "Bea"]}, {"tea", "cocoa"}),
        ({"entity": "ada"}, {"tea"}),
        ({"tier": "long"}, {"tea"}),
        ({"tier": ["long", "core"]}, {"tea"}),
        ({"heat": ["hot", "warm"]}, {"tea", "cocoa", "kettle"}),
        ({"heat": "cold"}, set()),
        ({"source": "inferred"}, {"cocoa"}),
        ({"pinned": True}, {"tea"}),
        ({"pinned": False}, {"cocoa", "kettle"}),
        ({"sensitivity": "public"}, {"cocoa"}),
        ({"sensitivity": ["public", "personal"]}, {"tea", "cocoa", "kettle"}),
        ({"min_confidence": 0.5}, {"tea", "kettle"}),
        ({"since": "2025-12-10"}, {"cocoa", "kettle"}),
        ({"until": "2025-12-10T00:00:00+02:00"}, {"tea"}),
        ({"since": "2025-12-01", "until": "2025-12-20"}, {"tea", "cocoa"}),
        ({"where": {"cups": 2}}, {"tea"}),
        ({"where": {"cups": "2"}}, {"kettle"}),
        ({"where": {"hot": 1}}, set()),
        ({"where": {"cups": {"gte": 1, "lt": 2}}}, {"cocoa"}),
        ({"where": {"cups": {"ne": 2}}}, {"cocoa", "kettle"}),
        ({"where": {"cups": {"in": [1, 5]}}}, {"cocoa"}),
        ({"where": {"note": {"exists": True}}}, {"tea", "cocoa"}),
        ({"where": {"note": None}}, {"cocoa"}),
        ({"where": {"note": {"gt": "a"}}}, {"tea"}),
        ({"tags": ["drink"], "author": "Bea", "where": {"cups": 1}}, {"cocoa"}),
        ({"clearance": "public"}, {"cocoa"}),
    ],
)
def test_every_filter_is_hard_and_recall_and_list_keep_it_alike(teas: Daemon, filters, expected) -> None:
    listed = teas.call("list", **filters)["memories"]

    assert set(found(teas, k=10, **filters)) == expected
    assert {memory["id"] for memory in listed} == expected


@pytest.mark.parametrize(
    ("params", "field", "hint"),
    [
        ({"query": ""}, "query", "dreamctl list --sort created"),
        ({"query": " \n "}, "query", "dreamctl list --sort created"),
        ({"query": "\u200b"}, "query", "dreamctl list --sort created"),
        ({"query": "\u200b\ufe0f\u3164"}, "query", "dreamctl list --sort created"),
        ({"query": "\0"}, "query", "dreamctl list --sort created"),
        ({"query": "x" * (MAX_QUERY_CHARS + 1)}, "query", "dreamctl recall --help"),
        ({"query": "x", "k": 0}, "k", "dreamctl recall --help"),
        ({"query": "x", "k": 201}, "k", "dreamctl recall --help"),
        ({"query": "x", "k": 5.0}, "k", "dreamctl recall --help"),
        (
            {"query": "x", "weights": {"heet": 1.0}},
            "weights",
            "Use: relevance, recency, importance, emotion, citation, heat.",
        ),
        ({"query": "x", "weights": {"heat": -1.0}}, "weights", "1.0 leaves it as it is."),
        ({"query": "x", "weights": {"heat": float("nan")}}, "weights", "dreamctl recall --help"),
        (
            {"query": "x", "where": {"a": {"like": "b"}}},
            "where.a",
            "Use one or more of: ne, gt, gte, lt, lte, in, exists.",
        ),
        ({"query": "x", "where": {"a": {"in": 5}}}, "where.a", '{"in": [..]}'),
        ({"query": "x", "tier": ["long", "lnog"]}, "tier", "Did you mean 'long'?"),
        ({"query": "x", "since": "2026-13-01"}, "since", "dreamctl recall --help"),
        (
            {"query": "x", "since": "2026-02-01", "until": "2026-01-31"},
            "until",
            "Exchange since and until, or leave one of them out.",
        ),
        (
            {"query": "x", "scope": "a/*"},
            "scope",
            "a scope is a path such as alice/coder/session-7; see dreamctl stats --scope '*'",
        ),
        ({"qurey": "x"}, "qurey", "Did you mean 'query'?"),
    ],
)
def test_a_wrong_question_is_invalid_by_its_field(teas: Daemon, params, field, hint) -> None:
    error = refused(teas, "invalid", "recall", **params)

    assert (error.extra["field"], error.hint) == (field, hint)


def test_a_query_of_invisible_characters_is_told_as_an_empty_one_is(teas: Daemon) -> None:
    empty, unseen = (refused(teas, "invalid", "recall", query=query) for query in ("", "\u200b"))

    assert (unseen.detail, unseen.hint, unseen.extra) == (empty.detail, empty.hint, empty.extra)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_metadata_filter_in_any_unicode_form_finds_what_the_metadata_says(daemon: Daemon, form: str) -> None:
    daemon.remember("tea", id="tea", metadata={"café": "Zoë", "inner": {"ö": ["ü"]}})
    daemon.remember("more tea", id="more", metadata={"café": "Ada"})

    def ids(where: dict[str, Any]) -> list[str]:
        told = json.loads(unicodedata.normalize(form, json.dumps(where, ensure_ascii=False)))
        assert set(found(daemon, where=told)) == {one["id"] for one in daemon.call("list", where=told)["memories"]}
        return found(daemon, where=told)

    assert ids({"café": "Zoë"}) == ["tea"]
    assert ids({"café": {"in": ["Zoë", "nobody"]}}) == ["tea"]
    assert ids({"café": {"ne": "Zoë"}}) == ["more"]
    assert ids({"inner": {"in": [{"ö": ["ü"]}]}}) == ["tea"]


@pytest.mark.parametrize(
    "where",
    [{"é": 1, "e\u0301": 2}, {"a": "x\0"}, {"a": {"in": ["\ud800"]}}, {"a": 2**70}, {"a": {"ne": float("nan")}}],
)
def test_a_metadata_filter_that_no_metadata_could_meet_is_invalid(teas: Daemon, where) -> None:
    nested: Any = []
    for _ in range(600):
        nested = [nested]

    for wrong in (where, {"a": nested}):
        error = refused(teas, "invalid", "recall", query="tea", where=wrong)
        assert error.extra["field"] == "where"
        assert "metadata" not in error.detail


def test_k_and_min_score_cut_the_answer(teas: Daemon) -> None:
    best, *others = teas.call("recall", query="green tea", k=3, learn=False)["hits"]

    assert found(teas, "green tea", k=1) == [best["id"]]
    assert others
    assert found(teas, "green tea", min_score=50) == []


def test_weights_multiply_the_terms_of_this_recall_alone(teas: Daemon) -> None:
    boosts = ("recency", "importance", "emotion", "citation", "heat")

    def best(**weights: float) -> dict[str, Any]:
        return teas.call("recall", query="tea", k=1, explain=True, learn=False, weights=weights)["hits"][0]

    usual = best()
    boosted = sum(usual["why"][name] for name in boosts)
    assert boosted > 0
    assert best(**dict.fromkeys(boosts, 0.0))["score"] == pytest.approx(usual["score"] - boosted, abs=0.001)
    assert best(emotion=3.0)["score"] == pytest.approx(usual["score"] + 2 * usual["why"]["emotion"], abs=0.001)
    assert best(relevance=0.0)["score"] == pytest.approx(boosted, abs=0.1)
    assert best() == usual


def test_without_associations_no_neighbour_is_brought_in(daemon: Daemon) -> None:
    daemon.remember("the bakery opens at six", id="bakery")
    daemon.remember("bring cash", id="cash", connect_to=["bakery"])
    for n in range(60):
        daemon.remember(f"unrelated {n} note {n}", id=f"n{n}")

    def via(**params: Any) -> dict[str, str]:
        hits = daemon.call("recall", query="when does the bakery open", k=70, explain=True, learn=False, **params)[
            "hits"
        ]
        return {hit["id"]: hit["why"]["path"] for hit in hits}

    spread = {
        hit["id"]: hit["why"]["spread"]
        for hit in daemon.call("recall", query="bakery", explain=True, learn=False)["hits"]
    }
    assert spread["cash"] > 0
    assert not any(path.startswith("association") for path in via(associate=False).values())


def test_recalled_together_is_learned_once_and_only_when_asked_to(daemon: Daemon) -> None:
    daemon.remember("green tea", id="green")
    daemon.remember("black tea", id="black")

    daemon.call("recall", query="tea", learn=False)
    daemon.run(daemon.app.background.fold())
    assert daemon.call("get", id="green")["access_count"] == 0
    daemon.clock.advance(5)
    daemon.call("recall_multi", queries=["green tea", "black tea"])
    daemon.run(daemon.app.background.fold())

    green = daemon.call("get", id="green")
    assert (green["access_count"], green["accessed_at"]) == (1, "2026-01-01T00:00:05Z")
    assert daemon.call("neighbors", id="green")["neighbors"] == [
        {"id": "black", "weight": 0.2, "kind": "hebbian", "label": "", "content": "black tea"}
    ]


def test_reading_in_any_other_way_is_no_use_of_a_memory(daemon: Daemon) -> None:
    tea = daemon.remember("green tea", connect_to=[daemon.remember("black tea")])
    before = daemon.call("get", id=tea)

    for method, params in (
        ("get", {"id": tea}), ("list", {}), ("history", {"id": tea}), ("neighbors", {"id": tea}), ("stats", {}), ("tags", {}),
        ("fading", {"days": 300}), ("graph_stats", {}), ("run_job", {"name": "dream"}),
    ):  # fmt: skip
        daemon.call(method, **params)
    daemon.run(daemon.app.background.fold())

    assert daemon.call("get", id=tea) == before


def test_several_questions_give_each_memory_once_by_its_best_score(teas: Daemon) -> None:
    both = teas.call("recall_multi", queries=["green tea", "kettle"], k=2, learn=False)["hits"]
    single = {query: teas.call("recall", query=query, k=2, learn=False)["hits"] for query in ("green tea", "kettle")}

    best: dict[str, float] = {}
    for hit in (hit for hits in single.values() for hit in hits):
        best[hit["id"]] = max(best.get(hit["id"], 0.0), hit["score"])
    assert {hit["id"]: hit["score"] for hit in both} == best
    assert [hit["score"] for hit in both] == sorted(best.values(), reverse=True)


def test_n_cuts_the_merged_hits_even_of_a_single_question(teas: Daemon) -> None:
    assert len(teas.call("recall_multi", queries=["tea", "kettle"], n=1, learn=False)["hits"]) == 1
    assert len(teas.call("recall_multi", queries=["tea"], k=3, n=2, learn=False)["hits"]) == 2


@pytest.mark.parametrize(
    "params",
    [
        {"queries": []},
        {"queries": ["tea", " "]},
        {"queries": ["tea", "\u200b"]},
        {"queries": ["x"] * 33},
        {"queries": ["x" * (MAX_QUERY_CHARS + 1)]},
        {"queries": "tea"},
    ],
)
def test_wrong_questions_are_invalid_as_queries(teas: Daemon, params) -> None:
    assert refused(teas, "invalid", "recall_multi", **params).extra["field"] == "queries"


def test_while_the_embedder_fails_recall_goes_on_by_keyword_and_says_so(
    watched: Daemon, embedder: WatchedEmbedder
) -> None:
    tea = watched.remember("Ada likes green tea")
    embedder.broken = True

    degraded = watched.call("recall", query="tea", explain=True)
    many = watched.call("recall_multi", queries=["tea"])
    embedder.broken = False

    assert degraded["degraded"] == many["degraded"] == "keyword-only"
    assert [(hit["id"], hit["why"]["path"]) for hit in degraded["hits"]] == [(tea, "keyword")]
    assert "degraded" not in watched.call("recall", query="tea")


def test_an_empty_store_answers_with_nothing(daemon: Daemon) -> None:
    assert daemon.call("recall", query="anything")["hits"] == []
    assert daemon.call("recall_multi", queries=["anything"])["hits"] == []


def test_an_expired_memory_leaves_every_read_at_once(daemon: Daemon) -> None:
    daemon.remember(
        "the shop closes at six", id="shop", expires_at="2026-01-02", tier="core", pinned=True, tags=["shop"]
    )
    assert found(daemon, "shop") == ["shop"]
    daemon.clock.advance(86_400)

    assert found(daemon, "shop") == []
    assert daemon.call("list")["memories"] == []
    assert daemon.call("stats")["total"] == 0
    assert daemon.call("tags")["tags"] == []
