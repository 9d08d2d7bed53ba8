"""The demo is the first thing that anyone sees: it must run through, and show what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).parent


def test_the_demo_remembers_recalls_dreams_forgets_and_takes_it_back() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py")], capture_output=True, text=True, timeout=110, check=False
    )

    assert done.returncode == 0, done.stderr
    shown = done.stdout
    nuts = shown.split("recall 'can I eat nuts?'")[1].split("$")[0]
    assert "1 " in nuts
    assert "peanuts" in nuts.split("\n 2 ")[0]
    assert "cosine" in nuts
    assert "peanuts" in shown.split("recall '我可以吃坚果吗?'")[1].split("\n 2 ")[0]
    assert "Tuesdays" in shown.split("recall 'which day do we deploy?'")[1].split("\n 2 ")[0]
    assert "[REDACTED:aws_access_key]" in shown
    assert "AKIA" + "EXAMPLE" not in shown
    assert "dream: changed (dry run)" in shown
    assert "dream: changed in" in shown
    assert "decay: unchanged" in shown
    assert "decay: changed in" in shown
    gone = int(re.search(r"counts  decayed (\d+)", shown.split("decay: changed in")[1]).group(1))
    assert gone == 20  # max(5 %, 10) of each of two scopes
    assert f"Taken back: {gone} changes." in shown
    assert 'dreamd_forgotten_total{reason="decayed"} 20.0' in shown
    assert "dreamd_llm_cap_usd 1.0" in shown


def test_the_sample_is_half_a_year_in_two_scopes_and_many_sessions() -> None:
    items = [json.loads(line) for line in (HERE / "sample.jsonl").read_text(encoding="utf-8").splitlines()]
    times = [datetime.fromisoformat(item["event_at"]) for item in items]

    assert len(items) >= 60
    assert len({item["session"] for item in items}) >= 12
    assert {item["scope"] for item in items} == {"home/assistant", "studio/coder"}
    assert times == sorted(times)
    assert (times[-1] - times[0]).days > 150
    assert len({item.get("metadata", {}).get("language", "en") for item in items}) >= 8
