"""A scope in numbers: tags, stats, and what is about to be forgotten."""

from __future__ import annotations

import pytest

from tests.daemon.methods.asking import refused
from tests.harness import Daemon

DAY = 86_400.0


def test_tags_are_counted_commonest_first_within_the_scope(daemon: Daemon) -> None:
    daemon.remember("one", tags=["Work", "home"])
    daemon.remember("two", tags=["work"])
    daemon.remember("three", tags=["work", "away"], scope="elsewhere")

    assert daemon.call("tags") == {"tags": [{"tag": "work", "count": 2}, {"tag": "home", "count": 1}]}
    assert daemon.call("tags", scope="*")["tags"][0] == {"tag": "work", "count": 3}
    assert daemon.call("tags", scope="nowhere") == {"tags": []}


def test_stats_count_the_live_memories_of_a_scope(daemon: Daemon) -> None:
    daemon.remember("one", id="one", tags=["a", "b"], type="episodic", confidence=0.5, source="learned")
    daemon.remember("two", id="two", tags=["a"], subtype="note", tier="core", sensitivity="public")
    daemon.remember("three", scope="default/deep")
    daemon.remember("four", scope="elsewhere")
    daemon.call("forget", id=daemon.remember("five"))
    daemon.call("update", id="one", content="one, edited")
    daemon.call("update", id="one", content="one, edited again")

    assert daemon.call("stats") == {
        "total": 3, "by_type": {"semantic": 2, "episodic": 1}, "by_source": {"stated": 2, "learned": 1},
        "by_subtype": {"note": 1}, "by_tier": {"short": 2, "core": 1}, "by_heat": {"warm": 3},
        "by_sensitivity": {"personal": 2, "public": 1}, "by_provenance": {"direct": 3}, "avg_confidence": 0.8333,
        "unique_tags": 2, "top_tags": [{"tag": "a", "count": 2}, {"tag": "b", "count": 1}], "total_versions": 2,
        "memories_with_history": 1,
    }  # fmt: skip
    assert daemon.call("stats", scope="*")["total"] == 4
    assert daemon.call("stats", scope="nowhere")["total"] == 0
    assert daemon.call("stats", scope="nowhere")["avg_confidence"] == 0.0


def test_fading_tells_what_goes_when_and_what_saves_it(daemon: Daemon) -> None:
    daemon.remember("goes after sixteen days", id="plain")
    daemon.remember("goes with its end", id="ends", expires_at="2026-01-10", tier="core")
    daemon.remember("stays", id="long", tier="long")
    daemon.remember("is pinned", id="pinned", pinned=True)

    within_a_month = daemon.call("fading", days=30)["memories"]

    ends, plain = within_a_month
    assert ends == {
        "id": "ends", "content": "goes with its end", "retention": 1.0, "forgotten_at": "2026-01-10T00:00:00Z",
        "saved_by": "dreamctl update ends --expires-at +30d",
    }  # fmt: skip
    assert (plain["id"], plain["forgotten_at"][:10]) == ("plain", "2026-01-17")
    assert plain["saved_by"] == "a recall of it, or: dreamctl pin plain, or: dreamctl set_tier plain long"
    assert daemon.call("fading", days=8)["memories"] == []
    assert [one["id"] for one in daemon.call("fading", days=9.1)["memories"]] == ["ends"]


def test_what_fades_before_its_end_is_saved_by_a_use(daemon: Daemon) -> None:
    daemon.remember("fades first", id="fades", expires_at="2026-03-01")
    daemon.remember("ends first", id="ends", expires_at="2026-01-05")

    saved_by = {one["id"]: one["saved_by"] for one in daemon.call("fading", days=30)["memories"]}

    assert saved_by["fades"].startswith("a recall of it")
    assert saved_by["ends"] == "dreamctl update ends --expires-at +30d"


def test_fading_says_of_each_memory_what_decay_then_does(daemon: Daemon) -> None:
    for n in range(8):
        daemon.remember(f"note {n}", id=f"n{n}", importance=n / 8)
    said = {one["id"]: one["forgotten_at"] for one in daemon.call("fading", days=60)["memories"]}
    gone: dict[str, str] = {}

    for _ in range(40):
        daemon.beat(1)
        daemon.call("run_job", name="decay")
        for memory in daemon.call("list", state="forgotten")["memories"]:
            gone.setdefault(memory["id"], memory["forgotten_at"])

    assert gone.keys() == {memory for memory, at in said.items() if at < "2026-02-10"}
    assert all(said[memory] <= at for memory, at in gone.items())
    assert all(at[:10] in (said[memory][:10], next_day(said[memory])) for memory, at in gone.items())


def test_a_newborn_is_protected_for_its_first_day(daemons) -> None:
    daemon = daemons(options={"DREAMD_DECAY__BASE_STRENGTH_DAYS": "0.01"}).start()
    daemon.remember("short-lived", id="short")

    assert daemon.call("fading", days=1)["memories"][0]["forgotten_at"] == "2026-01-02T00:00:00Z"


def test_many_texts_are_read_in_slices(daemon: Daemon) -> None:
    daemon.call("remember_many", items=[{"content": f"note {n}", "id": f"n{n:03}"} for n in range(300)])

    shown = daemon.call("fading", days=30)["memories"]

    assert [one["content"] for one in shown] == [f"note {n}" for n in range(300)]


@pytest.mark.parametrize("days", [0, -1, 4000, float("nan"), "7"])
def test_days_that_are_no_span_are_invalid(shared: Daemon, days) -> None:
    assert refused(shared, "invalid", "fading", days=days).extra["field"] == "days"


def next_day(instant: str) -> str:
    from datetime import datetime, timedelta

    return (datetime.fromisoformat(instant) + timedelta(days=1)).date().isoformat()
