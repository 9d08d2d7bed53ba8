"""How well near-duplicates are told from what only looks like them, over 600 pairs that were labelled by hand.

    python tests/bench/pairs.py [--provider use] [--threshold 0.75] [--json FILE]

`pairs.jsonl` beside this file has 300 pairs of memories that say the same, so that a reader would keep one, and 300 that
look alike and do not. Each side passes the gate and is embedded as a memory is. Reported are precision, recall and F1 of
"same" by cosine alone from each threshold on, the area under the ROC curve, and precision and recall of `twins`, which
decides what may be merged without a language model; then, kind by kind, the median cosine and the share of pairs from
`--threshold` on. `unrelated` is the share of texts of two different pairs that a threshold lets through as well: in a
store nearly all pairs are of that sort.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from daemon.embedders import PROPOSE
from storage.embed import Rows, load_embedder
from storage.entities import entities_in
from storage.gate import Gate
from storage.instants import parse_instant
from storage.keywords import KeywordEncoder
from storage.model import Memory, content_hash, ends_with_question, scored_text
from storage.redact import Redactor
from storage.twins import twins

SUITE = Path(__file__).with_name("pairs.jsonl")
THRESHOLDS = tuple(round(0.5 + step / 100, 2) for step in range(50))

Flags = NDArray[np.bool_]


class Pair(NamedTuple):
    a: Memory
    b: Memory
    same: bool
    kind: str

    @property
    def text(self) -> str:
        return f"{self.kind}: {self.a.content!r} / {self.b.content!r}"


def pairs(gate: Gate) -> list[Pair]:
    """The suite, as a store would keep it."""
    rows = map(json.loads, SUITE.read_text(encoding="utf-8").splitlines())
    return [
        Pair(memory(gate, f"{n}a", row["a"]), memory(gate, f"{n}b", row["b"]), row["same"], row["kind"])
        for n, row in enumerate(rows, 1)
    ]


def memory(gate: Gate, name: str, given: dict[str, Any]) -> Memory:
    """One side of a pair as `remember` would make it."""
    if "event_at" in given:
        given = given | {"event_at": parse_instant(given["event_at"])}
    fields = {key: value for key, value in gate.admit(given).fields.items() if key != "sensitivity_floor"}
    made = Memory(id=name, **fields)
    identity = content_hash(made.author, made.content, event_at=made.event_at, episode_of=None)
    found = entities_in(made.content, made.author)
    return Memory(id=name, **fields, entities=found, content_hash=identity, asks=ends_with_question(made.content))


def scores(chosen: Flags, same: Flags) -> dict[str, float]:
    """Precision (1 where nothing is chosen), recall and F1 of what is chosen."""
    right, taken = float(np.count_nonzero(chosen & same)), np.count_nonzero(chosen)
    return {
        "precision": right / taken if taken else 1.0, "recall": right / np.count_nonzero(same),
        "f1": 2 * right / (taken + np.count_nonzero(same)),
    }  # fmt: skip


def area(cosines: NDArray[Any], same: Flags) -> float:
    """Area under the ROC curve: how often a pair that is the same has the higher cosine, ties counting half."""
    ahead = np.sign(cosines[same][:, None] - cosines[~same][None, :])
    return float((ahead + 1).mean() / 2)


def unrelated(vectors: Rows) -> NDArray[Any]:
    """The cosines of all texts that stand in different pairs; rows 2n and 2n + 1 are the sides of a pair."""
    owner = np.arange(len(vectors)) // 2
    return (vectors @ vectors.T)[owner[:, None] < owner[None, :]]


def by_kind(suite: list[Pair], cosines: NDArray[Any], merged: Flags, threshold: float) -> Iterator[dict[str, Any]]:
    for kind in dict.fromkeys(pair.kind for pair in suite):
        here = np.array([pair.kind == kind for pair in suite])
        yield {
            "kind": kind, "same": next(pair.same for pair in suite if pair.kind == kind), "pairs": int(here.sum()),
            "median_cosine": float(np.median(cosines[here])), "share": float((cosines[here] >= threshold).mean()),
            "merged": float(merged[here].mean()),
        }  # fmt: skip


def measure(provider: str, threshold: float) -> dict[str, Any]:
    """All figures of one embedder."""
    gate = Gate(Redactor(), load_embedder(provider), KeywordEncoder(), levels={}, default="personal")
    suite = pairs(gate)
    texts = [scored_text(side.author, side.content) for pair in suite for side in (pair.a, pair.b)]
    vectors = np.array([made.dense for made in gate.vectors(texts)])
    cosines, background = np.einsum("ij,ij->i", vectors[::2], vectors[1::2]), unrelated(vectors)
    same = np.array([pair.same for pair in suite])
    merged = np.array([twins(pair.a, pair.b) for pair in suite])
    exact = np.array([pair.kind == "exact-twin" for pair in suite])
    curve = [
        {"threshold": one, **scores(cosines >= one, same), "unrelated": float((background >= one).mean())}
        for one in THRESHOLDS
    ]
    return {
        "embedder": provider, "pairs": len(suite), "auc": area(cosines, same), "threshold": threshold,
        "at_threshold": scores(cosines >= threshold, same) | {
            "recall_beyond_exact_twins": scores(cosines >= threshold, same & ~exact)["recall"],
            "unrelated": float((background >= threshold).mean()),
        },
        "curve": curve,
        "kinds": list(by_kind(suite, cosines, merged, threshold)),
        "twins": scores(merged, same) | {
            "recall_of_exact_twins": scores(merged, exact)["recall"],
            "wrongly_merged": [pair.text for pair, one in zip(suite, merged & ~same, strict=True) if one],
            "exact_twins_missed": [pair.text for pair, one in zip(suite, exact & ~merged, strict=True) if one],
        },
    }  # fmt: skip


def show(figures: dict[str, Any]) -> None:
    print(f"{figures['embedder']}, {figures['pairs']} pairs, area under the ROC curve {figures['auc']:.3f}\n")
    print("threshold  precision  recall    F1  unrelated")
    for row in figures["curve"]:
        print(
            f"{row['threshold']:9.2f}  {row['precision']:9.3f}  {row['recall']:6.3f}  {row['f1']:.2f}  {row['unrelated']:.6f}"
        )
    print(f"\n{'kind':13} same  pairs  median  from {figures['threshold']:.2f}  merged by twins")
    for row in figures["kinds"]:
        print(
            f"{row['kind']:13} {'yes' if row['same'] else 'no':4} {row['pairs']:6} {row['median_cosine']:7.3f} "
            f"{row['share']:10.2f} {row['merged']:16.2f}"
        )
    chosen, alone = figures["at_threshold"], figures["twins"]
    print(
        f"\nfrom {figures['threshold']:.2f}: precision {chosen['precision']:.3f}, recall {chosen['recall']:.3f}, "
        f"without exact twins {chosen['recall_beyond_exact_twins']:.3f}; unrelated {chosen['unrelated']:.6f}"
    )
    print(
        f"twins: precision {alone['precision']:.3f}, recall {alone['recall']:.3f}, of exact twins "
        f"{alone['recall_of_exact_twins']:.3f}"
    )
    for name in ("wrongly_merged", "exact_twins_missed"):
        for text in alone[name]:
            print(f"  {name.replace('_', ' ')}: {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--provider", choices=sorted(PROPOSE), default="use")
    parser.add_argument("--threshold", type=float, help="of the table by kind; the embedder's own unless given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    threshold = PROPOSE[options.provider] if options.threshold is None else options.threshold
    figures = measure(options.provider, threshold)
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False))
        print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
