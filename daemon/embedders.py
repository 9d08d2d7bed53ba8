"""Which embedder serves, and what follows from that: the gate, what a dream links, the metrics, what `health` says."""

from __future__ import annotations

from typing import Final

from daemon.config import Config
from daemon.health import Health
from daemon.parts import Parts
from storage.embed import Embedder, Fingerprint
from storage.errors import DreamdError, Unavailable

#: From which cosine a dream links two memories, by embedder: measured on pairs that say nearly the same.
NEAR: Final = {"use": 0.6, "wordllama": 0.75}
NEAR_ELSEWHERE: Final = 0.7
#: From which cosine two memories are worth a look whether they say the same, by embedder: of 600 labelled pairs (`use`,
#: `wordllama`) .76 and .62 of those that do lie above it, and of two turns of one conversation .002 and .001.
PROPOSE: Final = {"use": 0.75, "wordllama": 0.75}
PROPOSE_ELSEWHERE: Final = 0.85
REASON: Final = "embedder"


def near_of(provider: str) -> float:
    """From which cosine on two memories are near, by this embedder."""
    return NEAR.get(provider, NEAR_ELSEWHERE)


def propose_of(provider: str) -> float:
    """From which cosine on two memories may say the same, by this embedder."""
    return PROPOSE.get(provider, PROPOSE_ELSEWHERE)


def adopt(parts: Parts, embedder: Embedder | None, missing: DreamdError | None = None) -> None:
    """Let the embedder of a store that has just come serve; `missing` says why there is none. Called in the event loop."""
    parts.gate.use(embedder)
    parts.runner.use(near=near_of(parts.embedder_name), propose=propose_of(parts.embedder_name))
    parts.meter.note_embedder(parts.embedder_name)
    if embedder is not None:
        parts.health.mend(REASON)
        compare(parts.config, embedder.fingerprint, parts.health)
    elif missing is not None:
        miss(parts.health, missing)


def miss(health: Health, error: DreamdError) -> None:
    """Say that no embedder can serve, and why."""
    health.degrade(REASON, f"{error.detail} Recall goes on by keyword; nothing can be remembered.", error.hint)


def compare(config: Config, serving: Fingerprint, health: Health) -> None:
    """Say so where the configuration names another embedder than the one that serves."""
    provider, model = config.embedding.provider, config.embedding.model
    if provider == serving.provider and model in ("", serving.model):
        return
    named = f"{provider} {model}".strip()
    made = f"{serving.provider} {serving.model}"
    detail = f"The configuration names {named}, but the store was made with {made}, which serves on."
    health.degrade(REASON, detail, "dreamctl reindex")


def check_fit(fingerprint: Fingerprint, stored: Fingerprint | None, dimension: int) -> None:
    """Raise Unavailable unless new vectors can be compared with the stored ones."""
    if fingerprint.dimension == dimension and stored in (None, fingerprint):
        return
    origin = "another embedder" if stored is None else f"{stored.provider} {stored.model}"
    raise Unavailable(
        f"The stored vectors came from {origin}, as it was then; what loads now makes others.", hint="dreamctl reindex"
    )
