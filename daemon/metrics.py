"""Every metric, declared once. Labels come from closed sets only, and every label set exists from the start.

Counters move as things happen; gauges that speak of the store, of "today" or of "last" are read from the durable state at
each scrape, so that they survive a restart.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from daemon import __version__
from daemon.parts import Parts
from jobs.decay import has_expired, may_fade
from jobs.table import RECORDED, RUNNABLE
from jobs.undo import stands
from storage.errors import KINDS
from storage.fading import Awake, Floats, edge_weights
from storage.ledger import SUCCESSES, Run
from storage.model import DAY, EDGE_KINDS, HEATS, SENSITIVITIES, TIERS, Memory, Synapse
from storage.redact import KINDS as REDACTION_KINDS

RPC_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
JOB_BUCKETS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
WEIGHT_BUCKETS: Final = (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 7.5, 10)
RETENTION_BUCKETS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
HIT_BUCKETS: Final = (0, 1, 2, 3, 5, 10, 20, 50, 200)
WITHIN: Final = {"1d": 1.0, "7d": 7.0, "30d": 30.0}
REASONS: Final = ("request", "superseded", "hard", "decayed", "expired", "purged")
CALLED: Final = {"merged": "superseded"}  # what a run's count of it is called, where not by its reason
OUTCOMES: Final = ("changed", "unchanged", "skipped", "cancelled", "failed")
OWN: Final = "own"  # the kind of whatever a pattern of the owner's finds
#: Which changes each job can report, so that every label set exists from the start.
CHANGES_OF: Final = {
    "snapshot": ("taken", "rotated", "failed"),
    "hebbian": ("pairs", "accesses", "skipped"),
    "dedup": ("merged", "proposed", "deferred", "left_out", "skipped"),
    "dream": ("linked", "settled", "skipped"),
    "prune": ("pruned", "skipped"),
    "demote": ("to_hot", "to_warm", "to_cold", "to_long", "to_short", "skipped"),
    "decay": ("expired", "decayed", "deferred", "skipped"),
    "purge": ("purged", "turns", "skipped"),
    "vacuum": ("vacuumed",),
    "scrub": ("scrubbed",),
    "undo": ("restored", "left"),
    "forget_where": ("forgotten", "deferred", "skipped"),
    "forget_scope": ("forgotten", "records", "skipped"),
    "merge": ("changed", "skipped"),
    "import": (
        "memory",
        "version",
        "edge",
        "comment",
        "fact",
        "turn",
        "session_state",
        "skipped",
        "conflicts",
        "failed",
    ),
    "reindex": ("memories",),
}


class Figures(NamedTuple):
    """What the store says at one scrape."""

    memories: Mapping[tuple[str, str], int]
    bin: int
    edges: Mapping[str, int]
    weights: Floats
    retention: Floats
    fading: Mapping[str, int]
    store_bytes: int
    last_success: Mapping[str, float]
    spent: Mapping[str, int]
    canary: Mapping[str, float]


class Metrics:
    """The registry of one daemon."""

    def __init__(self, methods: Iterable[str], *, engine: str, embedder: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._declare_events(tuple(methods))
        self._declare_state()
        self._engine = engine
        self._build = Gauge(
            "dreamd_build_info", "What runs here; always 1.", ["version", "engine", "embedder"], registry=self.registry
        )
        self.note_embedder(embedder)
        self._histograms = _Histograms()
        self.registry.register(self._histograms)
        ProcessCollector(namespace="", registry=self.registry)

    def observe_request(self, method: str, outcome: str, seconds: float) -> None:
        """Count one answered request."""
        self._requests.labels(method, outcome).inc()
        self._request_seconds.labels(method).observe(seconds)

    def observe_run(self, run: Run) -> None:
        """Count one finished run; a dry run counts nowhere."""
        if run.dry_run:
            return
        self._runs.labels(run.job, run.outcome or "failed").inc()
        self._run_seconds.labels(run.job).observe(max((run.ended_at or run.started_at) - run.started_at, 0.0))
        for change, count in run.counts.items():
            if change in CHANGES_OF.get(run.job, ()):
                self._changes.labels(run.job, change).inc(count)
            if (reason := CALLED.get(change, change)) in REASONS:
                self._forgotten.labels(reason).inc(count)

    def observe_missed(self, job: str) -> None:
        """Count a scheduled run that did not take place in time."""
        self._missed.labels(job).inc()

    def count_redactions(self, by_kind: Mapping[str, int]) -> None:
        """Count the secrets that were masked; the owner's own patterns share one label."""
        for kind, count in by_kind.items():
            self._redactions.labels(kind if kind in REDACTION_KINDS else OWN).inc(count)

    def count_forgotten(self, reason: str, memories: int) -> None:
        """Count the memories that left the live ones."""
        self._forgotten.labels(reason).inc(memories)

    def count_restored(self, memories: int) -> None:
        """Count the memories that came back."""
        self._restored.inc(memories)

    def count_egress_refused(self, sensitivity: str, times: int = 1) -> None:
        """Count what was withheld since it lies above what the caller, or a model, may see."""
        self._egress_refused.labels(sensitivity).inc(times)

    def observe_hits(self, hits: int) -> None:
        """Note how many hits a recall returned."""
        self._hits.observe(hits)

    def note_embedder(self, embedder: str) -> None:
        """Note which embedder serves from now on."""
        self._build.clear()
        self._build.labels(__version__, self._engine, embedder).set(1)

    def note_write(self, now: float) -> None:
        """Note when a write was acknowledged."""
        self._last_write.set(now)

    async def render(self, parts: Parts, accept: str) -> tuple[bytes, str]:
        """The exposition text in the format that the scraper accepts, and its content type.

        The lane only hands out its rows and edges, which never change once made; they are counted in another thread.
        """
        look = await parts.lane.run(_look, parts)
        figures = await asyncio.to_thread(_figures, parts, *look)
        self._show(figures, parts)
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _declare_events(self, methods: tuple[str, ...]) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"dreamd_{name}", text, labels, registry=self.registry)

        self._requests = counter("rpc_requests", "Requests answered.", "method", "outcome")
        self._request_seconds = Histogram(
            "dreamd_rpc_duration_seconds",
            "Time to answer a request.",
            ["method"],
            buckets=RPC_BUCKETS,
            registry=self.registry,
        )
        self._runs = counter("job_runs", "Runs that ended.", "job_name", "outcome")
        self._run_seconds = Histogram(
            "dreamd_job_duration_seconds",
            "Time that a run took.",
            ["job_name"],
            buckets=JOB_BUCKETS,
            registry=self.registry,
        )
        self._changes = counter("job_changes", "What runs changed.", "job_name", "change")
        self._missed = counter("job_missed", "Scheduled runs that did not take place in time.", "job_name")
        self._forgotten = counter("forgotten", "Memories that left the live ones.", "reason")
        self._restored = counter("restored", "Memories that came back.")
        self._redactions = counter("redactions", "Secrets masked at the write gate.", "kind")
        self._egress_refused = counter("egress_refused", "What was withheld as too sensitive.", "sensitivity")
        self._hits = Histogram(
            "dreamd_recall_hits", "Hits a recall returned.", buckets=HIT_BUCKETS, registry=self.registry
        )
        for method in (*methods, "unknown"):
            self._request_seconds.labels(method)
            for outcome in ("ok", *(kind.kind for kind in KINDS)):
                self._requests.labels(method, outcome)
        for job in RECORDED:
            self._run_seconds.labels(job)
            for outcome in OUTCOMES:
                self._runs.labels(job, outcome)
        for job in RUNNABLE:
            self._missed.labels(job)
        for job, changes in CHANGES_OF.items():
            for change in changes:
                self._changes.labels(job, change)
        for reason in REASONS:
            self._forgotten.labels(reason)
        for kind in (*REDACTION_KINDS, OWN):
            self._redactions.labels(kind)
        for sensitivity in SENSITIVITIES:
            self._egress_refused.labels(sensitivity)

    def _declare_state(self) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"dreamd_{name}", text, labels, registry=self.registry)

        self._memories = gauge("memories", "Live memories.", "tier", "heat")
        self._bin = gauge("memories_bin", "Superseded and forgotten memories that can still come back.")
        self._edges = gauge("edges", "Edges, those of memories in the bin too.", "kind")
        self._fading = gauge(
            "fading", "Memories that will be forgotten within this time if nobody uses them.", "within"
        )
        self._last_success = gauge(
            "job_last_success_timestamp_seconds", "When a job last ended well; 0 = never.", "job_name"
        )
        self._next_run = gauge(
            "job_next_run_timestamp_seconds", "When a job runs next by schedule; 0 = not scheduled.", "job_name"
        )
        self._spend_today = gauge("llm_spend_today_usd", "Settled today, from the ledger.")
        self._reserved = gauge("llm_reserved_usd", "Reserved today and not settled yet.")
        self._cap = gauge("llm_cap_usd", "The most that may be spent a day.")
        self._resets = gauge("llm_cap_resets_timestamp_seconds", "When the next day of spending begins.")
        self._canary_overlap = gauge(
            "canary_overlap", "Of what real questions found before the last measured night, the share found after it."
        )
        self._canary_rank = gauge("canary_rank", "Mean place of what real questions once returned, 1 the first.")
        self._learn = gauge("learn_buffer_size", "Co-activations and accesses that wait to be stored.")
        self._store_up = gauge("store_up", "Whether the store can be written.")
        self._store_bytes = gauge("store_bytes", "Bytes on disk, as allocated.")
        self._last_write = gauge(
            "last_write_timestamp_seconds",
            "When memories were last written, as far as they tell after a start; 0 = never.",
        )

    def _show(self, figures: Figures, parts: Parts) -> None:
        for tier in TIERS:
            for heat in HEATS:
                self._memories.labels(tier, heat).set(figures.memories.get((tier, heat), 0))
        self._bin.set(figures.bin)
        for kind in EDGE_KINDS:
            self._edges.labels(kind).set(figures.edges.get(kind, 0))
        for within in WITHIN:
            self._fading.labels(within).set(figures.fading[within])
        next_runs = parts.next_runs()
        for job in RUNNABLE:
            self._last_success.labels(job).set(figures.last_success.get(job, 0.0))
            self._next_run.labels(job).set(next_runs.get(job, 0.0))
        self._spend_today.set(figures.spent.get("settled", 0) / 1e6)
        self._reserved.set(figures.spent.get("reserved", 0) / 1e6)
        self._cap.set(parts.config.spend.cap_usd_per_day)
        self._resets.set(_next_day(parts))
        self._canary_overlap.set(figures.canary.get("overlap", math.nan))
        self._canary_rank.set(figures.canary.get("rank", math.nan))
        self._learn.set(len(parts.learn))
        self._store_up.set(not parts.stores.damage)
        self._store_bytes.set(figures.store_bytes)
        self._histograms.weights, self._histograms.retention = figures.weights, figures.retention


class _Histograms(Collector):
    """Histograms of what is there now, not of what happened: computed anew at each scrape."""

    def __init__(self) -> None:
        self.weights: Floats = np.zeros(0)
        self.retention: Floats = np.zeros(0)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Both histograms."""
        yield _histogram("dreamd_edge_weight", "Weights of all edges now.", self.weights, WEIGHT_BUCKETS)
        yield _histogram(
            "dreamd_retention", "Retention of the live short-term memories now.", self.retention, RETENTION_BUCKETS
        )


def _histogram(name: str, text: str, values: Floats, bounds: tuple[float, ...]) -> HistogramMetricFamily:
    counts = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1).cumsum().tolist()
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    family = HistogramMetricFamily(name, text)
    family.add_metric([], list(zip(names, counts, strict=True)), float(values.sum()))
    return family


def _look(parts: Parts) -> tuple[list[Memory], int, list[Synapse], Awake, int]:
    """The live rows, how many are in the bin, the edges, who counts awake time, and the bytes on disk."""
    stores = parts.stores
    edges = [edge for _, edge in stores.synapses.every()]
    return (
        list(stores.catalogue.rows()), stores.catalogue.gone_count, edges, stores.awake, stores.engine.disk_bytes(),
    )  # fmt: skip


def _figures(
    parts: Parts, rows: list[Memory], gone: int, edges: list[Synapse], awake: Awake, store_bytes: int
) -> Figures:
    now, ledger = parts.clock.now(), parts.stores.ledger
    day = datetime.fromtimestamp(now, parts.config.spend.zone).date().isoformat()
    successes = {job: ledger.last_run(job, outcomes=SUCCESSES) for job in RUNNABLE}
    weights, as_of = (np.array([getattr(edge, name) for edge in edges], float) for name in ("weight", "as_of"))
    short = [row for row in rows if row.tier == "short"]
    measured = ledger.last_measured()
    return Figures(
        memories=Tally((row.tier, row.heat) for row in rows),
        bin=gone,
        edges=Tally(edge.kind for edge in edges),
        weights=edge_weights(weights, as_of, [edge.kind for edge in edges], now, awake),
        retention=parts.retention.of_rows(short, now, awake),
        fading={within: _fading(parts, rows, now + days * DAY, awake) for within, days in WITHIN.items()},
        store_bytes=store_bytes,
        last_success={job: run.ended_at or run.started_at for job, run in successes.items() if run is not None},
        spent=ledger.spent_micro_usd(day),
        canary=(measured.canary or {}) if measured is not None and stands(ledger, measured) else {},
    )


def _fading(parts: Parts, rows: list[Memory], horizon: float, awake: Awake) -> int:
    """How many will have expired, or could be taken by `decay`, at that instant if nobody uses anything until then."""
    expired = sum(has_expired(row, horizon) for row in rows)
    able = [row for row in rows if may_fade(row, horizon) and not has_expired(row, horizon)]
    return expired + int((parts.retention.of_rows(able, horizon, awake) < parts.retention.threshold).sum())


def _next_day(parts: Parts) -> float:
    """The next local midnight in the zone of the cap, which a day of 23 or 25 hours may precede."""
    zone = parts.config.spend.zone
    tomorrow = datetime.fromtimestamp(parts.clock.now(), zone).date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone).timestamp()
