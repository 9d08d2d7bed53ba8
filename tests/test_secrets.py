"""A planted secret of every kind, brought in by every way there is, is nowhere afterwards; what only looks like one stays."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.client import CallError
from tests.bench.process import Process
from tests.daemon.serving import Wire
from tests.disk import written
from tests.storage.test_redact import PLANTED

WORDLLAMA = {"DREAMD_EMBEDDING__PROVIDER": "wordllama", "DREAMD_STORAGE__RESERVE_MB": "16"}
#: One of each kind, with what stands around it.
SECRETS = {kind: (before, secret, after) for kind, before, secret, after in reversed(PLANTED)}
TELLING = 8  # characters of a secret which stand nowhere by chance
INNOCENT = (
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "id 6f9a52d2-5c1e-5d0b-9a0e-64726561640a", "a risk-based plan",
    "task-based work at desk-3",
)  # fmt: skip


@pytest.fixture
def process(folder: Path) -> Iterator[Process]:
    """A real daemon, whose log, socket and files are the real ones."""
    process = Process(folder, WORDLLAMA)
    yield process
    process.kill()


def test_case79_c8_c9_a_secret_of_any_kind_by_any_way_is_in_no_file_and_no_answer(
    process: Process, folder: Path
) -> None:
    process.start()
    with process.client() as client:
        answers = [tell(client, kind, *SECRETS[kind]) for kind in SECRETS]
        answers += [imported(client, folder), refusals(client)]
        answers.append(client.call("run_job", name="night"))
        for format_ in ("jsonl", "json", "csv"):
            client.call("export", path=str(folder / f"out.{format_}"), format=format_)
        answers.append(client.call("snapshot", label="secrets"))
        answers.append(client.call("backup", path=str(folder / "backup.zip")))
        answers += [client.call("wakeup", max_tokens=100_000), client.call("comments"), client.call("fact_list")]
        answers += [client.call("entities", scope="*"), client.call("runs", limit=100)]
    with Wire(process.socket) as wire:
        metrics = wire.ask("GET", "/metrics").body
    process.stop()
    (folder / "planted.jsonl").unlink()

    everything = {"answers": json.dumps(answers, ensure_ascii=False).encode(), "metrics": metrics} | files(folder)
    assert {"out.jsonl", "out.json", "out.csv", "backup.zip", "state/state.db", "log"} <= everything.keys()
    for kind, (_, secret, _) in SECRETS.items():
        places = [place for place, text in everything.items() if secret.encode() in text]
        assert len(secret) < TELLING or not places, (kind, places)
    exported = everything["out.jsonl"].decode()
    assert all(f"[REDACTED:{kind}]" in exported for kind in SECRETS)
    assert all(text in exported for text in INNOCENT)


def files(folder: Path) -> dict[str, bytes]:
    """What every file under a folder holds, those in archives too; holes are left out."""
    found: dict[str, bytes] = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        found[str(path.relative_to(folder))] = b"".join(written(path))
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    found[f"{path.name}/{name}"] = archive.read(name).replace(bytes(4096), b"")
    return found


def tell(client: Any, kind: str, before: str, secret: str, after: str) -> list[Any]:
    """One secret, by every method that takes a text to keep."""
    text = f"{before}{secret}{after}"
    scope = f"kinds/{kind}"
    memory = client.call("remember", content=f"{kind} first: {text}", scope=scope)["id"]
    return [
        client.call(
            "remember", content=f"{kind} second", context=text, metadata={"note": text, "list": [text]}, tags=[text[:200]],
            author=text[:100], session=text[:100], scope=scope,
        ),
        client.call("remember_many", items=[{"content": f"{kind} third: {text}", "scope": scope}]),
        client.call("update", id=memory, content=f"{kind} edited: {text}"),
        client.call("history", id=memory),
        client.call("comment", id=memory, content=text, author="user"),
        client.call("fact_set", key=f"{kind}", value={"deep": [{"note": text}]}, scope=scope),
        client.call("remember_fact", subject=kind, predicate="says", object=text, scope=scope),
        client.call("remember_procedure", name=f"use {kind}", trigger=text, steps=[text, "then rest"], scope=scope),
        client.call("add_turn", session=kind, role="user", content=text, scope=scope),
        client.call("end_session", session=kind, scope=scope),
        client.call("write_session_state", text=text, scope=scope),
        client.call("remember", content=" and ".join(INNOCENT), scope=scope),
    ]  # fmt: skip


def imported(client: Any, folder: Path) -> Any:
    """Every secret once more, in a file; one line of it is bad."""
    path = folder / "planted.jsonl"
    lines = [
        json.dumps({"id": f"in-{kind}", "memory": f"{kind}: {before}{secret}{after}", "user_id": "ada"})
        for kind, (before, secret, after) in SECRETS.items()
    ]
    path.write_text("\n".join([*lines, '{"id": "bad", "memory": 3, "created_at": "' + SECRETS["openai_key"][1] + '"}']))
    return client.call("import", path=str(path))


def refusals(client: Any) -> list[dict[str, Any]]:
    """Calls that fail, with a secret in a text of each: what they are answered."""
    secret = SECRETS["anthropic_key"][1]
    failing: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": secret, "k": 0}), ("remember", {"content": secret, "tier": "eternal"}),
        ("remember", {"content": f"{secret}\0"}), ("fact_set", {"key": "", "value": secret}),
        ("comment", {"id": "nobody", "content": secret}), ("add_turn", {"session": "s", "role": "king", "content": secret}),
        ("remember_fact", {"subject": secret, "predicate": "", "object": secret}), ("update", {"id": "no", "content": secret}),
    ]  # fmt: skip
    answers = []
    for method, params in failing:
        with pytest.raises(CallError) as refused:
            client.call(method, **params)
        answers.append(refused.value.body)
    return answers
