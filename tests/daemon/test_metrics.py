"""Metrics: every name and label set from the start, none added by load, and the true figures of the store."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon import __version__, problem
from daemon.methods import METHODS
from daemon.metrics import CHANGES_OF, OUTCOMES, OWN, Metrics
from jobs.table import JOBS, RECORDED, RUNNABLE
from storage.errors import KINDS, DreamdError
from storage.model import EDGE_KINDS, HEATS, SENSITIVITIES, TIERS
from storage.redact import KINDS as REDACTIONS
from tests.daemon.methods.asking import ask, refused
from tests.daemon.serving import short_folder
from tests.harness import Daemon
from tests.requirements import require

DAY = 86_400.0
#: What jobs report beside what they changed.
NO_CHANGES = {"total", "remaining", "examined", "waiting", "visited"}

#: Every name of the contract that exists so far, with the label sets that it must have.
SERIES: dict[str, set[str]] = {
    "memories": {f'heat="{heat}",tier="{tier}"' for heat in HEATS for tier in TIERS},
    "memories_bin": {""},
    "edges": {f'kind="{kind}"' for kind in EDGE_KINDS},
    "fading": {'within="1d"', 'within="7d"', 'within="30d"'},
    "forgotten_total": {
        f'reason="{reason}"' for reason in ("request", "superseded", "hard", "decayed", "expired", "purged")
    },
    "restored_total": {""},
    "rpc_requests_total": {
        f'method="{method}",outcome="{outcome}"'
        for method in (*METHODS, "unknown")
        for outcome in ("ok", *(kind.kind for kind in KINDS))
    },
    "rpc_duration_seconds_count": {f'method="{method}"' for method in (*METHODS, "unknown")},
    "recall_hits_count": {""},
    "job_runs_total": {f'job_name="{job}",outcome="{outcome}"' for job in RECORDED for outcome in OUTCOMES},
    "job_duration_seconds_count": {f'job_name="{job}"' for job in RECORDED},
    "job_last_success_timestamp_seconds": {f'job_name="{job}"' for job in RUNNABLE},
    "job_next_run_timestamp_seconds": {f'job_name="{job}"' for job in RUNNABLE},
    "job_missed_total": {f'job_name="{job}"' for job in RUNNABLE},
    "job_changes_total": {
        f'change="{change}",job_name="{job}"' for job, changes in CHANGES_OF.items() for change in changes
    },
    "edge_weight_count": {""},
    "retention_count": {""},
    "llm_spend_today_usd": {""},
    "llm_reserved_usd": {""},
    "llm_cap_usd": {""},
    "llm_cap_resets_timestamp_seconds": {""},
    "egress_refused_total": {f'sensitivity="{level}"' for level in SENSITIVITIES},
    "redactions_total": {f'kind="{kind}"' for kind in (*REDACTIONS, OWN)},
    "learn_buffer_size": {""},
    "store_up": {""},
    "store_bytes": {""},
    "last_write_timestamp_seconds": {""},
    "build_info": {f'embedder="use",engine="qdrant-edge",version="{__version__}"'},
}


def scrape(daemon: Daemon, accept: str = "") -> str:
    body, _ = daemon.run(daemon.app.service.metrics(accept))
    return body.decode()


def series(text: str) -> dict[tuple[str, str], float]:
    """Every value by name (without our prefix) and sorted labels."""
    values: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            key = ",".join(sorted(re.findall(r'\w+="[^"]*"', labels or "")))
            values[name.removeprefix("dreamd_"), key] = float(value)
    return values


def value(daemon: Daemon, name: str, labels: str = "") -> float:
    return series(scrape(daemon))[name, labels]


@pytest.fixture(scope="module")
def fresh() -> Iterator[Daemon]:
    """A daemon that was asked nothing yet."""
    with short_folder() as folder:
        daemon = Daemon(folder).start()
        yield daemon
        daemon.stop()


@pytest.mark.parametrize("name", sorted(SERIES))
def test_every_name_has_all_its_label_sets_from_the_start(fresh: Daemon, name: str) -> None:
    labels = {labels for (found, labels) in series(scrape(fresh)) if found == name}

    assert labels == SERIES[name]


def test_both_formats_are_spoken(fresh: Daemon) -> None:
    _, plain = fresh.run(fresh.app.service.metrics(""))
    text, modern = fresh.run(fresh.app.service.metrics("application/openmetrics-text; version=1.0.0"))

    assert plain.startswith("text/plain")
    assert modern.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_promtool_finds_nothing_to_mend(fresh: Daemon) -> None:
    promtool = shutil.which("promtool") or os.environ.get("PROMTOOL", "")
    require(bool(promtool), "promtool (Debian: apt-get install prometheus)")

    checked = subprocess.run(
        [promtool, "check", "metrics"], input=scrape(fresh), capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_no_load_adds_a_series(daemon: Daemon) -> None:
    """Hostile scopes, tags, ids, authors, methods and params never become labels."""
    before = series(scrape(daemon)).keys()
    items = [
        {
            "content": f"note {n} AKIA" + "Z7QX4MNB2VLK9WP" + "D", "scope": f'tenant-{n}/"x"\\{n}', "tags": [f'tag"{n}\n}}'],
            "author": f"author {n}", "session": f"s{n}", "subtype": f"sub{n}", "id": f"id-{n}",
        }
        for n in range(400)
    ]  # fmt: skip
    assert daemon.call("remember_many", items=items)["failed"] == 0
    for n in range(20):
        refused(daemon, "not_found", f"method_{n}")
        refused(daemon, "invalid", "recall", query="x", **{f"param{n}": 1})
        daemon.app.service.observe("unknown", "not_found", 0.001)
        daemon.call("recall", query=f"note {n}", scope="*")
        daemon.call("forget", id=f"id-{n}")
    daemon.beat(40)
    for job in RUNNABLE:
        daemon.call("run_job", name=job)
    daemon.call("undo", run_id=daemon.call("runs", job="decay")["runs"][-1]["run_id"])

    after = series(scrape(daemon)).keys()

    assert after == before
    assert len([key for key in after if key[0] != "build_info"]) < 2500


def test_what_a_job_reports_is_a_known_change_or_none_at_all(daemon: Daemon) -> None:
    for n in range(12):
        daemon.remember(f"note {n}", id=f"n{n}")
    daemon.call("forget", ids=["n10", "n11"], hard=True)
    daemon.call("recall", query="note")
    daemon.beat(40)

    reported = {job: set(daemon.call("run_job", name=job)["counts"]) for job in JOBS}

    assert reported["decay"] - NO_CHANGES == set(CHANGES_OF["decay"])
    assert {job: counts - NO_CHANGES - set(CHANGES_OF[job]) for job, counts in reported.items()} == {
        job: set() for job in JOBS
    }


def test_gauges_show_what_the_store_holds(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_LEARN__FLUSH_SECONDS": "3600.0"}).start()
    daemon.remember("one", id="one", tier="core")
    daemon.remember("two", id="two", connect_to=["one"])
    daemon.remember("three", session="s")
    daemon.remember("four", session="s", expires_at="2026-01-01T12:00:00Z")
    daemon.call("forget", id=daemon.remember("five"))
    daemon.call("recall", query="one")

    shown = series(scrape(daemon))

    assert shown["memories", 'heat="warm",tier="core"'] == 1
    assert shown["memories", 'heat="warm",tier="short"'] == 3
    assert shown["memories_bin", ""] == 1
    assert shown["edges", 'kind="manual"'] == 1
    assert shown["edges", 'kind="next"'] == 1
    assert (shown["edge_weight_count", ""], shown["edge_weight_sum", ""]) == (2, 3.0)
    assert (shown["retention_count", ""], shown["retention_sum", ""]) == (3, 3.0)
    assert [shown["fading", f'within="{span}"'] for span in ("1d", "7d", "30d")] == [1, 1, 3]
    assert shown["learn_buffer_size", ""] > 0
    assert shown["store_up", ""] == 1
    assert shown["store_bytes", ""] > 1e5
    assert shown["llm_cap_usd", ""] == 1.0
    assert shown["llm_cap_resets_timestamp_seconds", ""] == daemon.clock.now() + DAY
    assert shown["job_next_run_timestamp_seconds", 'job_name="night"'] == daemon.clock.now() + 3.5 * 3600


def test_fading_counts_what_the_method_lists(daemon: Daemon) -> None:
    for n in range(30):
        daemon.remember(f"note {n}", importance=n / 30, pinned=n % 7 == 0)
        daemon.clock.advance(DAY)

    for span, days in (("1d", 1), ("7d", 7), ("30d", 30)):
        assert value(daemon, "fading", f'within="{span}"') == len(daemon.call("fading", days=days)["memories"])


def test_histograms_are_cumulative_and_end_with_all(daemon: Daemon) -> None:
    for n, weight in enumerate((0.05, 0.1, 1.0, 9.9, 10.0)):
        daemon.remember(f"note {n}", id=f"n{n}")
        daemon.remember(f"other {n}", id=f"o{n}")
        daemon.call("connect", a=f"n{n}", b=f"o{n}", weight=weight)
    daemon.call("recall", query="note", k=3)
    daemon.app.service.observe("recall", "ok", 0.003)

    text = scrape(daemon)
    shown = series(text)

    bounds = {name: re.findall(rf'^dreamd_{name}_bucket{{.*?le="([^"]+)".*?}} (\S+)$', text, re.MULTILINE) for name in
              ("edge_weight", "retention", "recall_hits")}  # fmt: skip
    for name, rows in bounds.items():
        counts = [float(count) for _, count in rows]
        assert rows[-1][0] == "+Inf"
        assert counts == sorted(counts)
        assert counts[-1] == shown[f"{name}_count", ""]
    weights = {bound: float(count) for bound, count in bounds["edge_weight"]}
    assert (weights["0.1"], weights["1.0"], weights["7.5"], weights["10.0"]) == (2, 3, 3, 5)
    assert shown["edge_weight_sum", ""] == pytest.approx(21.05)
    assert shown["recall_hits_bucket", 'le="3.0"'] == 1
    assert shown["recall_hits_bucket", 'le="2.0"'] == 0


def test_counters_count_what_happened(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_REDACT__PATTERNS": '{badge = "EMP-[0-9]{6}"}'}).start()
    done = daemon.call("remember", content="badge EMP-123456 and AKIA" + "Z7QX4MNB2VLK9WPD")
    (aws,) = done["redactions"].keys() - {"badge"}
    daemon.call("remember_many", items=[{"content": "badge EMP-654321"}, {"content": "gone soon", "id": "gone"}])
    daemon.call("forget", id="gone")
    daemon.call("forget", ids=["gone", "nobody"])
    daemon.call("restore", id="gone")
    daemon.call("restore", id="gone")
    daemon.call("forget", id="gone")
    daemon.call("remember", content="gone soon")
    daemon.call("forget", ids=["gone"], hard=True)

    shown = series(scrape(daemon))

    assert shown["redactions_total", 'kind="own"'] == 2
    assert shown["redactions_total", f'kind="{aws}"'] == 1
    assert shown["forgotten_total", 'reason="request"'] == 2
    assert shown["forgotten_total", 'reason="hard"'] == 1
    assert shown["restored_total", ""] == 2


VAULT, NOWHERE = "vault-code-one", "vault-code-two"

#: Calls with the clearance `personal`, and how many withheld things each of them names.
NAMING: list[tuple[str, dict[str, Any], int]] = [
    ("get", {"id": VAULT}, 1),
    ("get", {"id": VAULT[:10]}, 1),
    ("get", {"id": "short"}, 1),
    ("history", {"id": VAULT}, 1),
    ("neighbors", {"id": VAULT}, 1),
    ("update", {"id": VAULT, "content": "x"}, 1),
    ("pin", {"id": VAULT}, 1),
    ("revert", {"id": "open-door", "version": 1}, 1),
    ("forget", {"id": VAULT}, 1),
    ("forget", {"ids": [VAULT, "short", NOWHERE]}, 2),
    ("forget", {"id": "open-door", "superseded_by": VAULT}, 1),
    ("restore", {"id": VAULT}, 1),
    ("connect", {"a": "open-door", "b": VAULT}, 1),
    ("disconnect", {"a": VAULT, "b": "open-door"}, 1),
    ("remember", {"content": "x", "id": VAULT}, 1),
    ("remember", {"content": "x", "connect_to": [VAULT]}, 1),
    ("remember_many", {"items": [{"content": "x", "id": VAULT}, {"content": "y y", "id": NOWHERE}]}, 1),
    ("get", {"id": NOWHERE}, 0),
    ("get", {"id": "nothing-begins-so"}, 0),
    ("get", {"id": "over"}, 0),
    ("get", {"id": "open-door"}, 0),
    ("revert", {"id": "open-door", "version": 7}, 0),
    ("recall", {"query": "vault"}, 0),
    ("list", {}, 0),
]


@pytest.fixture
def guarded(daemon: Daemon) -> Daemon:
    daemon.remember("the vault code is 1234", id=VAULT, sensitivity="confidential")
    daemon.remember("and another code", id="short", sensitivity="confidential")
    daemon.remember("a secret once", id="open-door", sensitivity="confidential")
    daemon.call("update", id="open-door", content="no secret any more", sensitivity="personal")
    daemon.remember("its time is over", id="over", sensitivity="public", expires_at="2020-01-01T00:00:00Z")
    return daemon


def withheld(daemon: Daemon) -> dict[str, float]:
    shown = series(scrape(daemon))
    return {level: shown["egress_refused_total", f'sensitivity="{level}"'] for level in SENSITIVITIES}


def answer(daemon: Daemon, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result, or the problem document."""
    try:
        return ask(daemon, method, params)
    except DreamdError as error:
        return problem.document(error)


@pytest.mark.parametrize(("method", "params", "count"), NAMING)
def test_what_is_named_and_withheld_is_counted(
    guarded: Daemon, method: str, params: dict[str, Any], count: int
) -> None:
    answer(guarded, method, {**params, "clearance": "personal"})

    assert withheld(guarded) == {"public": 0, "personal": 0, "confidential": count, "secret": 0}


def test_who_may_see_it_is_refused_nothing(guarded: Daemon) -> None:
    for method, params, _ in NAMING:
        answer(guarded, method, {**params, "clearance": "secret"})

    assert set(withheld(guarded).values()) == {0}


def test_what_is_withheld_is_counted_by_its_own_sensitivity(daemon: Daemon) -> None:
    for level in ("personal", "secret"):
        daemon.remember(f"of {level}", id=level, sensitivity=level)
        refused(daemon, "not_found", "get", id=level, clearance="public")

    assert withheld(daemon) == {"public": 0, "personal": 1, "confidential": 0, "secret": 1}


@pytest.mark.parametrize("method", ["get", "history", "neighbors", "pin", "forget", "restore"])
def test_the_answer_does_not_tell_what_was_counted(guarded: Daemon, method: str) -> None:
    hidden = answer(guarded, method, {"id": VAULT, "clearance": "personal"})
    absent = answer(guarded, method, {"id": NOWHERE, "clearance": "personal"})

    assert {name: str(told).replace(VAULT, NOWHERE) for name, told in hidden.items()} == {
        name: str(told) for name, told in absent.items()
    }


def test_runs_are_counted_with_what_they_changed_and_dry_ones_nowhere(daemon: Daemon) -> None:
    for n in range(4):
        daemon.remember(f"note {n}", id=f"n{n}", expires_at="2026-01-03" if n == 0 else None)
    daemon.beat(30)
    daemon.call("run_job", name="decay", dry_run=True)
    run = daemon.call("run_job", name="decay")
    daemon.call("undo", run_id=run["run_id"])

    shown = series(scrape(daemon))

    assert shown["job_runs_total", 'job_name="decay",outcome="changed"'] == 1
    assert shown["job_duration_seconds_count", 'job_name="decay"'] == 1
    assert shown["job_changes_total", 'change="decayed",job_name="decay"'] == 3
    assert shown["job_changes_total", 'change="restored",job_name="undo"'] == 4
    assert shown["forgotten_total", 'reason="decayed"'] == 3
    assert shown["forgotten_total", 'reason="expired"'] == 1
    assert shown["restored_total", ""] == 4
    assert shown["memories_bin", ""] == 0


def test_what_is_last_or_of_today_survives_a_restart(daemon: Daemon) -> None:
    assert value(daemon, "last_write_timestamp_seconds") == 0
    tea = daemon.remember("Ada likes tea")
    daemon.clock.advance(60)
    daemon.call("update", id=tea, content="Ada likes cocoa")
    written = daemon.clock.now()
    daemon.clock.advance(60)
    daemon.call("run_job", name="prune")
    with daemon.stores.ledger.transaction():
        spend(daemon, "settled", 250_000)
        spend(daemon, "reserved", 40_000)
    before = series(scrape(daemon))

    daemon.restart()

    after = series(scrape(daemon))
    names = ("job_last_success_timestamp_seconds", "last_write_timestamp_seconds", "llm_spend_today_usd", "llm_reserved_usd",
             "llm_cap_resets_timestamp_seconds", "job_next_run_timestamp_seconds")  # fmt: skip
    kept = {key: shown for key, shown in before.items() if key[0] in names}
    assert {key: after[key] for key in kept} == kept
    assert after["last_write_timestamp_seconds", ""] == written
    assert after["job_last_success_timestamp_seconds", 'job_name="prune"'] == daemon.clock.now()
    assert (after["llm_spend_today_usd", ""], after["llm_reserved_usd", ""]) == (0.25, 0.04)


def spend(daemon: Daemon, state: str, micro_usd: int) -> None:
    day = "2026-01-01"
    daemon.stores.ledger._db.execute(
        "INSERT INTO spend (day, at, job, provider, model, state, micro_usd) VALUES (?, 0, 'dream', 'p', 'm', ?, ?)",
        day,
        state,
        micro_usd,
    )


def test_a_write_that_failed_is_none_and_reads_are_none(daemon: Daemon) -> None:
    refused(daemon, "invalid", "remember", content=" ")
    daemon.call("remember_many", items=[{"content": " "}])
    daemon.call("recall", query="tea")
    daemon.call("run_job", name="prune")
    daemon.call("pause_jobs")

    assert value(daemon, "last_write_timestamp_seconds") == 0
    daemon.call("remember_many", items=[{"content": " "}, {"content": "tea"}])
    assert value(daemon, "last_write_timestamp_seconds") == daemon.clock.now()


def test_the_cap_resets_at_the_next_midnight_of_its_zone_on_days_of_any_length(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(
        options={"DREAMD_SPEND__TIMEZONE": "Europe/Berlin", "DREAMD_SPEND__CAP_USD_PER_DAY": "2.5"}
    ).start()
    hours = {}
    for day, start in (("23 hours", 1_774_738_800), ("24 hours", 1_780_264_800), ("25 hours", 1_792_879_200)):
        daemon.clock.set(start)  # midnight in Berlin of 29 March, 1 June and 25 October 2026
        hours[day] = (value(daemon, "llm_cap_resets_timestamp_seconds") - start) / 3600

    assert hours == {"23 hours": 23, "24 hours": 24, "25 hours": 25}
    assert value(daemon, "llm_cap_usd") == 2.5


def test_a_damaged_store_is_not_up(daemon: Daemon) -> None:
    daemon.stores.damage.append("half of it is gone")

    assert value(daemon, "store_up") == 0
    daemon.stores.damage.clear()


def test_a_scrape_asks_the_lane_only_for_references(daemon: Daemon) -> None:
    """The figures are made outside the lane: while they are, it serves requests."""
    threads: set[str] = set()
    retention = daemon.parts.retention

    class Noting:
        threshold = retention.threshold

        def of_rows(self, *arguments: Any) -> Any:
            threads.add(threading.current_thread().name)
            return retention.of_rows(*arguments)

    parts = replace(daemon.parts, retention=Noting())
    daemon.run(daemon.app.service._metrics.render(parts, ""))

    assert threads
    assert "store" not in threads


def test_scrapes_at_once_are_each_whole(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea")

    async def several() -> list[tuple[bytes, str]]:
        return await asyncio.gather(*(daemon.app.service.metrics("") for _ in range(5)))

    texts = [body.decode() for body, _ in daemon.run(several())]

    assert all(series(text)["memories", 'heat="warm",tier="short"'] == 1 for text in texts)


def test_the_registry_of_one_daemon_is_its_own() -> None:
    one, other = (Metrics(["recall"], engine="e", embedder="m") for _ in range(2))
    one.observe_request("recall", "ok", 0.1)

    assert one.registry is not other.registry
    assert other.registry.get_sample_value("dreamd_rpc_requests_total", {"method": "recall", "outcome": "ok"}) == 0


def test_nothing_of_a_scenario_is_in_the_metrics(daemon: Daemon, folder: Path) -> None:
    planted = "xylophone-quartz"
    memory = ask(daemon, "remember", {"content": planted, "author": planted, "scope": planted, "tags": [planted]})["id"]
    daemon.call("recall", query=planted, scope=planted)
    daemon.call("forget", id=memory)

    assert planted not in scrape(daemon)
    assert memory not in scrape(daemon)
