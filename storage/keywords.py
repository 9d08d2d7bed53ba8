"""The keyword leg: BM25 term weights, counted here and multiplied by IDF in the engine.

A document's term weighs tf·(k+1) / (tf + k·(1 - b + b·length/avg_len)) (Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009), a query's term 1. The Multilingual tokenizer splits Chinese, Japanese and
Thai by dictionary; Korean it splits at spaces only, so there a noun with its particle is one term. English stop words
are dropped and English words stemmed. It drops numbers as well, which are what a port, a locker or an invoice is known by:
they are added here, as terms of their own.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import qdrant_edge

from storage.engine import Sparse

_K: Final = 1.2  # saturation of repeated terms
_B: Final = 0.75  # share of the length normalisation
_AVG_LEN: Final = 256.0  # terms in the document that counts as neither long nor short
_LANGUAGE: Final = "english"  # of stop words and stemmer
_NUMBER: Final = re.compile(r"(?<!\w)\d{1,20}(?!\w)")  # in any script's digits; 10:45 and 2026-05-04 are several

#: What the stored term weights depend on; part of the embedder's fingerprint. The values are the library's defaults,
#: spelt out so that a new default there cannot change the index unnoticed.
SETTINGS: Final = f"bm25 multilingual k={_K} b={_B} avg_len={_AVG_LEN:g} language={_LANGUAGE} numbers"


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
        """The weights of a text that is stored; empty where nothing but stop words and symbols is in it.

        A number weighs what a word does that stands once in this text: the length of the text has gone into that already.
        """
        terms = _terms(self._bm25.embed_document(text))
        numbers = _numbers(text) - terms.keys()
        once = min(terms.values(), default=(_K + 1) / (1 + _K * (1 - _B + _B * len(numbers) / _AVG_LEN)))
        return _sparse(terms | dict.fromkeys(numbers, once))

    def query(self, text: str) -> Sparse:
        """The terms of a text that is searched for, each 1; empty means that this leg finds nothing."""
        return _sparse(_terms(self._bm25.embed_query(text)) | dict.fromkeys(_numbers(text), 1.0))


def _terms(vector: qdrant_edge.SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices, vector.values, strict=True))


def _numbers(text: str) -> set[int]:
    """The term ids of the numbers in a text; 007 and ７ are 7."""
    return {zlib.crc32(f"number {int(number)}".encode()) for number in _NUMBER.findall(text)}


def _sparse(terms: dict[int, float]) -> Sparse:
    rising = sorted(terms.items())
    return Sparse(tuple(term for term, _ in rising), tuple(weight for _, weight in rising))
