"""The keyword leg: BM25 term weights, counted here and multiplied by IDF in the engine.

A document's term weighs tf·(k+1) / (tf + k·(1 - b + b·length/avg_len)) (Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009), a query's term 1. The Multilingual tokenizer splits Chinese, Japanese and
Thai by dictionary; Korean it splits at spaces only, so there a noun with its particle is one term. English stop words
are dropped and English words stemmed.
"""

from __future__ import annotations

from typing import Final

import qdrant_edge

from storage.engine import Sparse

_K: Final = 1.2  # saturation of repeated terms
_B: Final = 0.75  # share of the length normalisation
_AVG_LEN: Final = 256.0  # terms in the document that counts as neither long nor short
_LANGUAGE: Final = "english"  # of stop words and stemmer

#: What the stored term weights depend on; part of the embedder's fingerprint. The values are the library's defaults,
#: spelt out so that a new default there cannot change the index unnoticed.
SETTINGS: Final = f"bm25 multilingual k={_K} b={_B} avg_len={_AVG_LEN:g} language={_LANGUAGE}"


class KeywordEncoder:
    """Turns texts into sparse vectors with rising, distinct term ids.

    Its dictionaries are loaded by the first text that needs them (0.1 s for Chinese, the same for Japanese).
    """

    def __init__(self) -> None:
        self._bm25 = qdrant_edge.Bm25(
            qdrant_edge.Bm25Config(
                k=_K, b=_B, avg_len=_AVG_LEN, tokenizer=qdrant_edge.TokenizerType.Multilingual, language=_LANGUAGE
            )
        )

    def document(self, text: str) -> Sparse:
        """The weights of a text that is stored; empty where nothing but stop words and symbols is in it."""
        return _sparse(self._bm25.embed_document(text))

    def query(self, text: str) -> Sparse:
        """The terms of a text that is searched for, each 1; empty means that this leg finds nothing."""
        return _sparse(self._bm25.embed_query(text))


def _sparse(vector: qdrant_edge.SparseVector) -> Sparse:
    return Sparse(tuple(vector.indices), tuple(vector.values))
