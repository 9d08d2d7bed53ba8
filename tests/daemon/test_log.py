from __future__ import annotations

import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from daemon.log import DROPPED, REDACTED, configure, reaches_journal
from storage.model import Memory


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging is the process's own: leave it as it was found."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logging.captureWarnings(False)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_with_a_local() -> None:
    local = "planted-" + "local"
    raise RuntimeError(f"{len(local)} letters")


def test_an_event_is_one_json_line_with_time_level_and_logger(stream: io.StringIO) -> None:
    configure(stream, journal=False, tty=False)

    structlog.get_logger("daemon.runner").info("job.finished", job="decay", changed=3)

    (event,) = lines(stream)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "job.finished", "job": "decay", "changed": 3, "level": "info", "logger": "daemon.runner"}


def test_the_libraries_loggers_come_out_the_same_way_with_the_same_context(stream: io.StringIO) -> None:
    configure(stream, journal=False, tty=False)

    with structlog.contextvars.bound_contextvars(run_id="r1"):
        logging.getLogger("apscheduler.scheduler").warning("Run time of job %s was missed", "night")
        logging.getLogger("aiohttp.server").error("bad request", extra={"peer": 1000})

    first, second = lines(stream)
    assert (first["event"], first["logger"], first["run_id"]) == (
        "Run time of job night was missed",
        "apscheduler.scheduler",
        "r1",
    )
    assert (second["level"], second["peer"], second["run_id"]) == ("error", 1000, "r1")


def test_talkative_libraries_stay_at_warning_even_at_debug(stream: io.StringIO) -> None:
    configure(stream, journal=False, tty=False, level=logging.DEBUG)

    logging.getLogger("openai._base_client").debug("Request options: %s", {"messages": "planted"})
    logging.getLogger("httpx").info("HTTP Request")

    assert stream.getvalue() == ""


def test_events_below_the_level_are_left_out(stream: io.StringIO) -> None:
    configure(stream, journal=False, tty=False, level=logging.WARNING)
    log = structlog.get_logger()

    log.info("quiet")
    log.warning("loud")

    assert [event["event"] for event in lines(stream)] == ["loud"]


def test_configuring_again_replaces_the_stream(stream: io.StringIO) -> None:
    former = io.StringIO()
    configure(former, journal=False, tty=False)
    configure(stream, journal=False, tty=False)

    structlog.get_logger().info("once")

    assert len(lines(stream)) == 1
    assert former.getvalue() == ""


def test_under_journald_each_line_has_its_priority_and_no_time(stream: io.StringIO) -> None:
    configure(stream, journal=True, tty=False, level=logging.DEBUG)
    log = structlog.get_logger()

    for level in ("debug", "info", "warning", "error", "critical"):
        getattr(log, level)("event.happened")

    written = stream.getvalue().splitlines()
    assert [line[:3] for line in written] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    assert all("timestamp" not in json.loads(line[3:]) for line in written)


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("tty", [False, True])
def test_secrets_are_masked_by_their_key_at_any_depth(stream: io.StringIO, *, journal: bool, tty: bool) -> None:
    configure(stream, journal=journal, tty=tty)
    secret = {"api_key": "planted", "X-Api-Key": "planted", "password": "planted", "deep": [{"token": "planted"}]}

    structlog.get_logger().warning("started", llm_api_key="planted", authorization="planted", options=secret)
    logging.getLogger("aiohttp").warning("started", extra={"access_token": "planted", "tokens_in": 7})

    assert "planted" not in stream.getvalue()
    assert stream.getvalue().count(REDACTED) == 7
    assert "7" in stream.getvalue().splitlines()[1]


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("key", ["content", "query", "text", "context", "queries", "prompt"])
def test_texts_are_dropped_by_their_key(stream: io.StringIO, key: str, *, tty: bool) -> None:
    configure(stream, journal=False, tty=tty)

    structlog.get_logger().warning("stored", **{key: "planted"}, item={key: ["planted"]})

    assert "planted" not in stream.getvalue()
    assert stream.getvalue().count(DROPPED) == 2


@pytest.mark.parametrize("tty", [False, True])
def test_an_object_shows_its_type_alone(stream: io.StringIO, *, tty: bool) -> None:
    """The repr of a memory holds its text."""
    configure(stream, journal=False, tty=tty)

    structlog.get_logger().warning("stored", memory=Memory(id="m", content="planted"), raw=b"planted")

    assert "planted" not in stream.getvalue()
    assert "<Memory>" in stream.getvalue()
    assert "<bytes>" in stream.getvalue()


def test_plain_data_is_written_as_it_is(stream: io.StringIO) -> None:
    configure(stream, journal=False, tty=False)
    values = {"count": np.int64(3), "score": np.float32(0.5), "path": Path("/run/x"), "ids": ("a", "b"), "none": None}

    structlog.get_logger().info("counted", **values)

    (event,) = lines(stream)
    assert {key: event[key] for key in values} == {
        "count": 3,
        "score": 0.5,
        "path": "/run/x",
        "ids": ["a", "b"],
        "none": None,
    }


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("foreign", [False, True])
def test_a_traceback_names_the_place_without_its_locals(stream: io.StringIO, *, tty: bool, foreign: bool) -> None:
    configure(stream, journal=False, tty=tty)
    log = logging.getLogger("apscheduler") if foreign else structlog.get_logger()

    try:
        fail_with_a_local()
    except RuntimeError:
        log.exception("job.failed")

    assert "planted-local" not in stream.getvalue()
    assert "fail_with_a_local" in stream.getvalue()
    assert "13 letters" in stream.getvalue()
    if not tty:
        (event,) = lines(stream)
        assert event["event"] == "job.failed"
        assert event["exception"][0]["exc_type"] == "RuntimeError"


def test_warnings_are_events_too(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure(stream, journal=False, tty=False)
        warnings.warn("this is old", DeprecationWarning, stacklevel=1)

    (event,) = lines(stream)
    assert event["logger"] == "py.warnings"
    assert "this is old" in event["event"]


def test_a_terminal_gets_text_for_people(stream: io.StringIO) -> None:
    configure(stream, journal=False, tty=True)

    structlog.get_logger().info("job.finished", job="decay")

    assert "job.finished" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_the_journal_is_known_by_the_pipes_device_and_inode(tmp_path: Path) -> None:
    with (tmp_path / "pipe").open("w") as file:
        status = os.fstat(file.fileno())

        assert reaches_journal({"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}, file.fileno())
        assert not reaches_journal({"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino + 1}"}, file.fileno())
        assert not reaches_journal({}, file.fileno())
        closed = file.fileno()
    assert not reaches_journal({"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}, closed)
