"""Reading memories as they are kept: by id or prefix, in pages, with their history."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.daemon.methods.asking import refused
from tests.harness import Daemon

DAY = 86_400.0
SORTS = ("created", "updated", "accessed", "emotion", "importance", "retention")


def pages(daemon: Daemon, between: Any = lambda: None, **params: Any) -> list[str]:
    """The ids of all pages of a list; `between` two pages something may happen."""
    ids: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = daemon.call("list", **params, **cursor)
        ids += [memory["id"] for memory in page["memories"]]
        if page["cursor"] is None:
            return ids
        cursor = {"cursor": page["cursor"]}
        between()


@pytest.fixture(scope="module")
def dozen(shared: Daemon) -> Daemon:
    """Twelve memories a day apart, of differing importance, emotion, use and edits."""
    for n in range(12):
        shared.remember(
            f"note {n}", id=f"n{n:02}", importance=round((n * 7 % 12) / 12, 3), emotion=round((n * 5 % 12) / 12, 3)
        )
        shared.beat(1)
    for n in (3, 8):
        shared.call("update", id=f"n{n:02}", content=f"note {n}, edited")
        shared.clock.advance(60)
    shared.call("recall", query="note 5", k=3)
    shared.run(shared.app.background.fold())
    return shared


def test_get_shows_context_and_retention_and_no_other_read_does(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea", context="said at breakfast")
    daemon.beat(7)

    shown = daemon.call("get", id="tea")
    listed = daemon.call("list")["memories"][0]

    assert shown["context"] == "said at breakfast"
    assert shown["retention"] == pytest.approx(0.3679, abs=0.0001)
    assert shown.keys() - listed.keys() == {"context", "retention"}


def test_an_exact_id_wins_over_one_that_it_begins(daemon: Daemon) -> None:
    daemon.remember("one", id="project-one")
    daemon.remember("two", id="project-one-and-two")

    assert daemon.call("get", id="project-one")["content"] == "one"
    assert daemon.call("get", id="project-one-")["content"] == "two"
    assert daemon.call("history", id="project-one-")["versions"] == []


def test_an_ambiguous_prefix_is_a_conflict_with_up_to_ten_visible_ids(daemon: Daemon) -> None:
    for n in range(14):
        daemon.remember(f"note {n}", id=f"project-{n:02}", sensitivity="secret" if n < 2 else "public")

    for method in ("get", "history"):
        error = refused(daemon, "conflict", method, id="project-", clearance="public")
        assert error.extra["ids"] == [f"project-{n:02}" for n in range(2, 12)]
        assert error.detail == "12 memories begin with 'project-'."
        assert error.hint == "dreamctl get project-02"


def test_a_prefix_has_at_least_eight_characters(daemon: Daemon) -> None:
    memory = daemon.remember("Ada likes tea")

    assert daemon.call("get", id=memory[:8])["id"] == memory
    assert refused(daemon, "not_found", "get", id=memory[:7]).detail == f"There is no memory {memory[:7]!r}."
    assert refused(daemon, "not_found", "get", id="nobody-at-all").hint == "dreamctl list"
    assert refused(daemon, "invalid", "get", id="").extra["field"] == "id"
    assert refused(daemon, "invalid", "get").extra["field"] == "id"


def test_a_hidden_memory_neither_wins_nor_makes_a_prefix_ambiguous(daemon: Daemon) -> None:
    daemon.remember("hidden", id="project-x", sensitivity="secret")
    daemon.remember("shown", id="project-x-shown", sensitivity="public")

    assert daemon.call("get", id="project-x", clearance="public")["content"] == "shown"
    assert daemon.call("get", id="project-", clearance="public")["content"] == "shown"
    assert daemon.call("get", id="project-x")["content"] == "hidden"


def test_an_id_finds_a_memory_in_every_state_until_it_is_erased(daemon: Daemon) -> None:
    tea, cocoa = daemon.remember("tea"), daemon.remember("cocoa")
    daemon.call("forget", id=tea)
    daemon.call("forget", id=cocoa, superseded_by=daemon.remember("coffee"))

    assert [daemon.call("get", id=one)["state"] for one in (tea, cocoa)] == ["forgotten", "superseded"]


@pytest.mark.parametrize(
    ("sort", "key", "falling"),
    [
        ("created", "created_at", True),
        ("updated", "updated_at", True),
        ("accessed", "accessed_at", True),
        ("emotion", "emotion", True),
        ("importance", "importance", True),
        ("retention", "retention", False),
    ],
)
def test_every_sort_orders_all_pages_alike(dozen: Daemon, sort: str, key: str, falling: bool) -> None:
    ids = pages(dozen, sort=sort, limit=5)

    values = [dozen.call("get", id=one)[key] for one in ids]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=falling)
    assert values == known + [None] * (12 - len(known))  # what was never used comes last
    assert sorted(ids) == [f"n{n:02}" for n in range(12)]
    assert ids == pages(dozen, sort=sort, limit=500)


@pytest.mark.parametrize("sort", SORTS)
def test_pages_neither_skip_nor_repeat_what_did_not_change_while_others_are_written(daemon: Daemon, sort: str) -> None:
    for n in range(9):
        daemon.remember(f"note {n}", id=f"n{n}", importance=0.1 * n, emotion=0.1 * n)
        daemon.clock.advance(3600)
    news = iter(range(100))

    def write() -> None:
        daemon.clock.advance(6 * 3600)
        daemon.remember(f"news {next(news)}", id=f"x{next(news)}", importance=0.35, emotion=0.35)
        daemon.call("forget", id="n4", hard=True) if "n4" in daemon.stores.catalogue else None

    ids = pages(daemon, write, sort=sort, limit=2)

    assert len(ids) == len(set(ids))
    assert set(ids) >= {f"n{n}" for n in range(9) if n != 4}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sort=st.sampled_from(SORTS), limit=st.integers(1, 13))
def test_pages_of_any_size_make_one_list(dozen: Daemon, sort: str, limit: int) -> None:
    assert pages(dozen, sort=sort, limit=limit) == pages(dozen, sort=sort, limit=500)


def test_equal_values_are_ordered_by_id_and_paged_without_loss(daemon: Daemon) -> None:
    daemon.call("remember_many", items=[{"content": f"note {n}", "id": f"n{n}"} for n in (3, 1, 2, 0)])

    assert pages(daemon, sort="importance", limit=1) == ["n0", "n1", "n2", "n3"]


def test_the_last_page_has_no_cursor(daemon: Daemon) -> None:
    daemon.remember("one")
    daemon.remember("two")

    assert daemon.call("list", limit=2)["cursor"] is None
    assert daemon.call("list", limit=1)["cursor"]
    assert daemon.call("list", state="forgotten") == {"memories": [], "cursor": None}


@pytest.mark.parametrize(
    "text",
    [
        f'["created", 1{"0" * 400}, 0, "x"]', f'["created", 0, 1{"0" * 400}, "x"]', '["created", NaN, 0, "x"]',
        '["created", 0, NaN, "x"]', '["created", Infinity, 0, "x"]', '["created", 0, -Infinity, "x"]',
        '["created", 1e300, 0, "x"]', '["created", 0, 0, 5]', '["created", 0, 0, null]', '["created", "0", 0, "x"]',
        '["created", 0, "0", "x"]', '["created", true, 0, "x"]', '["created", 0, false, "x"]', '[null, 0, 0, "x"]',
        '{"a": 1, "b": 2, "c": 3, "d": 4}', '"text"', '["created", 0, 0, "x", 1]', "[" * 700,
    ],
)  # fmt: skip
@pytest.mark.parametrize("sort", ["created", "retention"])
def test_a_forged_cursor_is_none_of_ours_and_never_a_fault_of_the_daemon(shared: Daemon, text: str, sort: str) -> None:
    forged = base64.urlsafe_b64encode(text.replace("created", sort).encode()).decode()

    error = refused(shared, "invalid", "list", cursor=forged, sort=sort)

    assert (error.detail, error.extra["field"]) == ("The cursor is not one of ours.", "cursor")


def test_a_memory_past_its_end_is_not_found_by_any_read_until_decay_moved_it_to_the_bin(daemon: Daemon) -> None:
    daemon.remember("the shop closes at six", id="shop-rule", expires_at="2026-01-02")
    daemon.remember("the shop", id="other", connect_to=["shop-rule"])
    daemon.call("update", id="shop-rule", content="the shop closes at seven")
    daemon.clock.advance(DAY - 1)
    assert daemon.call("get", id="shop-rule")["state"] == "live"
    daemon.clock.advance(1)

    for method in ("get", "history", "neighbors"):
        absent = refused(daemon, "not_found", method, id="nobody-rule")
        error = refused(daemon, "not_found", method, id="shop-rule")
        assert (error.detail, error.hint) == (absent.detail.replace("nobody", "shop"), absent.hint)
    refused(daemon, "not_found", "get", id="shop-rul")
    assert daemon.call("health")["memories"] == 1
    daemon.call("run_job", name="decay")

    assert daemon.call("get", id="shop-rule")["forgotten_reason"] == "expired"
    assert len(daemon.call("history", id="shop-rule")["versions"]) == 1
    assert daemon.call("restore", id="shop-rule")["state"] == "live"
    assert daemon.call("get", id="shop-rule")["content"] == "the shop closes at seven"


def test_a_cursor_belongs_to_its_sort_and_is_checked(daemon: Daemon) -> None:
    daemon.remember("one")
    daemon.remember("two")
    cursor = daemon.call("list", limit=1)["cursor"]
    forged = [
        base64.urlsafe_b64encode(json.dumps(value).encode()).decode() for value in ([], ["created", 1], 5, [[[]]] * 4)
    ]

    wrong = refused(daemon, "invalid", "list", limit=1, cursor=cursor, sort="updated")

    assert wrong.extra["field"] == "cursor"
    assert "updated" in wrong.detail
    for other in ("", "nonsense", "ßß", cursor[:-3], "W" * 1025, *forged):
        assert refused(daemon, "invalid", "list", cursor=other).extra["field"] == "cursor"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "limit"), ({"limit": 501}, "limit"), ({"limit": "5"}, "limit"), ({"sort": "newest"}, "sort"),
        ({"state": "dead"}, "state"), ({"since": "now"}, "since"), ({"where": {"a": {}}}, "where.a"), ({"query": "x"}, "query"),
        ({"since": "2026-02-01", "until": "2026-01-31"}, "until"),
    ],
)  # fmt: skip
def test_a_wrong_list_is_invalid_by_its_field(shared: Daemon, params, field) -> None:
    assert refused(shared, "invalid", "list", **params).extra["field"] == field


def test_history_shows_former_texts_newest_first_up_to_its_limit(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea", tags=["drink"], metadata={"n": 1}, context="said at breakfast")
    for text in ("Ada likes green tea", "Ada likes black tea"):
        daemon.clock.advance(60)
        daemon.call("update", id="tea", content=text)

    versions = daemon.call("history", id="tea")["versions"]

    assert [one["version"] for one in versions] == [2, 1]
    assert versions[1] == {
        "version": 1, "content": "Ada likes tea", "context": "said at breakfast", "type": "semantic", "tags": ["drink"],
        "metadata": {"n": 1}, "sensitivity": "personal", "change_summary": "", "created_at": "2026-01-01T00:00:00Z",
        "replaced_at": "2026-01-01T00:01:00Z",
    }  # fmt: skip
    assert versions[0]["change_summary"] == "content changed"
    assert [one["version"] for one in daemon.call("history", id="tea", limit=1)["versions"]] == [2]
    assert refused(daemon, "invalid", "history", id="tea", limit=0).extra["field"] == "limit"
    assert refused(daemon, "not_found", "history", id="nobody").hint == "dreamctl list"
