"""What may be written: payloads that come back as they went in, vectors that can be searched.

An engine stores a batch point by point, accepts NaN and zero vectors, and turns wide integers into floats; so a whole
batch is checked here before a byte of it is written. It knows no engine.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from storage.engine import Collection, Payload, Point, Sparse, Vector
from storage.errors import Invalid

#: The engine's log cannot be read back when a payload nests about 125 deep: the store would not open again.
MAX_DEPTH: Final = 64

_HINT: Final = "mend the point and send the whole batch again"


def check_points(collection: Collection, points: Sequence[Point]) -> int:
    """Return about how many bytes the batch takes; raise `Invalid` naming the first bad point."""
    size = 0
    for position, point in enumerate(points):
        name = f"Point {position}"
        try:
            _check_id(point.id)
            name += f" ({point.id})"
            size += _payload_size(point.payload) + _vectors_size(collection, point)
        except ValueError as fault:
            raise Invalid(f"{name} for {collection.name} {fault}.", hint=_HINT) from None
    if collection.dimension and points:
        _check_dense(collection, points)
    return size


def check_patch(collection: Collection, point_id: str, patch: Payload) -> int:
    """Return about how many bytes the patch takes; raise `Invalid` where it could not be stored."""
    name = "A patch"
    try:
        _check_id(point_id)
        name = f"The patch of {point_id}"
        return _payload_size(patch)
    except ValueError as fault:
        raise Invalid(f"{name} for {collection.name} {fault}.", hint=_HINT) from None


def check_query(collection: Collection, vector: Vector | Sparse) -> None:
    """Raise `Invalid` unless the collection can be searched by this vector."""
    try:
        if not collection.dimension:
            raise ValueError("has no vectors to search")
        if isinstance(vector, Sparse):
            _sparse_size(vector)
            return
        _check_shape(vector, collection.dimension)
        if not _searchable(vector.reshape(1, -1))[0]:
            raise ValueError("was asked for a dense vector which is zero or not finite")
    except ValueError as fault:
        raise Invalid(f"{collection.name} {fault}.", hint="check the embedder: dreamctl doctor") from None


def _check_id(point_id: str) -> None:
    try:
        canonical = str(uuid.UUID(point_id))
    except ValueError:
        canonical = ""
    if canonical != point_id:
        raise ValueError("has an id that is not a UUID in lower case with hyphens")


def _payload_size(payload: Payload) -> int:
    size = 0
    for field, value in payload.items():
        try:
            size += _size(field, 0) + _size(value, 1)
        except ValueError as fault:
            raise ValueError(f"has a field {field!a} with {fault}") from None
    return size


def _size(value: Any, depth: int) -> int:
    """About how many bytes a JSON value takes; ValueError where it would not come back as it is."""
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, str):
        return 4 + _text_size(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError("an integer beyond 64 bits")
        return 9
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number that is not finite")
        return 9
    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} levels of nesting")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("a key that is not a string")
        return sum(4 + _text_size(key) + _size(inner, depth + 1) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return sum(_size(inner, depth + 1) for inner in value)
    raise ValueError(f"a {type(value).__name__}, which JSON does not have")


def _text_size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"a lone surrogate at character {error.start}") from None


def _vectors_size(collection: Collection, point: Point) -> int:
    if not collection.dimension:
        if point.dense is not None or point.text is not None:
            raise ValueError("has a vector, which the collection does not keep")
        return 0
    if point.dense is None:
        raise ValueError("has no dense vector")
    _check_shape(point.dense, collection.dimension)
    return 4 * collection.dimension + (0 if point.text is None else _sparse_size(point.text))


def _check_shape(vector: Vector, dimension: int) -> None:
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32 or vector.shape != (dimension,):
        raise ValueError(f"needs a dense vector of {dimension} float32 numbers")


def _sparse_size(sparse: Sparse) -> int:
    indices, values = sparse
    if len(indices) != len(values):
        raise ValueError("has a sparse vector with unequal numbers of terms and weights")
    if len(set(indices)) != len(indices) or not all(0 <= term < 2**32 for term in indices):
        raise ValueError("has a sparse vector whose terms are not distinct 32-bit numbers")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.asarray(values, dtype=np.float32)).all():
            raise ValueError("has a sparse vector with a weight that is not finite")
    return 8 * len(indices)


def _check_dense(collection: Collection, points: Sequence[Point]) -> None:
    matrix = np.stack([point.dense for point in points if point.dense is not None])  # (points, dimension)
    bad = np.flatnonzero(~_searchable(matrix))
    if bad.size:
        name = f"Point {bad[0]} ({points[bad[0]].id}) for {collection.name}"
        raise Invalid(f"{name} has a dense vector which is zero or not finite.", hint=_HINT)


def _searchable(matrix: Vector) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows of (n, dimension) have a direction: finite and not zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    usable: np.ndarray[Any, np.dtype[np.bool_]] = np.isfinite(lengths) & (lengths > 0)
    return usable
