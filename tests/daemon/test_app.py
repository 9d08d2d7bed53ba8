"""The whole daemon in one process: how it starts, what it starts with, and how it is taken down."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daemon.app import build
from daemon.client import Client
from daemon.lock import StateLocked
from daemon.notify import Notifier
from jobs.table import NIGHT
from storage.embed import Embedder, Fingerprint
from storage.errors import Conflict, DreamdError, Unavailable
from storage.ledger import Ledger
from storage.store import MARKS
from tests.daemon.methods.asking import refused
from tests.daemon.serving import until
from tests.fakes import HashEmbedder, SettableClock
from tests.harness import Daemon, hashing

Make = Callable[..., Daemon]


def of(provider: str, model: str = "words", dimension: int = 64) -> HashEmbedder:
    """A hashing embedder which passes for that one."""
    embedder = HashEmbedder(dimension)
    embedder.fingerprint = Fingerprint(provider, model, dimension)
    return embedder


def loads(*embedders: HashEmbedder) -> Callable[[str, str], Embedder]:
    """Loads these, and no other."""

    def load(provider: str, model: str) -> Embedder:
        for embedder in embedders:
            if embedder.fingerprint.provider == provider and model in ("", embedder.fingerprint.model):
                return embedder
        raise Unavailable(f"The embedder {provider} could not be loaded.", hint=f"pip install {provider}")

    return load


def reasons(daemon: Daemon) -> dict[str, tuple[str, str]]:
    return {one["name"]: (one["detail"], one["hint"]) for one in daemon.call("health")["reasons"]}


def connected(folder: Path) -> Client:
    return Client(folder / "s", 20)


def test_it_answers_on_its_socket_when_build_returns(daemon: Daemon) -> None:
    memory = daemon.remember("Ada likes tea")

    with connected(daemon.folder) as client:
        assert client.call("recall", query="tea")["hits"][0]["id"] == memory
        assert b"dreamd_store_up 1.0" in client.get("/metrics")
        assert client.get("/readyz") == b'{"status":"ready"}'


def test_a_stopped_daemon_leaves_no_socket_and_no_lock_and_starts_again(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea")

    daemon.stop()

    assert not (daemon.folder / "s").exists()
    assert daemon.start().call("stats")["total"] == 1


def test_state_and_socket_are_for_the_owner_alone(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea")
    daemon.run(daemon.app.background.flush())
    state = daemon.folder / "state"

    open_to_others = [path for path in [state, daemon.folder / "s", *state.rglob("*")] if path.stat().st_mode & 0o077]

    assert open_to_others == []


def test_who_connects_while_the_store_opens_waits_for_the_answer(daemons: Make, folder: Path) -> None:
    loading, go_on = threading.Event(), threading.Event()

    def slow(provider: str, model: str) -> Embedder:
        loading.set()
        go_on.wait(20)
        return hashing(provider, model)

    daemon = daemons(embedder=slow)
    start = threading.Thread(target=daemon.start)
    start.start()
    loading.wait(20)
    answers: list[dict[str, Any]] = []
    with connected(folder) as client:
        ask = threading.Thread(target=lambda: answers.append(client.call("version")))
        ask.start()
        assert answers == []
        go_on.set()
        ask.join(20)
    start.join(20)

    assert answers[0]["embedder"] == "use"


def test_what_recalls_taught_is_folded_before_the_end(daemon: Daemon) -> None:
    tea = daemon.remember("green tea")
    daemon.call("recall", query="tea")

    daemon.restart()

    assert daemon.call("get", id=tea)["access_count"] == 1


def test_a_beat_that_fails_at_the_end_does_not_keep_the_others_from_being_made(daemon: Daemon) -> None:
    tea = daemon.remember("green tea")
    daemon.call("recall", query="tea")

    async def fail() -> None:
        raise Unavailable("The disk is full.", hint="df -h")

    class Failing:
        """Its first beat fails."""

        heartbeat = staticmethod(fail)
        fold, flush = daemon.app.background.fold, daemon.app.background.flush

    daemon.app.background = Failing()
    daemon.restart()

    assert daemon.call("get", id=tea)["access_count"] == 1


def test_a_second_daemon_on_the_same_state_is_told_who_has_it(daemon: Daemon, daemons: Make) -> None:
    with pytest.raises(StateLocked, match=f"socket {daemon.folder / 's'}"):
        daemons().start()

    assert daemon.call("health")["status"] == "ok"
    assert (daemon.folder / "s").exists()


def test_a_start_that_fails_takes_down_what_it_began(daemons: Make, folder: Path) -> None:
    broken = daemons(embedder=loads())

    with pytest.raises(Unavailable, match="use could not be loaded"):
        broken.start()

    assert not (folder / "s").exists()
    assert daemons().start().call("health")["status"] == "ok"


def test_a_socket_on_which_somebody_listens_is_left_to_him(daemons: Make, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "s"))
        other.listen()

        with pytest.raises(Conflict, match="Another process listens"):
            daemons().start()

    assert (folder / "s").exists()
    assert daemons().start().call("health")["status"] == "ok"  # nobody listens any more: it is replaced


def test_a_file_in_the_place_of_the_state_folder_is_told(daemons: Make, folder: Path) -> None:
    (folder / "state").write_text("mine")

    with pytest.raises(Unavailable, match="cannot be written") as caught:
        daemons().start()

    assert "--state-dir" in caught.value.hint
    assert (folder / "state").read_text() == "mine"


def test_below_the_reserve_the_start_is_refused_with_path_and_need(daemons: Make, folder: Path) -> None:
    with pytest.raises(Unavailable, match=r"MiB free; 1000000000 MiB are needed") as caught:
        daemons(options={"DREAMD_STORAGE__RESERVE_MB": "1000000000"}).start()

    assert str(folder / "state") in caught.value.detail
    assert caught.value.hint.startswith("df -h")


def test_a_free_port_serves_metrics_and_health(daemons: Make) -> None:
    daemon = daemons(options={"DREAMD_METRICS__LISTEN": "127.0.0.1:0"}).start()

    answer = over_tcp(daemon.app.metrics_port, "/metrics")

    assert b"dreamd_store_up 1.0" in answer
    assert daemon.call("health")["status"] == "ok"


def test_a_taken_port_degrades_and_metrics_stay_on_the_socket(daemons: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        daemon = daemons(options={"DREAMD_METRICS__LISTEN": f"127.0.0.1:{port}"}).start()

    detail, hint = reasons(daemon)["metrics"]
    assert f"127.0.0.1:{port}" in detail
    assert "[metrics] listen" in hint
    with connected(daemon.folder) as client:
        assert b"dreamd_store_up 1.0" in client.get("/metrics")


def over_tcp(port: int, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("configured", [("wordllama", ""), ("use", "other-words")])
def test_case52_another_embedder_in_the_configuration_does_not_take_effect(
    daemons: Make, configured: tuple[str, str]
) -> None:
    """Case 52: vectors of two models cannot be compared, not even where they are equally long."""
    embedder = loads(of("use"), of("wordllama"), of("use", "other-words"))
    tea = daemons(embedder=embedder).start()
    tea.remember("green tea", id="tea")
    tea.stop()

    provider, model = configured
    options = {"DREAMD_EMBEDDING__PROVIDER": provider, "DREAMD_EMBEDDING__MODEL": model}
    daemon = daemons(embedder=embedder, options=options).start()

    detail, hint = reasons(daemon)["embedder"]
    assert hint == "dreamctl reindex"
    assert provider in detail
    assert daemon.call("health")["embedder"] == "use"
    answer = daemon.call("recall", query="green tea")
    assert "degraded" not in answer
    assert daemon.call("remember", content="black tea")["created"]
    daemon.stop()
    assert daemons(embedder=embedder).start().call("health")["status"] == "ok"


def test_where_the_stored_embedder_cannot_be_loaded_recall_goes_on_by_keyword(daemons: Make) -> None:
    first = daemons(embedder=loads(of("use"))).start()
    first.remember("green tea", id="tea")
    first.stop()

    daemon = daemons(embedder=loads(of("wordllama")), options={"DREAMD_EMBEDDING__PROVIDER": "wordllama"}).start()

    answer = daemon.call("recall", query="tea")
    detail, hint = reasons(daemon)["embedder"]
    assert (answer["degraded"], [hit["id"] for hit in answer["hits"]]) == ("keyword-only", ["tea"])
    assert refused(daemon, "unavailable", "remember", content="black tea").hint == "dreamctl health"
    assert "use could not be loaded" in detail
    assert hint == "pip install use"
    assert daemon.call("version")["embedder"] == "none"


@pytest.mark.parametrize("changed", [of("use", dimension=32), of("use", model="newer-words")])
def test_a_model_that_changed_under_its_name_writes_nothing(daemons: Make, changed: HashEmbedder) -> None:
    first = daemons(embedder=loads(of("use"))).start()
    first.remember("green tea", id="tea")
    first.stop()

    daemon = daemons(embedder=lambda _provider, _model: changed).start()

    assert reasons(daemon)["embedder"][1] == "dreamctl reindex"
    assert daemon.call("recall", query="tea")["degraded"] == "keyword-only"
    refused(daemon, "unavailable", "remember", content="black tea")


def test_a_store_that_never_got_its_fingerprint_takes_only_vectors_of_its_length(daemons: Make) -> None:
    daemon = daemons(embedder=loads(of("use"))).start()
    daemon.in_lane(daemon.stores.engine.delete, "records", list(
        daemon.in_lane(lambda: [record.id for batch in daemon.stores.engine.scroll("records") for record in batch])
    ))  # fmt: skip
    daemon.stop()

    other = daemons(embedder=loads(of("use", dimension=32))).start()
    refused(other, "unavailable", "remember", content="tea")
    other.stop()

    assert daemons(embedder=loads(of("use"))).start().call("remember", content="tea")["created"]


def test_a_store_whose_files_are_shorter_but_whole_is_opened_as_ever(daemon: Daemon) -> None:
    """As a rewrite leaves them that was not noted before a kill."""
    daemon.remember("green tea")
    daemon.call("forget", id=daemon.remember("cocoa"))
    daemon.run(daemon.app.background.flush())
    marks = {name: [count, tracked + 1000] for name, (count, tracked) in daemon.stores.engine.marks().items()}
    daemon.stop()
    ledger = Ledger(daemon.folder / "state" / "state.db")
    ledger.set_fact(MARKS, marks)
    ledger.close()

    health = daemon.start().call("health")

    assert (health["status"], health["memories"], health["bin"]) == ("ok", 1, 1)
    assert daemon.call("remember", content="black tea")["created"]
    assert list((daemon.folder / "state" / ".checked").iterdir()) == []


def test_an_off_line_takes_a_job_out_of_the_night(daemons: Make) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__DREAM": "off"}).start()

    steps = daemon.call("run_job", name="night")["steps"]
    assert [step["job"] for step in steps] == [name for name in NIGHT if name != "dream"]


def test_the_configuration_reaches_the_parts(daemons: Make) -> None:
    options = {
        "DREAMD_DECAY__POLICY": "none", "DREAMD_RECALL__EMOTION_WEIGHT": "0.5", "DREAMD_DECAY__CEILING": "1.0",
        "DREAMD_SENSITIVITY__PATTERNS": '{"project x" = "secret"}',
    }  # fmt: skip
    daemon = daemons(options=options).start()
    planned = daemon.call("remember", content="we meet about Project X and project x")

    assert planned["sensitivity"] == "secret"
    assert daemon.call("recall", query="meet", explain=True)["hits"][0]["why"]["emotion"] == pytest.approx(0.25)
    daemon.beat(60)
    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 0


def test_reading_the_configuration_again_changes_what_can_change_while_it_runs(daemons: Make) -> None:
    daemon = daemons().start()
    daemon.remember("green tea")
    config = daemon.config

    daemon.app.reread(config.model_copy(update={"recall": config.recall.model_copy(update={"emotion_weight": 0.5})}))

    assert daemon.call("recall", query="tea", explain=True)["hits"][0]["why"]["emotion"] == pytest.approx(0.25)


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(daemons: Make, folder: Path) -> None:
    daemon = daemons()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(folder / "n"))
        systemd.settimeout(20)
        notifier = Notifier(str(folder / "n"))
        app = daemon.run(
            build(daemon.config, clock=SettableClock(), embedder=hashing, notifier=notifier, watchdog_seconds=0.01)
        )

        assert systemd.recv(1000) == b"READY=1\nSTATUS=0 memories"
        assert systemd.recv(1000) == b"WATCHDOG=1"
        daemon.run(app.stop())
        assert until(lambda: systemd.recv(1000) == b"STOPPING=1")


def test_a_socket_that_systemd_opened_is_served_and_left_in_its_place(daemons: Make, folder: Path) -> None:
    daemon = daemons()
    passed = socket.socket(socket.AF_UNIX)
    passed.bind(str(folder / "theirs"))
    passed.listen()
    app = daemon.run(build(daemon.config, clock=SettableClock(), embedder=hashing, passed=[passed]))

    with Client(folder / "theirs", 20) as client:
        assert client.call("health")["status"] == "ok"
    daemon.run(app.stop())

    assert (folder / "theirs").exists()
    assert not (folder / "s").exists()


def test_a_passed_socket_of_another_kind_is_refused_and_nothing_stays(daemons: Make) -> None:
    daemon = daemons()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as passed,
        pytest.raises(DreamdError, match="not a Unix stream"),
    ):
        daemon.run(build(daemon.config, clock=SettableClock(), embedder=hashing, passed=[passed]))

    assert daemon.start().call("health")["status"] == "ok"


def test_stopping_during_a_job_ends_it_at_a_checkpoint_and_the_next_run_goes_on(daemons: Make) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__NIGHT": "off"}).start()
    daemon.call("remember_many", items=[{"content": f"note {n}", "expires_at": "2026-01-02"} for n in range(400)])
    daemon.clock.advance(3 * 86_400)
    begun = daemon.call("run_job", name="decay", wait=False)
    assert until(lambda: daemon.call("health")["bin"] > 0)
    daemon.restart()

    run = daemon.call("runs")["runs"][0]
    moved = daemon.call("health")["bin"]
    rest = daemon.call("run_job", name="decay")["counts"]["expired"]

    assert (run["run_id"], run["outcome"], run["reason"]) == (begun["run_id"], "cancelled", "stopping")
    assert run["counts"]["expired"] == moved
    assert 0 < moved < 400
    assert moved + rest == 400


def test_a_stop_reaches_the_night_that_a_client_waits_for_before_it_waits_for_the_client(daemon: Daemon) -> None:
    """The lane is held while a step is under way; once the daemon was told to stop it goes on."""
    held, go_on = threading.Event(), threading.Event()
    before: list[str] = []
    ledger, runner = daemon.stores.ledger, daemon.parts.runner

    def hold() -> None:
        before.extend(run.id for run in ledger.runs())
        held.set()
        go_on.wait(20)

    with connected(daemon.folder) as client, ThreadPoolExecutor(2) as pool:
        lines = client.stream("run_job", name="night")
        first = next(lines)
        holding = daemon.parts.lane.submit(hold)
        assert held.wait(20)
        stopping = pool.submit(daemon.run, daemon.app.stop())
        answer = pool.submit(lambda: list(lines)[-1])
        assert until(lambda: not daemon.app.service.open)
        with pytest.raises(Unavailable, match="stopping"):
            daemon.run(runner.run("decay", trigger="schedule"))
        go_on.set()
        holding.result(20)
        told = answer.result(20)
        stopping.result(20)

    assert first["progress"]["job"] == "snapshot"
    assert (told["outcome"], told["reason"]) == ("cancelled", "stopping")
    after = Ledger(daemon.folder / "state" / "state.db")
    assert {run.id for run in after.runs()} == set(before)
    assert [step.job for step in after.steps_of(told["run_id"])] == ["snapshot"]
    after.close()


def test_a_request_in_flight_that_waits_for_no_job_is_answered_as_ever_while_the_daemon_stops(daemon: Daemon) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go_on.wait(20)

    with connected(daemon.folder) as client, ThreadPoolExecutor(2) as pool:
        client.call("version")
        daemon.parts.lane.submit(hold)
        assert held.wait(20)
        answer = pool.submit(client.call, "remember", content="Ada likes tea")
        assert until(lambda: daemon.parts.lane.waiting > 0)
        stopping = pool.submit(daemon.run, daemon.app.stop())
        assert until(lambda: not daemon.app.service.open)
        go_on.set()

        assert answer.result(20)["created"]
        stopping.result(20)
