"""`remember_many`: item by item, in order, a slice at a time; a bad one never stops the rest."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.methods.batch import SLICE
from tests.daemon.methods.asking import WatchedEmbedder, ask, at_once, refused
from tests.harness import Daemon


def texts(count: int) -> list[dict[str, Any]]:
    return [{"content": f"note number {n}", "id": f"m{n}", "session": "s"} for n in range(count)]


def test_every_item_is_stored_in_its_order_over_many_slices(daemon: Daemon) -> None:
    items = texts(3 * SLICE + 5)

    done = daemon.call("remember_many", items=items)

    oldest_first = daemon.call("list", limit=500)["memories"][::-1]
    assert (done["created"], done["failed"]) == (len(items), 0)
    assert [result["id"] for result in done["results"]] == [item["id"] for item in items]
    assert [memory["id"] for memory in oldest_first] == [item["id"] for item in items]
    assert {one["id"] for one in daemon.call("neighbors", id="m40")["neighbors"]} == {"m39", "m41"}


def test_each_bad_item_has_a_problem_of_its_own_and_the_others_are_stored(daemon: Daemon) -> None:
    daemon.remember("kept elsewhere", id="taken", scope="other")
    items = [
        {"content": "good"}, {"content": " "}, "no object", {"content": "x", "tier": "lnog"}, {"content": "x", "id": "taken"},
        {"content": "x", "connect_to": ["nobody"]}, {"contant": "x"}, {"content": "x" * 262_145}, None, {"content": "also good"},
    ]  # fmt: skip

    done = daemon.call("remember_many", items=items)

    kinds = [result.get("kind", "ok") for result in done["results"]]
    assert kinds == [
        "ok", "invalid", "invalid", "invalid", "conflict", "not_found", "invalid", "too_large", "invalid", "ok"
    ]  # fmt: skip
    assert (done["created"], done["failed"]) == (2, 8)
    assert all(result["hint"] for result in done["results"] if "kind" in result)
    assert done["results"][3]["field"] == "tier"
    assert daemon.call("stats")["total"] == 2


def test_an_item_sees_what_the_items_before_it_did(daemon: Daemon) -> None:
    items = [
        {"content": "Ada likes tea", "id": "tea", "author": "Bea"},
        {"content": "Ada likes green tea", "id": "tea"},
        {"content": "Ada bakes", "connect_to": ["tea"]},
        {"content": "Ada likes green tea", "author": "Bea"},
    ]

    done = daemon.call("remember_many", items=items)

    assert done["failed"] == 0
    assert [result["created"] for result in done["results"]] == [True, False, True, False]
    assert (done["results"][1]["version"], done["results"][3]["id"]) == (2, "tea")
    assert daemon.call("recall", query="Bea: Ada likes green tea", k=1)["hits"][0]["id"] == "tea"


def test_one_text_that_breaks_the_model_costs_that_item_alone(watched: Daemon, embedder: WatchedEmbedder) -> None:
    embedder.poison = "poison"
    items = [{"content": f"note {n}" if n != 4 else "poison"} for n in range(10)]

    done = watched.call("remember_many", items=items)

    assert [n for n, result in enumerate(done["results"]) if "kind" in result] == [4]
    assert done["results"][4]["kind"] == "unavailable"
    assert done["created"] == 9


def test_while_the_embedder_fails_every_item_is_unavailable(watched: Daemon, embedder: WatchedEmbedder) -> None:
    embedder.broken = True

    done = watched.call("remember_many", items=texts(40))

    assert {result["kind"] for result in done["results"]} == {"unavailable"}
    assert watched.call("stats")["total"] == 0


def test_an_item_with_a_request_id_is_done_once(daemon: Daemon) -> None:
    items = [{"content": f"note {n}", "request_id": f"r{n}"} for n in range(3)]

    first = ask(daemon, "remember_many", {"items": items[:2]})
    again = ask(daemon, "remember_many", {"items": items})
    single = ask(daemon, "remember", items[2])

    assert again["results"][:2] == first["results"]
    assert again["results"][2]["created"]
    assert single == again["results"][2]
    assert daemon.call("get", id=single["id"])["access_count"] == 0


def test_a_request_id_that_comes_twice_in_a_batch_is_done_once_and_refused_for_other_params(daemon: Daemon) -> None:
    items = [
        {"content": "a", "request_id": "r"},
        {"content": "a", "request_id": "r"},
        {"content": "b", "request_id": "r"},
    ]

    done = ask(daemon, "remember_many", {"items": items})

    assert done["results"][0] == done["results"][1]
    assert done["results"][2]["kind"] == "conflict"
    assert done["results"][2]["field"] == "request_id"
    assert daemon.call("stats")["total"] == 1


def test_batches_that_share_request_ids_at_once_do_each_thing_once(daemon: Daemon) -> None:
    items = [{"content": f"note {n}", "request_id": f"r{n}"} for n in range(2 * SLICE)]

    one, two = at_once(
        daemon, ("remember_many", {"items": items}), ("remember_many", {"items": items[::-1], "request_id": "r0"})
    )

    assert two["results"] == one["results"][::-1]
    assert one["created"] == two["created"] == len(items)
    assert daemon.call("stats")["total"] == len(items)


def test_a_batch_whose_item_bears_the_batch_s_own_request_id_ends(daemon: Daemon) -> None:
    batch = {"items": [{"content": "a", "request_id": "r"}], "request_id": "r"}

    first = ask(daemon, "remember_many", batch)

    assert first["created"] == 1
    assert ask(daemon, "remember_many", batch) == first


def test_an_item_cannot_raise_the_clearance_of_its_call(daemon: Daemon) -> None:
    daemon.remember("the vault is open", id="vault", sensitivity="secret")
    item = {"content": "the vault is shut", "id": "vault", "clearance": "secret"}

    done = daemon.call("remember_many", items=[item], clearance="personal")

    assert done["results"][0]["kind"] == "not_found"
    assert daemon.call("get", id="vault")["content"] == "the vault is open"


def test_what_is_no_list_of_items_or_too_long_a_one_is_invalid(daemon: Daemon) -> None:
    assert daemon.call("remember_many", items=[]) == {"results": [], "created": 0, "failed": 0}
    for items in ({"content": "x"}, None, [{}] * 10_001):
        assert refused(daemon, "invalid", "remember_many", items=items).extra["field"] == "items"


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_batch_is_there_after_a_restart(daemons, durability: str) -> None:
    daemon = daemons(options={"DREAMD_STORAGE__DURABILITY": durability}).start()

    daemon.call("remember_many", items=texts(5))
    daemon.restart()

    assert daemon.call("stats")["total"] == 5
