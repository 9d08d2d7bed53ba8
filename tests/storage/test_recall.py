"""What is found for a question, by which way, and never beyond the filter."""

from __future__ import annotations

import random
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.model import DAY, HEATS, SENSITIVITIES, SOURCES, TIERS, TYPES
from storage.rank import BOOSTS, TERMS, Weights
from storage.synapses import associate
from storage.where import Where
from tests.storage.opened import Opened


@pytest.fixture
def opened(fresh) -> Opened:
    return fresh


OFF = dict.fromkeys(BOOSTS, 0.0)
WORDS = ("cat", "dog", "mouse", "garden", "Rome", "李雷", "music", "Ann")


def why(opened: Opened, query: str, k: int = 99, **options: object) -> dict[str, dict[str, float]]:
    """Every hit's terms by id."""
    return {hit.memory.id: hit.why for hit in opened.recall(query, k=k, explain=True, **options)}


def connect(opened: Opened, a: str, b: str, weight: float = 10.0, kind: str = "manual") -> None:
    opened.stores.synapses.put([associate(a, b, kind, weight, opened.now)])


def crowd_of(opened: Opened, n: int, **fields: object) -> None:
    """Memories that fill both legs of a recall for "alpha" before anything else gets in."""
    for number in range(n):
        opened.add(f"alpha crowd{number}", **fields)


# The filter, in whatever mixture.


@pytest.fixture(scope="module")
def mixed(shared) -> Opened:
    """Some 45 live memories of every kind with edges everywhere, few enough to be candidates all at once."""
    dice = random.Random(3)
    now = shared.now
    ids = [
        shared.add(
            f"{' '.join(dice.sample(WORDS, 3))} {n}{dice.choice('.?')}", author=dice.choice(["", "Ann", "Bob"]),
            scope=dice.choice(["a", "a/b", "c"]), session=dice.choice(["", "s", "t"]), tags=dice.sample("xyz", dice.randrange(3)),
            type=dice.choice(TYPES), subtype=dice.choice(["", "note"]), tier=dice.choice(TIERS), pinned=dice.random() < 0.3,
            source=dice.choice(SOURCES), sensitivity=dice.choice(SENSITIVITIES), confidence=dice.random(),
            metadata=dice.choice([{}, {"k": 1}, {"k": "a", "l": None}]), event_at=dice.choice([None, now - 50 * DAY]),
            expires_at=dice.choice([None, None, now - 1, now + DAY]),
        )
        for n in range(54)
    ]  # fmt: skip
    shared.stores.memories.patch({memory: {"heat": dice.choice(HEATS)} for memory in ids})
    for memory in ids:
        other = dice.choice([one for one in ids if shared.row(one).scope == shared.row(memory).scope and one != memory])
        connect(shared, memory, other, dice.random() * 10, dice.choice(["manual", "hebbian", "similar"]))
    shared.forget(*ids[:5])
    return shared


def some_of(options: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.lists(st.sampled_from(options), min_size=1, max_size=3, unique=True).map(tuple)


filters = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(["*", "a", "a/b", "c", "d"]), "clearance": st.sampled_from(SENSITIVITIES),
        "tags": some_of(("x", "y")), "tags_any": some_of(("x", "y", "z")), "type": some_of(TYPES), "subtype": some_of(("note",)),
        "author": some_of(("Ann", "Bob")), "entity": st.sampled_from(["", "ann", "Bob"]), "tier": some_of(TIERS),
        "heat": some_of(HEATS), "source": some_of(SOURCES), "sensitivity": some_of(SENSITIVITIES),
        "pinned": st.none() | st.booleans(), "min_confidence": st.none() | st.floats(0, 1),
        "since": st.sampled_from([None, 0.0, 1_767_225_600.0]), "until": st.sampled_from([None, 1_767_225_600.0]),
        "metadata": st.sampled_from([{}, {"k": 1}, {"l": {"exists": True}}, {"k": {"in": ["a", 1]}}]),
    },
)  # fmt: skip
queries = st.lists(st.sampled_from([*WORDS, "the", "May 2026"]), min_size=1, max_size=3).map(" ".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(filters, queries, st.booleans(), st.booleans())
def test_a28_c5_no_result_breaks_the_filter_and_none_that_meets_it_is_lost(
    mixed, where, query, associate, alone
) -> None:
    """By either leg, by an edge or along a session; with both legs, all that the filter admits is found."""
    asked = Where(now=mixed.now, **where)
    admitted = {row.id for row in mixed.stores.catalogue.every() if asked.admits(row)}

    found = mixed.found(query, k=200, where=where, associate=associate, keywords_alone=alone)

    assert len(found) == len(set(found))
    assert set(found) <= admitted
    assert alone or set(found) == admitted


def test_a28_the_filter_holds_on_every_hop(opened) -> None:
    wanted = opened.add("alpha", tags=["x"], session="s")
    linked = opened.add("beta", tags=["y"])
    opened.add("gamma", tags=["y"], session="s")
    connect(opened, wanted, linked)

    assert opened.found("alpha", where={"tags": ("x",)}) == [wanted]


def test_c5_what_is_secret_is_found_by_no_way_below_its_clearance(opened) -> None:
    public = opened.add("alpha", sensitivity="public", session="s")
    secret = opened.add("launch code zebra", sensitivity="secret", session="s")
    connect(opened, public, secret)

    for clearance in ("public", "personal", "confidential"):
        for alone in (True, False):
            assert secret not in opened.found("launch code zebra", where={"clearance": clearance}, keywords_alone=alone)
    assert opened.found("launch code zebra")[0] == secret


def test_a_memory_past_its_end_is_not_found_though_decay_did_not_run(opened) -> None:
    ended, lasting = opened.add("alpha", expires_at=opened.now + 5), opened.add("alpha too")
    connect(opened, ended, lasting)
    opened.clock.advance(5)

    assert opened.found("alpha") == [lasting]


def test_a_leg_that_the_filter_thins_out_is_asked_for_more(opened) -> None:
    """2,100 memories meet a filter without an index, and 60 nearer ones do not."""
    crowd_of(opened, 60, type="episodic")
    texts = [f"alpha filler words number {n} of many" for n in range(2_100)]
    for n, vectors in enumerate(opened.gate.vectors(texts)):
        opened.stores.writer.remember(opened.admit({"content": texts[n]}), vectors, opened.now, f"m{n}")

    for alone in (True, False):
        hits = opened.recall("alpha", k=50, where={"type": ("semantic",)}, keywords_alone=alone)
        assert len(hits) == 50
        assert {hit.memory.type for hit in hits} == {"semantic"}
    assert {hit.memory.type for hit in opened.recall("alpha", k=50)} == {"episodic"}


# The legs.


def test_b12_the_order_of_the_words_does_not_matter(opened) -> None:
    memory = opened.add("shared words")
    opened.add("something else")

    for alone in (True, False):
        assert opened.found("words shared", k=1, keywords_alone=alone) == [memory]


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("今天玩成语接龙游戏", "成语接龙"),
        ("오늘 끝말잇기 게임을 했다", "끝말잇기"),
        ("今日は成語しりとりをした", "しりとり"),
        ("we played 成语接龙 with Ann", "成语接龙"),
    ],
)
def test_row_70_words_of_unspaced_scripts_are_found_by_the_keyword_leg_alone(opened, stored, query) -> None:
    opened.add("我们昨天去了公园")
    opened.add("nothing of the kind")
    memory = opened.add(stored)

    assert opened.found(query, k=1, keywords_alone=True) == [memory]


def test_a26_a_question_of_stop_words_matches_no_keyword(opened) -> None:
    for n in range(5):
        opened.add(f"the one and the other {n}")

    assert opened.found("the and of", keywords_alone=True) == []
    assert {terms["bm25"] for terms in why(opened, "the and of").values()} == {0.0}


def test_row_74_nothing_in_the_store_or_in_the_question_is_no_fault(opened) -> None:
    assert opened.found("anything") == []
    opened.add("alpha")
    assert opened.found("...", keywords_alone=True) == []
    assert len(opened.found("...")) == 1


def test_while_the_embedder_is_away_the_keyword_leg_goes_on(opened) -> None:
    memory = opened.add("the cat chased the mouse")
    opened.add("a dog slept")

    (hit,) = opened.recall("mouse", keywords_alone=True, explain=True)
    assert hit.memory.id == memory
    assert (hit.why["cosine"], hit.why["path"]) == (0.0, "keyword")


def test_terms_are_weighed_within_the_scope_that_is_read(opened) -> None:
    """What others store does not change what a term is worth here."""
    opened.add("alpha beta", scope="mine")
    opened.add("alpha gamma", scope="mine")
    before = why(opened, "alpha gamma", where={"scope": "mine"})
    for n in range(30):
        opened.add(f"gamma {n}", scope="other")

    assert why(opened, "alpha gamma", where={"scope": "mine"}) == before


def test_a_coarse_scope_sees_the_finer_ones_and_no_other(opened) -> None:
    ids = {scope: opened.add(f"alpha in {scope}", scope=scope) for scope in ("a", "a/b", "a/b/c", "ab", "z")}

    for scope, seen in (
        ("a", {"a", "a/b", "a/b/c"}),
        ("a/b", {"a/b", "a/b/c"}),
        ("ab", {"ab"}),
        ("*", set(ids)),
        ("b", set()),
    ):
        assert set(opened.found("alpha", where={"scope": scope}, k=9)) == {ids[one] for one in seen}


# Evidence.


def test_a_lone_weak_keyword_match_scores_below_a_perfect_one(opened) -> None:
    """One word of four, and half of the scope has it: the floor of `storage.rank` keeps it from the full score."""
    for number in range(40):
        opened.add(f"{'alpha' if number % 2 else 'other'} note {number}")

    assert 0.0 < max(weak["bm25"] for weak in why(opened, "alpha beta gamma delta").values()) < 0.6


def test_who_is_named_and_wrote_it_counts_more_than_who_is_mentioned(opened) -> None:
    wrote = opened.add("likes tea", author="Zoë")
    mentions = opened.add("Zoë prefers coffee", author="Bob")
    neither = opened.add("water is fine", author="Bob")

    for query in ("what does Zoë like?", unicodedata.normalize("NFD", "what does ZOË like?")):
        entity = {memory: terms["entity"] for memory, terms in why(opened, query).items()}
        assert entity == {wrote: 0.5, mentions: 0.25, neither: 0.0}
    assert {terms["entity"] for terms in why(opened, "do Zoë and Bob agree?").values()} == {0.0}
    assert {terms["entity"] for terms in why(opened, "what does Zoë like?", where={"scope": "other"}).values()} == set()


def test_a_date_in_the_question_counts_for_what_happened_then(opened) -> None:
    may = datetime(2023, 5, 7, 23, tzinfo=UTC).timestamp()
    then = opened.add("went to the sea", event_at=may)
    other = opened.add("went to the hills", event_at=may + 40 * DAY)
    undated = opened.add("went to the city")
    odd = [opened.add(f"went {at}", event_at=at) for at in (-6.2e10, 2.5e11)]  # years 5 and 9892

    date = {memory: terms["date"] for memory, terms in why(opened, "where did we go in May 2023?").items()}
    assert date == dict.fromkeys([other, undated, *odd], 0.0) | {then: 0.25}


def test_the_answer_right_after_a_question_receives_more_than_any_other_neighbour(opened) -> None:
    asked = opened.add("where is the key?", session="s")
    answer = opened.add("under the mat", session="s")
    after = opened.add("thank you", session="s")

    terms = why(opened, "where is the key")
    base = {memory: told["cosine"] + told["bm25"] for memory, told in terms.items()}
    assert terms[answer]["spread"] == pytest.approx(0.6 * base[asked] + 0.4 * base[after], abs=1e-3)
    assert terms[after]["spread"] == pytest.approx(0.4 * base[answer] + 0.2 * base[asked], abs=1e-3)
    assert terms[asked]["question"] == -0.1
    assert terms[answer]["via"] == asked
    mean = sum(base.values()) / 3
    assert terms[after]["session"] == pytest.approx(0.3 * mean, abs=1e-3)


def test_edges_hand_on_by_their_weight_of_now_and_no_more_than_one_of_full_weight(opened) -> None:
    one = opened.add("alpha")
    lone, many = opened.add("unlike"), opened.add("different")
    givers = [opened.add(f"alpha {n}") for n in range(3)]
    connect(opened, one, lone, 5.0)
    for giver in givers:
        connect(opened, giver, many, 10.0)

    terms = why(opened, "alpha")
    base = {memory: told["cosine"] + told["bm25"] for memory, told in terms.items()}
    assert terms[lone]["spread"] == pytest.approx(0.2 * base[one], abs=1e-3)
    assert terms[many]["spread"] == pytest.approx(0.4 * sum(base[giver] for giver in givers) / 3, abs=1e-3)
    opened.clock.advance(13.513 * DAY)
    assert why(opened, "alpha")[lone]["spread"] == pytest.approx(0.1 * base[one], abs=1e-3)


def test_d1_a_memory_from_the_future_is_not_always_first(opened) -> None:
    opened.clock.advance(30 * DAY)
    future = opened.add("something else entirely")
    opened.clock.set(opened.now - 30 * DAY)
    match = opened.add("the cat chased the mouse")

    assert opened.found("cat mouse") == [match, future]
    assert why(opened, "cat mouse")[future]["recency"] == Weights().recency


# Edges bring what the legs do not.

#: Only importance counts, so that an important memory comes first if it is a candidate at all.
BY_IMPORTANCE = {"relevance": 0.0, "recency": 0.0, "emotion": 0.0}


@pytest.fixture
def linked(opened) -> tuple[Opened, str, str]:
    """A memory that a recall for "alpha" finds, and one that only an edge from there brings."""
    crowd_of(opened, 60, sensitivity="public")
    hub = opened.add("alpha", sensitivity="public")
    far = opened.add("nothing like it", sensitivity="public", importance=1.0)
    connect(opened, hub, far, 3.0)
    return opened, hub, far


def test_an_edge_brings_a_memory_that_neither_leg_found(linked) -> None:
    opened, hub, far = linked

    terms = why(opened, "alpha", k=5, factors=BY_IMPORTANCE)[far]
    assert (terms["path"], terms["via"]) == (f"association via {hub}", hub)
    assert far not in opened.found("alpha", k=5, factors=BY_IMPORTANCE, associate=False)


def test_an_edge_to_a_memory_in_the_bin_is_masked_and_comes_back_with_it(linked) -> None:
    opened, _, far = linked
    opened.forget(far)
    assert far not in opened.found("alpha", k=5, factors=BY_IMPORTANCE)

    opened.stores.memories.move({far: {"forgotten_at": None, "forgotten_reason": ""}})

    assert far in opened.found("alpha", k=5, factors=BY_IMPORTANCE)


def test_hidden_neighbours_take_no_place_from_visible_ones(linked) -> None:
    opened, hub, far = linked
    for n in range(12):
        connect(opened, hub, opened.add(f"hidden {n}", sensitivity="secret"), 10.0)

    assert far in opened.found("alpha", k=5, factors=BY_IMPORTANCE, where={"clearance": "public"})


def test_a_hidden_memory_hands_nothing_on_between_two_visible_ones(opened) -> None:
    """Else the share would tell that something lies between."""
    for text, level in (("alpha", "public"), ("between", "secret"), ("last", "public")):
        opened.add(text, session="s", sensitivity=level)

    spread = {terms["spread"] for terms in why(opened, "alpha", where={"clearance": "public"}).values()}
    assert spread == {0.0}


def test_as_many_as_are_asked_for_come_where_there_are_so_many(opened) -> None:
    crowd_of(opened, 130)

    assert len(opened.found("alpha", k=120)) == 120


def test_the_author_of_a_hidden_memory_is_nobody_to_a_lower_clearance(opened) -> None:
    opened.add("hidden", author="Zorblaxia", sensitivity="secret")
    tea = opened.add("zorblaxia likes tea", sensitivity="public")

    assert opened.read(tea).entities == ()
    assert why(opened, "what does Zorblaxia like?", where={"clearance": "public"})[tea]["entity"] == 0.0


def test_a_session_brings_its_members_up_to_two_steps_away_and_no_further(opened) -> None:
    crowd_of(opened, 60)
    texts = ("one", "two", "alpha", "four", "five", "six")
    members = [opened.add(text, session="s", importance=1.0) for text in texts]

    found = opened.found("alpha", k=10, factors=BY_IMPORTANCE)

    assert [members.index(memory) for memory in members if memory in found] == [0, 1, 2, 3, 4]


# What is asked for, and what is told.


def test_the_terms_are_told_exactly_when_they_are_asked_for(opened) -> None:
    opened.add("alpha")

    assert opened.recall("alpha")[0].why is None
    told = opened.recall("alpha", explain=True)[0].why
    assert told.keys() == {*TERMS, "evidence", "final", "path", "via"}


def test_a_least_score_is_one_of_evidence_that_boosts_do_not_help_over(opened) -> None:
    weak = opened.add("something else", emotion=1.0, importance=1.0)
    strong = opened.add("the cat chased the mouse")
    boosted = {hit.memory.id: hit.score for hit in opened.recall("cat mouse")}[weak]

    assert opened.found("cat mouse", min_score=boosted - 0.1) == [strong]
    assert opened.found("cat mouse", min_score=-1.0) == [strong, weak]
    assert opened.found("cat mouse", min_score=9.0) == []


def test_without_boosts_the_order_is_that_of_relevance(opened) -> None:
    opened.add("the cat slept", importance=1.0, emotion=1.0)
    best = opened.add("the cat chased the mouse", importance=0.0, emotion=0.0)

    hits = opened.recall("the cat chased the mouse", factors=OFF, explain=True)
    assert hits[0].memory.id == best
    for hit in hits:
        evidence = sum(hit.why[name] for name in TERMS if name not in BOOSTS)
        assert hit.score == pytest.approx(evidence, abs=1e-3)


def test_no_more_than_k_are_told_and_the_text_is_whole(opened) -> None:
    for n in range(7):
        opened.add(f"alpha {n}", context="the long story")

    hits = opened.recall("alpha", k=3)
    assert len(hits) == 3
    assert all(hit.memory.content.startswith("alpha") for hit in hits)


def test_c11_recall_writes_nothing(opened) -> None:
    memories = [opened.add(f"alpha {n}") for n in range(4)]
    before = [opened.read(memory) for memory in memories]

    opened.recall("alpha", explain=True)

    assert [opened.read(memory) for memory in memories] == before
    assert len(opened.stores.synapses) == 0
