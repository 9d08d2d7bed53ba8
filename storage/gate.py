"""The one write gate before every text that is kept: normalise, redact, classify, then embed and check the vectors.

What comes out of it is the only thing that hashes, entities, logs and the store ever see. `admit` is pure; `vectors`
and `question` ask the embedder and are called in the embedding lane. What is long goes there in turns, so that it costs
the others no more than one turn: a batch of passages, or the terms of the texts (0.2 s for 256 KiB of Chinese).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple, TypeVar

from storage.embed import Embedder, Plan, Rows, check_vectors
from storage.engine import Sparse, Vector
from storage.errors import DreamdError, Invalid, Unavailable
from storage.keywords import KeywordEncoder
from storage.memories import Vectors
from storage.model import MAX_CONTENT_BYTES, MAX_CONTEXT_BYTES, SENSITIVITIES
from storage.redact import Redactor, raised_by
from storage.text import clean, clean_id, clean_key, clean_metadata, clean_scope, clean_tags, clean_value

T = TypeVar("T")
Turns = Generator[None, None, T]  # work that pauses between its turns, and its result

#: Short texts beside the content, and how long each may be (bytes).
SHORT: Final = {"author": 256, "session": 256, "subtype": 128, "label": 256}
MAX_COMMENT_BYTES: Final = 64 * 1024
#: Fields which a memory may lack: None takes them away again.
CLEARABLE: Final = frozenset({"event_at", "expires_at"})


class Admitted(NamedTuple):
    """The fields that were given, as they may be kept, and what redaction found in them (counts by kind)."""

    fields: dict[str, Any]
    redactions: dict[str, int]


class Gate:
    """Texts go in; what may be kept comes out."""

    def __init__(
        self,
        redactor: Redactor,
        embedder: Embedder | None,
        keywords: KeywordEncoder,
        *,
        levels: Mapping[str, str],
        default: str,
    ) -> None:
        self._redactor = redactor
        self._embedder = embedder
        self._keywords = keywords
        self._levels = [(re.compile(pattern), level) for pattern, level in levels.items()]
        self.default_sensitivity = default

    @property
    def kinds(self) -> frozenset[str]:
        """Every kind of secret that is masked, the owner's own among them."""
        return self._redactor.kinds

    @property
    def embedder(self) -> Embedder | None:
        """What makes the vectors, if anything can."""
        return self._embedder

    def use(self, embedder: Embedder | None) -> None:
        """Let another embedder make the vectors, from the next text on."""
        self._embedder = embedder

    def beside(self, embedder: Embedder) -> Gate:
        """A gate with the same rules and another embedder."""
        gate = copy(self)
        gate.use(embedder)
        return gate

    def fits(self, dense: Vector) -> bool:
        """Whether a row could be the embedder's own: another may have come since it was made."""
        return self._embedder is not None and len(dense) == self._embedder.fingerprint.dimension

    def admit(self, given: Mapping[str, Any]) -> Admitted:
        """Clean and redact the fields of a write; `sensitivity_floor` is added, or rises, where a text raises it.

        A field that is None counts as not given, but for those of `CLEARABLE`. Raises Invalid or TooLarge, naming the
        field; so it does for the name of a new thing (id, scope, key of a fact) that holds a secret, since two names that
        are masked may be one.
        """
        hits: Counter[str] = Counter()
        floors: list[str] = []
        fields = {
            name: None if value is None else self._field(name, value, hits, floors)
            for name, value in given.items()
            if value is not None or name in CLEARABLE
        }
        if fields.get("subtype") == "preference":
            floors.append("personal")
        if floors:
            fields["sensitivity_floor"] = max(floors, key=SENSITIVITIES.index)
        return Admitted(fields, dict(hits))

    def vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """Both vectors of each text. Raises Unavailable where the embedder is away or answers nonsense."""
        embedder = self._loaded()
        return self._vectors(embedder, texts, self._embed(embedder, texts))

    def vectors_in_turns(self, texts: Sequence[str]) -> Turns[list[Vectors]]:
        """What `vectors` gives, in turns."""
        embedder = self._loaded()
        dense = yield from self._embed_in_turns(embedder, texts)
        return self._vectors(embedder, texts, dense)

    def question(self, text: str) -> tuple[Vector | None, Sparse]:
        """A query's unit row, or None while the embedder is away, and its terms."""
        text = clean(text, "query", max_bytes=MAX_CONTENT_BYTES)
        terms = self._keywords.query(text)
        try:
            return self._embed(self._loaded(), [text])[0], terms
        except Unavailable:
            return None, terms

    def question_in_turns(self, text: str) -> Turns[tuple[Vector | None, Sparse]]:
        """What `question` gives, in turns."""
        text = clean(text, "query", max_bytes=MAX_CONTENT_BYTES)
        terms = self._keywords.query(text)
        try:
            dense = yield from self._embed_in_turns(self._loaded(), [text])
        except Unavailable:
            return None, terms
        return dense[0], terms

    def _vectors(self, embedder: Embedder, texts: Sequence[str], dense: Rows) -> list[Vectors]:
        rows = zip(dense, texts, strict=True)
        return [Vectors(row, self._keywords.document(text), text, embedder.fingerprint) for row, text in rows]

    def _embed_in_turns(self, embedder: Embedder, texts: Sequence[str]) -> Turns[Rows]:
        """The unit rows of the texts, with a pause after each batch unless it is the only one."""
        plan = Plan(texts)
        made: list[Rows] = []
        for batch in plan.batches:
            made.append(self._embed(embedder, batch))
            if len(plan.batches) > 1:
                yield
        dense = plan.join(made, embedder.fingerprint.dimension)
        check_vectors(dense, len(texts), embedder.fingerprint.dimension)
        return dense

    def _loaded(self) -> Embedder:
        if self._embedder is None:
            raise Unavailable(
                "The embedder could not be loaded, so nothing can be stored.",
                hint="dreamctl health",
                retry_after_s=60.0,
            )
        return self._embedder

    @staticmethod
    def _embed(embedder: Embedder, texts: Sequence[str]) -> Rows:
        try:
            rows = embedder.embed(texts)
        except DreamdError:
            raise
        except Exception as error:
            raise Unavailable(
                f"The embedder failed ({type(error).__name__}); nothing was stored.", hint="dreamctl health"
            ) from error
        check_vectors(rows, len(texts), embedder.fingerprint.dimension)
        return rows

    def _field(self, name: str, value: Any, hits: Counter[str], floors: list[str]) -> Any:
        match name:
            case "id":
                return self._name(name, clean_id(value))
            case "connect_to":
                return [clean_id(end) for end in value]
            case "scope":
                return self._name(name, clean_scope(value))
            case "content":
                return self._text(name, value, MAX_CONTENT_BYTES, hits, floors)
            case "context":
                return self._text(name, value, MAX_CONTEXT_BYTES, hits, floors, blank_ok=True)
            case "tags":
                return clean_tags([self._text("tags", tag, 512, hits, floors) for tag in value])
            case "metadata":
                return self._json(clean_metadata(value), hits, floors)
            case "comment":  # its text, which is `content` on the wire
                return self._text("content", value, MAX_COMMENT_BYTES, hits, floors)
            case "key":  # of a fact that is looked for
                return self._text(name, clean_key(value), MAX_CONTENT_BYTES, hits, floors)
            case "fact":  # (key, value): the key tells whether the value is a secret
                key = self._name("key", clean_key(value[0]))
                return key, self._json({key: clean_value(value[1])}, hits, floors)[key]
            case "told":
                return self._told(value, hits, floors)
            case "sensitivity_floor":
                floors.append(value)
        if name in SHORT:
            text = self._text(name, value, SHORT[name], hits, floors, blank_ok=True)
            return text.lower() if name == "subtype" else text  # a word to filter by, as tags are
        return value

    def _name(self, field: str, name: str) -> str:
        """What a new thing is called. Raises Invalid where something in it would be masked."""
        if self._redactor.redact(name).hits:
            raise Invalid(
                f"The {field} holds what looks like a secret.",
                hint=f"Choose another {field}: secrets are masked wherever they are kept.",
                field=field,
            )
        return name

    def _text(
        self, name: str, value: str, max_bytes: int, hits: Counter[str], floors: list[str], *, blank_ok: bool = False
    ) -> str:
        text = clean(value, name, max_bytes=max_bytes, blank_ok=blank_ok)
        floors += self._levels_of(text)
        redacted = self._redactor.redact(text)
        hits.update(redacted.hits)
        floors += [level for level in [redacted.raises_to] if level]
        return redacted.text

    def _told(self, parts: Sequence[tuple[str, str]], hits: Counter[str], floors: list[str]) -> list[str]:
        """The parts of one text, (field, text) each, or ("", text) for what joins them; masked as that text would be."""
        texts = [self._text(name, text, MAX_CONTENT_BYTES, hits, floors) if name else text for name, text in parts]
        floors += self._levels_of("".join(text for _, text in parts))
        masked, found = self._redactor.redact_parts(texts)
        hits.update(found)
        floors += [level for level in [raised_by(found)] if level]
        return masked

    def _json(self, cleaned: dict[str, Any], hits: Counter[str], floors: list[str]) -> dict[str, Any]:
        floors += self._levels_of(json.dumps(cleaned, ensure_ascii=False))
        masked, found = self._redactor.redact_json(cleaned)
        hits.update(found)
        floors += [level for level in [raised_by(found)] if level]
        return dict(masked)

    def _levels_of(self, text: str) -> list[str]:
        """The sensitivities that the owner's patterns ask for, matched before anything is masked."""
        return [level for pattern, level in self._levels if pattern.search(text)]
