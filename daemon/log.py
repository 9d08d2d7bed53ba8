"""Logging: one line an event on stderr, the same way for our own loggers and the libraries'.

A terminal gets coloured text, everything else JSON; under journald each line begins with its priority, `<6>{...}`.
Whatever is logged passes one gate: secrets are masked by their key, texts of memories and queries dropped by theirs,
and an object that is not plain data shows only its type, for its repr could hold either. Tracebacks have no locals.
"""

from __future__ import annotations

import logging
import numbers
import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

REDACTED: Final = "[redacted]"
DROPPED: Final = "[dropped]"

_SECRET_KEYS: Final = frozenset({"apikey", "token", "authorization", "password", "secret", "cookie"})
_SECRET_ENDINGS: Final = ("_key", "_token", "_password", "_secret")
_TEXT_KEYS: Final = frozenset(
    {"content", "contents", "context", "query", "queries", "text", "texts", "prompt", "answer", "body"}
)
# What structlog itself puts into an event and renders later.
_OWN_KEYS: Final = frozenset({"exc_info", "exception"})

_PRIORITIES: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}

# These write whole requests, prompts with them, at debug, and a line for each call at info.
_TALKATIVE: Final = ("apscheduler", "httpcore", "httpx", "LiteLLM", "openai", "urllib3")


def configure(stream: TextIO, *, journal: bool, tty: bool, level: int = logging.INFO) -> None:
    """Send every logger of the process to `stream`; calling it again replaces what it set up before."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.StackInfoRenderer(),
    ]
    if not journal:  # journald stamps each line itself
        shared.append(structlog.processors.TimeStamper(fmt="iso", utc=True))
    formatter = (_JournalFormatter if journal else structlog.stdlib.ProcessorFormatter)(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, guard, *_renderers(tty=tty)],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )


def reaches_journal(environ: Mapping[str, str], descriptor: int) -> bool:
    """Whether the open file `descriptor` is the pipe to journald that systemd names in $JOURNAL_STREAM."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def guard(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask secrets, drop texts and show other objects by their type, at any depth of the event."""
    return {key: value if key in _OWN_KEYS else _plain(key, value) for key, value in event.items()}


def _plain(key: str, value: Any) -> Any:
    name = key.lower().replace("-", "_")
    if name in _SECRET_KEYS or name.endswith(_SECRET_ENDINGS):
        return REDACTED
    if name in _TEXT_KEYS:
        return DROPPED
    match value:
        case None | bool() | str() | int() | float():
            return value
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case PurePath():
            return str(value)
        case Mapping():
            return {str(inner): _plain(str(inner), entry) for inner, entry in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain("", entry) for entry in value]
        case _:
            return f"<{type(value).__name__}>"


def _renderers(*, tty: bool) -> list[Processor]:
    if tty:
        # The default formatter of this renderer prints locals where the package `rich` is installed.
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]


class _JournalFormatter(structlog.stdlib.ProcessorFormatter):
    """Begins each line with the priority that journald strips off again (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_PRIORITIES.get(record.levelno, 6)}>{super().format(record)}"
