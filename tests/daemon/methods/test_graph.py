"""The graph over the wire: edges by hand, neighbours, numbers."""

from __future__ import annotations

import pytest

from tests.daemon.methods.asking import refused
from tests.harness import Daemon


@pytest.fixture
def pair(daemon: Daemon) -> Daemon:
    daemon.remember("Ada likes tea", id="tea")
    daemon.remember("Ada bakes cake", id="cake")
    return daemon


def test_connect_joins_two_memories_and_adds_to_what_is_there_up_to_ten(pair: Daemon) -> None:
    first = pair.call("connect", a="tea", b="cake", label="goes with")
    again = pair.call("connect", a="cake", b="tea", weight=3.5)
    most = pair.call("connect", a="tea", b="cake", weight=10.0, label="belongs to")

    assert first == {"a": "cake", "b": "tea", "kind": "manual", "weight": 2.0, "label": "goes with"}
    assert (again["weight"], again["label"]) == (5.5, "goes with")
    assert (most["weight"], most["label"]) == (10.0, "belongs to")
    for one, other, content in (("tea", "cake", "Ada bakes cake"), ("cake", "tea", "Ada likes tea")):
        assert pair.call("neighbors", id=one) == {
            "neighbors": [{"id": other, "weight": 10.0, "kind": "manual", "label": "belongs to", "content": content}]
        }


def test_an_edge_fades_while_the_daemon_is_awake(pair: Daemon) -> None:
    pair.call("connect", a="tea", b="cake")
    pair.beat(14)

    weight = pair.call("neighbors", id="tea")["neighbors"][0]["weight"]

    assert weight == pytest.approx(2.0 * 0.95**14, abs=0.001)
    assert pair.call("connect", a="tea", b="cake")["weight"] == pytest.approx(weight + 2.0, abs=0.001)


def test_a_label_passes_the_gate_and_its_secrets_are_counted(pair: Daemon) -> None:
    key = "AKIA" + "Z7QX4MNB2VLK9WPD"

    edge = pair.call("connect", a="tea", b="cake", label=f"see {key}")

    text = pair.run(pair.app.service.metrics(""))[0].decode()
    assert key not in edge["label"]
    assert "[REDACTED:" in edge["label"]
    assert any(line.startswith("dreamd_redactions_total") and line.endswith(" 1.0") for line in text.splitlines())


def test_disconnect_removes_the_edge_once(pair: Daemon) -> None:
    pair.call("connect", a="tea", b="cake")

    assert pair.call("disconnect", a="cake", b="tea") == {"a": "cake", "b": "tea", "disconnected": True}
    assert pair.call("neighbors", id="tea") == {"neighbors": []}
    assert refused(pair, "not_found", "disconnect", a="cake", b="tea").hint == "dreamctl neighbors cake"


def test_neighbours_come_strongest_first_with_those_of_the_session(daemon: Daemon) -> None:
    for n in range(3):
        daemon.remember(f"turn {n}", id=f"t{n}", session="s")
    daemon.remember("a thing apart", id="far")
    daemon.call("connect", a="t1", b="far", weight=4.0)

    around = daemon.call("neighbors", id="t1")["neighbors"]

    assert [(one["id"], one["kind"]) for one in around] == [("far", "manual"), ("t0", "next"), ("t2", "next")]


def test_no_edge_crosses_scopes_or_joins_a_memory_to_itself(pair: Daemon) -> None:
    pair.remember("elsewhere", id="far", scope="other")

    assert "different scopes" in refused(pair, "refused", "connect", a="tea", b="far").detail
    assert "itself" in refused(pair, "refused", "connect", a="tea", b="tea").detail
    pair.call("forget", id="cake")
    assert refused(pair, "conflict", "connect", a="tea", b="cake").hint == "dreamctl restore cake"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"a": "tea"}, "b"), ({"a": "tea", "b": ""}, "b"), ({"a": "tea", "b": "cake", "weight": 0}, "weight"),
        ({"a": "tea", "b": "cake", "weight": 10.5}, "weight"), ({"a": "tea", "b": "cake", "weight": float("inf")}, "weight"),
        ({"a": "tea", "b": "cake", "lable": "x"}, "lable"),
    ],
)  # fmt: skip
def test_a_wrong_connection_is_invalid_by_its_field(shared: Daemon, params, field) -> None:
    assert refused(shared, "invalid", "connect", **params).extra["field"] == field


@pytest.mark.parametrize(("method", "params"), [("connect", {}), ("disconnect", {})])
def test_an_unknown_end_is_not_found(shared: Daemon, method, params) -> None:
    there = shared.remember("there", id="there")

    assert "'nobody'" in refused(shared, "not_found", method, a=there, b="nobody", **params).detail
    assert "'nobody'" in refused(shared, "not_found", method, a="nobody", b=there, **params).detail
    assert "'nobody'" in refused(shared, "not_found", "neighbors", id="nobody").detail


def test_graph_stats_count_what_is_there(daemon: Daemon) -> None:
    empty = daemon.call("graph_stats")
    for n in range(5):
        daemon.remember(f"note {n}", id=f"n{n}")
    daemon.call("connect", a="n0", b="n1", weight=3.0)
    daemon.call("connect", a="n0", b="n2")
    daemon.call("connect", a="n3", b="n4")
    daemon.call("forget", id="n4")

    stats = daemon.call("graph_stats")

    assert empty == {
        "nodes": 0, "edges": 0, "by_kind": {}, "mean_degree": 0.0, "median_degree": 0.0, "max_degree": 0, "isolated": 0,
        "strongest": [],
    }  # fmt: skip
    assert stats == {
        "nodes": 4, "edges": 2, "by_kind": {"manual": 2}, "mean_degree": 1.0, "median_degree": 1.0, "max_degree": 2,
        "isolated": 1, "strongest": [
            {"a": "n0", "b": "n1", "kind": "manual", "weight": 3.0}, {"a": "n0", "b": "n2", "kind": "manual", "weight": 2.0},
        ],
    }  # fmt: skip


def test_edges_outlive_a_restart(pair: Daemon) -> None:
    pair.call("connect", a="tea", b="cake", label="goes with")
    before = pair.call("neighbors", id="tea")

    pair.restart()

    assert pair.call("neighbors", id="tea") == before
