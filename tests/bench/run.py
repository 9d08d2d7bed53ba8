"""The speed of a real daemon over its real socket, as a table and as JSON.

    python tests/bench/run.py [--sizes 1000,20000] [--provider use] [--json bench-speed.json]

At each size: texts of 8 to 24 English words in sessions of twelve, with three edges by hand each and one along the
session. Times are medians and 95th percentiles over `--samples` calls from one client, unless said otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from daemon.client import Client
from tests.bench.process import Process

CLIENTS = 8


def words() -> list[str]:
    """The English words of the demo's memories: what an embedder meets in earnest."""
    sample = Path(__file__).parents[1] / "demo" / "sample.jsonl"
    texts = (json.loads(line)["content"] for line in sample.read_text(encoding="utf-8").splitlines())
    return sorted({word for text in texts for word in re.findall(r"[a-z]{3,}", text.lower())})


def items(count: int, dice: random.Random, vocabulary: list[str]) -> Iterator[dict[str, Any]]:
    """Memories with a session, an author and edges to three earlier ones."""
    for number in range(count):
        text = " ".join(dice.choices(vocabulary, k=dice.randint(8, 24)))
        item: dict[str, Any] = {
            "id": f"m{number}", "content": f"{text}.", "session": f"s{number // 12}", "author": f"author{number % 7}",
            "tags": [f"tag{number % 40}"], "importance": round(dice.random(), 2),
        }  # fmt: skip
        if number > 3:
            item["connect_to"] = [f"m{n}" for n in dice.sample(range(number), 3)]
        yield item


def timed(call: Callable[[int], Any], samples: int) -> dict[str, float]:
    """Milliseconds: median, 95th percentile and spread of single calls."""
    times = []
    for number in range(samples):
        started = time.perf_counter()
        call(number)
        times.append((time.perf_counter() - started) * 1e3)
    return spread(times)


def spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    quarters = statistics.quantiles(ordered, n=4)
    return {
        "p50_ms": round(statistics.median(ordered), 2), "p95_ms": round(ordered[int(0.95 * (len(ordered) - 1))], 2),
        "quartiles_ms": round(quarters[2] - quarters[0], 2), "n": len(ordered),
    }  # fmt: skip


def fill(client: Client, size: int, dice: random.Random, vocabulary: list[str]) -> float:
    """Store `size` memories in batches; returns memories a second."""
    batch: list[dict[str, Any]] = []
    started = time.perf_counter()
    for item in items(size, dice, vocabulary):
        batch.append(item)
        if len(batch) == 500:
            client.call("remember_many", items=batch)
            batch = []
    if batch:
        client.call("remember_many", items=batch)
    return size / (time.perf_counter() - started)


def recall_with(client: Client, dice: random.Random, vocabulary: list[str]) -> Callable[[int], Any]:
    return lambda _: client.call("recall", query=" ".join(dice.choices(vocabulary, k=6)), k=5)


def mixed_load(process: Process, dice: random.Random, vocabulary: list[str], seconds: float) -> dict[str, float]:
    """Eight clients at once, three recalls to a remember: calls a second and the time of a call."""
    until = time.perf_counter() + seconds

    def work(worker: int) -> list[float]:
        own, times = random.Random(worker), []
        with process.client() as client:
            while time.perf_counter() < until:
                text = " ".join(own.choices(vocabulary, k=8))
                started = time.perf_counter()
                if len(times) % 4 == 3:
                    client.call("remember", content=f"{text} {worker}")
                else:
                    client.call("recall", query=text)
                times.append((time.perf_counter() - started) * 1e3)
        return times

    del dice
    with ThreadPoolExecutor(CLIENTS) as pool:
        times = [one for part in pool.map(work, range(CLIENTS)) for one in part]
    return {"calls_a_second": round(len(times) / seconds, 1), **spread(times)}


def deduplicated(client: Client, dice: random.Random, vocabulary: list[str]) -> dict[str, float]:
    """Seconds of a `dedup` that looks at all there is, of one that finds nothing new, and of one after 200 more memories."""

    def once() -> float:
        return float(client.call("run_job", name="dedup")["took_s"])

    first, again = once(), once()
    client.call("remember_many", items=[{"content": " ".join(dice.choices(vocabulary, k=12))} for _ in range(200)])
    return {"first": first, "again": again, "after_200_more": once()}


def during_night(process: Process, recall: Callable[[int], Any]) -> dict[str, float]:
    """Recalls while a whole night runs beside them."""
    done = threading.Event()

    def night() -> None:
        with process.client(600) as client:
            client.call("run_job", name="night")
        done.set()

    thread = threading.Thread(target=night)
    started = time.perf_counter()
    thread.start()
    times = []
    while not done.is_set():
        before = time.perf_counter()
        recall(0)
        times.append((time.perf_counter() - before) * 1e3)
    thread.join()
    return {"night_s": round(time.perf_counter() - started, 2), **spread(times)}


def measure(size: int, provider: str, samples: int) -> dict[str, Any]:
    """All figures at one size."""
    dice = random.Random(size)
    vocabulary = words()
    figures: dict[str, Any] = {"size": size, "embedder": provider}
    with Process(options={"DREAMD_EMBEDDING__PROVIDER": provider, "DREAMD_SCHEDULE__NIGHT": "off"}) as process:
        with process.client(600) as client:
            figures["remember_many_a_second"] = round(fill(client, size, dice, vocabulary), 1)
            recall = recall_with(client, dice, vocabulary)
            timed(recall, 20)
            figures["recall"] = timed(recall, samples)
            one = timed(
                lambda n: client.call("remember", content=f"{' '.join(dice.choices(vocabulary, k=12))} {n}"), samples
            )
            figures["remember"] = one | {"a_second": round(1e3 / one["p50_ms"], 1)}
            figures["rss_anonymous_mb"] = round(process.anonymous_megabytes(), 1)
            figures["eight_clients"] = mixed_load(process, dice, vocabulary, 5.0)
            figures["jobs_s"] = {
                job: client.call("run_job", name=job)["took_s"] for job in ("dream", "prune", "demote", "decay")
            }
            figures["dedup_s"] = deduplicated(client, dice, vocabulary)
            figures["recall_during_night"] = during_night(process, recall)
        process.stop()
        figures["start_s"] = round(process.start(), 2)
        process.kill()
        figures["start_after_kill_s"] = round(process.start(), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1000,20000")
    parser.add_argument("--provider", default="use")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--json", type=Path, default=Path("bench-speed.json"))
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {cores} cores, Python {platform.python_version()}",
        "runs": [],
    }
    for size in map(int, options.sizes.split(",")):
        figures = measure(size, options.provider, options.samples)
        report["runs"].append(figures)
        print(f"\n{size} memories, {options.provider}, {report['machine']}")
        for name, value in figures.items():
            shown = "  ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else value
            print(f"  {name:24} {shown}", flush=True)
    options.json.write_text(json.dumps(report, indent=1))
    print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
