"""Our collections, conditions, queries and points in the engine's own types, and its records in ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import qdrant_edge as edge

from storage.engine import DENSE, TEXT, Collection, Condition, Payload, Point, Query, Record, Sparse

_NEVER: Final = 10**9  # KB: no index below this size, and no limit to what is merged into one segment


def config_of(collection: Collection) -> edge.EdgeConfig:
    """Exact search over float16; optimizers that rewrite, when called, at the first deleted row, into one segment."""
    vectors = None
    sparse = edge.EdgeSparseVectorParams()  # stays empty: the engine wants one vector space
    if collection.dimension:
        half, cosine = edge.VectorStorageDatatype.Float16, edge.Distance.Cosine
        vectors = {DENSE: edge.EdgeVectorParams(size=collection.dimension, distance=cosine, datatype=half)}
        sparse = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
    return edge.EdgeConfig(
        vectors=vectors,
        sparse_vectors={TEXT: sparse},
        optimizers=edge.EdgeOptimizersConfig(
            deleted_threshold=0.0,
            vacuum_min_vector_number=0,
            default_segment_number=1,
            max_segment_size=_NEVER,
            indexing_threshold=_NEVER,
        ),
    )


def never(condition: Condition | None) -> bool:
    """Whether nothing can meet the condition, so that the engine need not be asked."""
    return condition is not None and (condition.ids == frozenset() or condition.sensitivities == ())


def can_match(query: Query) -> bool:
    """Whether a query can find anything; of the others the engine would make an error."""
    empty = isinstance(query.vector, Sparse) and not query.vector.indices
    return not empty and query.limit > 0 and not never(query.condition)


def filter_of(condition: Condition | None) -> edge.Filter | None:
    """The filter for a condition, None where it restricts nothing: an exact scan is cheaper without one."""
    if condition is None:
        return None
    must: list[edge.ConditionType] = []
    if condition.scope is not None:
        must.append(_field("scopes", edge.MatchValue(condition.scope)))
    must += [_field("tags", edge.MatchValue(tag)) for tag in condition.tags]
    if condition.tags_any:
        must.append(_field("tags", edge.MatchAny(list(condition.tags_any))))
    if condition.sensitivities is not None:
        must.append(_field("sensitivity", edge.MatchAny(list(condition.sensitivities))))
    if condition.owner is not None:
        must.append(_field("owner", edge.MatchValue(condition.owner)))
    if condition.ids is not None:
        must.append(edge.HasIdCondition(set(condition.ids)))
    return edge.Filter(must=must) if must else None


def batch_of(queries: Sequence[Query]) -> edge.QueryBatchRequest:
    """One request for all legs: ids and scores alone; IDF over the corpus where one is given."""
    return edge.QueryBatchRequest([_request(query) for query in queries])


def page_of(
    condition: Condition | None,
    offset: edge.PointId | None,
    limit: int,
    payload: edge.WithPayloadType,
    *,
    vectors: bool,
) -> edge.ScrollRequest:
    """The request for one page of the points that meet a condition."""
    return edge.ScrollRequest(offset, limit, filter_of(condition), with_payload=payload, with_vector=vectors)


def patch_of(ids: set[str], patch: Payload) -> edge.UpdateOperation:
    """The setting of payload fields on those of these points that exist."""
    return edge.UpdateOperation.set_payload_by_filter(edge.Filter(must=[edge.HasIdCondition({*ids})]), patch)


def point_of(point: Point) -> edge.Point:
    """The engine's point, with the vectors that the point has."""
    vectors: dict[str, edge.NamedVector] = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.text is not None:
        vectors[TEXT] = _sparse(point.text)
    return edge.Point(point.id, vectors, point.payload)


def record_of(record: edge.Record) -> Record:
    """A record as read back; the engine's ids are `uuid.UUID`."""
    payload = record.payload or {}
    if not record.vector:
        return Record(str(record.id), payload)
    vectors = cast("dict[str, Any]", record.vector)
    dense, text = vectors.get(DENSE), vectors.get(TEXT)
    return Record(
        str(record.id),
        payload,
        None if dense is None else np.asarray(dense, dtype=np.float32),
        None if text is None else Sparse(tuple(text.indices), tuple(text.values)),
    )


def fields_of(fields: list[str]) -> edge.WithPayloadType:
    """The payload fields to read, quoted: the engine reads bare names as paths."""
    return [f'"{field}"' for field in fields] if fields else False


def _field(key: str, match: edge.MatchType) -> edge.FieldCondition:
    return edge.FieldCondition(key, match=match)


def _request(query: Query) -> edge.QueryRequest:
    if isinstance(query.vector, Sparse):
        nearest = edge.Query.Nearest(_sparse(query.vector), using=TEXT)
        corpus = filter_of(query.corpus)
        params = None if corpus is None else edge.SearchParams(idf=edge.IdfParams(corpus=corpus))
    else:
        nearest, params = edge.Query.Nearest(query.vector.tolist(), using=DENSE), None
    return edge.QueryRequest(limit=query.limit, query=nearest, filter=filter_of(query.condition), params=params)


def _sparse(sparse: Sparse) -> edge.SparseVector:
    return edge.SparseVector(list(sparse.indices), list(sparse.values))
