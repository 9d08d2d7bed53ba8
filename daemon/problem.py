"""Errors on the wire: RFC 9457 problem documents, and the one answer that is written without an HTTP server.

Only the kinds of `storage.errors` ever appear. No traceback, no exception text but that of our own errors.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any, Final

from daemon.body import encode
from storage.errors import DreamdError

CONTENT_TYPE: Final = "application/problem+json"

_LAST_RESORT: Final = "dreamctl doctor"


def document(error: DreamdError) -> dict[str, Any]:
    """The problem document of an error: RFC 9457's members, `kind`, `hint` and the error's own extras."""
    core: dict[str, Any] = {
        "type": f"urn:dreamd:problem:{error.kind}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "kind": error.kind,
        "hint": error.hint or _LAST_RESORT,
    }
    extras = {name: value for name, value in error.extra.items() if value not in (None, "") and name not in core}
    return core | extras


def headers(error: DreamdError) -> dict[str, str]:
    """The headers an error adds to its answer: whole seconds of Retry-After where a repeat may help."""
    seconds = error.extra.get("retry_after_s")
    return {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}


def raw_response(error: DreamdError) -> bytes:
    """A whole HTTP/1.1 answer for a connection that is closed before its request was read."""
    body = encode(document(error))
    lines = {"Content-Type": CONTENT_TYPE, "Content-Length": str(len(body)), "Connection": "close"} | headers(error)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n{head}\r\n".encode() + body
