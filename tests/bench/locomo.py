"""Recall quality on LoCoMo, turn by turn, without an LLM, over the real socket of a real daemon.

    python tests/bench/locomo.py --data PATH/locomo10.json [--only 1-5] [--night] [--learning] [--json FILE]

Each turn is one memory in its conversation's scope; every question of category 1 to 4 is one recall. Reported are the
means of R@1/5/10/20, hit@5 and MRR over questions, for all ten conversations and for the last five; then, on request,
once more after a night, and with learning. The data is public (snap-research/LoCoMo, CC BY-NC 4.0) and not ours to ship.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from daemon.client import Client
from tests.bench.process import Process

DEPTHS = (1, 5, 10, 20)


class Question(NamedTuple):
    scope: str
    category: int
    text: str
    gold: frozenset[str]


def turns(number: int, conversation: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The turns of a conversation as memories, in their order."""
    sessions = sorted((key for key in conversation if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    for session in sessions:
        at = datetime.strptime(conversation[f"{session}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in conversation[session]:
            caption = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield {
                "id": f"c{number}-{turn['dia_id']}", "scope": f"c{number}", "session": session[8:], "author": turn["speaker"],
                "content": turn["text"] + caption, "type": "episodic", "event_at": at.isoformat(),
            }  # fmt: skip


def questions(number: int, sample: dict[str, Any], known: set[str]) -> Iterable[Question]:
    """The questions of category 1 to 4 that have evidence among the turns."""
    for asked in sample["qa"]:
        found = re.findall(r"D:?(\d+):(\d+)", " ".join(asked.get("evidence", [])))
        gold = frozenset(f"c{number}-D{int(a)}:{int(b)}" for a, b in found) & known
        if gold and asked.get("category") != 5:
            yield Question(f"c{number}", asked["category"], asked["question"], frozenset(gold))


def fill(client: Client, samples: list[dict[str, Any]], numbers: list[int]) -> list[Question]:
    """Remember every turn; returns the questions."""
    asked: list[Question] = []
    for number in numbers:
        items = list(turns(number, samples[number - 1]["conversation"]))
        answer = client.call("remember_many", items=items)
        if answer["failed"]:
            raise SystemExit(
                f"{answer['failed']} turns were not stored: {[r for r in answer['results'] if 'kind' in r][:1]}"
            )
        asked += questions(number, samples[number - 1], {item["id"] for item in items})
    return asked


def measure(client: Client, asked: list[Question], **options: Any) -> list[dict[str, float]]:
    """Every question's scores."""
    rows = []
    for question in asked:
        hits = client.call("recall", query=question.text, k=20, scope=question.scope, **{"learn": False, **options})[
            "hits"
        ]
        ids = [hit["id"] for hit in hits]
        rank = next((place for place, one in enumerate(ids, 1) if one in question.gold), 0)
        row = {f"R@{k}": len(set(ids[:k]) & question.gold) / len(question.gold) for k in DEPTHS}
        rows.append(row | {"hit@5": float(bool(set(ids[:5]) & question.gold)), "MRR": 1 / rank if rank else 0.0})
    return rows


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(sum(row[name] for row in rows) / len(rows), 4) for name in rows[0]} | {"n": len(rows)}


def show(title: str, asked: list[Question], rows: list[dict[str, float]]) -> dict[str, Any]:
    """Print and return the means: all, the last five conversations, and by category."""
    parts = {
        "all": rows,
        "last five": [row for question, row in zip(asked, rows, strict=True) if int(question.scope[1:]) > 5],
    }
    parts |= {f"category {c}": [r for q, r in zip(asked, rows, strict=True) if q.category == c] for c in range(1, 5)}
    table = {name: mean(part) for name, part in parts.items() if part}
    for name, values in table.items():
        print(f"{title:18} {name:12} " + " ".join(f"{key} {value:<6}" for key, value in values.items()), flush=True)
    return table


def learning(client: Client, asked: list[Question]) -> dict[str, Any]:
    """Recall half of each conversation's questions with learning on; score the other half with and without."""
    taught, tested = asked[::2], asked[1::2]
    before = show("before learning", tested, measure(client, tested))
    measure(client, taught, learn=True)
    client.call("run_job", name="hebbian")
    return {"before": before, "after": show("after learning", tested, measure(client, tested))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="locomo10.json")
    parser.add_argument("--only", default="1-10", help="conversations, such as 1-5")
    parser.add_argument("--provider", default="use", help="embedder")
    parser.add_argument("--night", action="store_true", help="measure again after a night")
    parser.add_argument("--learning", action="store_true", help="measure what learning does")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if not options.data.exists():
        raise SystemExit(
            f"{options.data} is not there. Get data/locomo10.json of the public repository snap-research/LoCoMo."
        )
    first, last = map(int, options.only.split("-"))
    samples = json.loads(options.data.read_text())
    with Process(options={"DREAMD_EMBEDDING__PROVIDER": options.provider}) as process, process.client() as client:
        asked = fill(client, samples, list(range(first, last + 1)))
        figures: dict[str, Any] = {"recall": show("recall", asked, measure(client, asked))}
        if options.night:
            print("night:", client.call("run_job", name="night")["examples"])
            figures["night"] = show("after a night", asked, measure(client, asked))
        if options.learning:
            figures["learning"] = learning(client, asked)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
