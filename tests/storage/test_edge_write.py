"""Writing to the embedded engine: what is refused before a byte is written, and what comes back as it went in."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from storage.edge import EdgeEngine
from storage.engine import Point, Sparse
from storage.errors import Invalid
from tests.storage.edge_writer import EDGES, MEMORIES, contents, identity, open_engine, point

M = MEMORIES.name
A, B, C = (identity(letter) for letter in "abc")


@pytest.fixture
def engine(tmp_path) -> Iterator[EdgeEngine]:
    engine = open_engine(tmp_path / "store")
    yield engine
    engine.close()


GOOD = point(B).dense
assert GOOD is not None
BAD_POINTS = {
    "nan": Point(A, {}, np.full(8, np.nan, dtype=np.float32)),
    "infinite": Point(A, {}, np.full(8, np.inf, dtype=np.float32)),
    "zero": Point(A, {}, np.zeros(8, dtype=np.float32)),
    "short": Point(A, {}, GOOD[:7]),
    "double precision": Point(A, {}, GOOD.astype(np.float64)),
    "no vector": Point(A, {}),
    "unequal sparse": Point(A, {}, GOOD, Sparse((1, 2), (1.0,))),
    "repeated term": Point(A, {}, GOOD, Sparse((1, 1), (1.0, 1.0))),
    "negative term": Point(A, {}, GOOD, Sparse((-1,), (1.0,))),
    "wide term": Point(A, {}, GOOD, Sparse((2**32,), (1.0,))),
    "nan weight": Point(A, {}, GOOD, Sparse((1,), (math.nan,))),
    "weight beyond float32": Point(A, {}, GOOD, Sparse((1,), (1e300,))),
    "id that is no UUID": Point("memory-1", {}, GOOD),
    "id in capitals": Point(A.upper(), {}, GOOD),
    "nan in the payload": Point(A, {"x": {"y": [math.nan]}}, GOOD),
    "lone surrogate": Point(A, {"content": "private \ud800"}, GOOD),
    "lone surrogate in a key": Point(A, {"metadata": {"\udfff": 1}}, GOOD),
    "set": Point(A, {"x": {1}}, GOOD),
    "bytes": Point(A, {"x": b"private"}, GOOD),
    "key that is no string": Point(A, {"x": {1: 2}}, GOOD),
    "integer over 64 bits": Point(A, {"x": 2**64}, GOOD),
    "integer under 64 bits": Point(A, {"x": -(2**63) - 1}, GOOD),
}


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS.keys())
def test_a_batch_with_one_bad_point_writes_none_of_it_and_names_the_point(engine, bad: Point) -> None:
    engine.upsert(M, [point(B, {"kept": 1})])

    with pytest.raises(Invalid, match="Point 1 ") as refusal:
        engine.upsert(M, [point(B, {"kept": 2}), bad, point(C)])

    assert contents(engine) == {B: {"kept": 1}}
    assert refusal.value.hint
    assert "private" not in refusal.value.detail


def test_a_payload_nested_so_deep_that_the_log_could_not_be_read_again_is_refused(tmp_path) -> None:
    def nested(levels: int) -> list:
        return [] if levels == 1 else [nested(levels - 1)]

    engine = open_engine(tmp_path)
    engine.upsert(M, [point(A, {"metadata": nested(64)})])

    with pytest.raises(Invalid, match="nesting"):
        engine.upsert(M, [point(B, {"metadata": nested(65)})])
    with pytest.raises(Invalid, match="nesting"):
        engine.set_payload(M, {A: {"metadata": nested(130)}})

    engine.close()
    assert contents(open_engine(tmp_path)) == {A: {"metadata": nested(64)}}


def test_a_payload_only_collection_takes_no_vector(engine) -> None:
    engine.upsert(EDGES.name, [Point(A, {"weight": 1.5})])

    with pytest.raises(Invalid, match="vector"):
        engine.upsert(EDGES.name, [point(B)])

    assert contents(engine, EDGES.name) == {A: {"weight": 1.5}}


PAYLOADS = {
    "nested null": {"metadata": {"a": None, "b": [None, {"c": None}]}},
    "top-level null": {"a": None},
    "empty list and dict": {"tags": [], "metadata": {}, "deep": {"list": [], "dict": {}}},
    "widest integers": {"metadata": {"max": 2**64 - 1, "over signed": 2**63, "min": -(2**63)}},
    "floats": {"metadata": {"sum": 0.1 + 0.2, "whole": 1.0, "large": 1e308, "tiny": 5e-324, "at": 1764460000.123456}},
    "whole float is no integer": {"metadata": {"float": 3.0, "int": 3, "bool": True}},
    "unicode keys": {"metadata": {"ключ": "значение", "键": "值", "😀": "😀", "é": "e\u0301"}},
    "keys that look like paths": {"metadata": {"a.b": 1, "a[0]": 2, 'a"b': 3, "": 4, " ": 5}, "x.y": {"z": 1}},
    "control characters": {"content": "a\0b\x1b\r\n\u2028"},
}


def test_a_payload_comes_back_as_it_went_in_from_segment_and_log_and_after_a_rewrite(tmp_path) -> None:
    """Compared by `repr`, which tells 1 from 1.0 and True."""
    written = {identity(name): payload for name, payload in PAYLOADS.items()}
    patches = {key: {k: v for k, v in payload.items() if v is not None} for key, payload in written.items()}
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(A), *(point(key, payload) for key, payload in written.items())])
    engine.upsert(EDGES.name, [Point(key, {}) for key in written])
    engine.set_payload(EDGES.name, patches)

    def seen() -> tuple[dict[str, str], dict[str, str]]:
        stored, patched = contents(engine), contents(engine, EDGES.name)
        return {key: ordered(stored[key]) for key in written}, {key: ordered(patched[key]) for key in written}

    def ordered(payload: dict) -> str:
        return repr(sorted(payload.items()))

    expected = {key: ordered(payload) for key, payload in written.items()}, {k: ordered(p) for k, p in patches.items()}
    assert seen() == expected
    engine.close()
    engine = open_engine(tmp_path)
    assert seen() == expected
    engine.delete(M, [A])
    engine.vacuum(M)
    assert seen() == expected


def test_set_payload_sets_removes_and_passes_over_missing_points(engine) -> None:
    engine.upsert(M, [point(A, {"keep": 1, "gone": 2, "a.b": 3, "a": {"b": 4}}), point(B, {"keep": 5})])

    engine.set_payload(
        M,
        {
            C: {"heat": "cold"},
            A: {"gone": None, "a.b": None, "heat": "cold", "metadata": {"null": None}},
            B: {"heat": "cold", "absent": None},
            identity("missing too"): {"gone": None},
        },
    )
    engine.set_payload(M, {A: {}, B: {}})

    assert contents(engine) == {
        A: {"keep": 1, "a": {"b": 4}, "heat": "cold", "metadata": {"null": None}},
        B: {"keep": 5, "heat": "cold"},
    }


def test_patches_that_differ_only_by_type_are_not_taken_for_equal(engine) -> None:
    engine.upsert(EDGES.name, [Point(letter, {}) for letter in (A, B, C)])

    engine.set_payload(EDGES.name, {A: {"x": 1}, B: {"x": 1.0}, C: {"x": True}})

    assert {key: repr(value["x"]) for key, value in contents(engine, EDGES.name).items()} == {
        A: "1",
        B: "1.0",
        C: "True",
    }


def test_set_payload_keeps_vectors_and_refuses_a_bad_patch_before_writing_any(engine) -> None:
    engine.upsert(M, [point(A), point(B)])

    with pytest.raises(Invalid, match=B):
        engine.set_payload(M, {A: {"x": 1}, B: {"x": math.inf}})
    with pytest.raises(Invalid):
        engine.set_payload(M, {A: {"x": 1}, "no UUID": {"x": 1}})

    assert contents(engine) == {A: {}, B: {}}
    engine.set_payload(M, {A: {"x": 1}})
    assert engine.retrieve(M, [A], vectors=True)[A].dense is not None


def test_delete_passes_over_missing_ids(engine) -> None:
    engine.upsert(M, [point(A), point(B)])

    engine.delete(M, [A, C, A])
    engine.delete(M, [])

    assert engine.count(M) == 1
    assert engine.counts() == {M: 1, EDGES.name: 0}
