"""Who may speak to the daemon: by uid on the Unix socket, and never a browser.

A page that a browser shows can reach loopback ports, and through a rebound name even with a Host of its own; what it
cannot do is leave out Origin, Referer and the foreign Host.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import Final

from multidict import CIMultiDictProxy

from daemon.sockets import Peer, is_member
from storage.errors import Invalid, Unauthorized

MAX_REQUEST_ID_CHARS: Final = 128

_HOSTS: Final = frozenset({"dreamd", "localhost", "127.0.0.1", "[::1]", ""})
_PORT: Final = re.compile(r":\d{1,5}$")

Headers = CIMultiDictProxy[str]


class Peers:
    """The processes that are served: the daemon's own uid, root, `allow_uids` and the members of `allow_group`."""

    def __init__(self, allow_uids: frozenset[int], allow_group: str) -> None:
        self._uids = allow_uids | {0, os.geteuid()}
        self._group = allow_group

    async def check(self, peer: Peer) -> None:
        """Raise Unauthorized for anybody else."""
        if peer.uid in self._uids:
            return
        if self._group:
            belongs: bool = await asyncio.to_thread(is_member, peer, self._group)
            if belongs:
                return
        raise Unauthorized(
            f"The daemon does not serve uid {peer.uid}.",
            hint="Its owner may add the uid to [rpc] allow_uids, or the user to [rpc] allow_group.",
        )


def check_headers(headers: Headers, own_host: str = "localhost") -> None:
    """Raise Unauthorized for what looks like a browser; `own_host` is what a TCP port was configured with."""
    for name in ("Origin", "Referer"):
        if name in headers:
            raise Unauthorized(f"A request with {name} comes from a browser.", hint="Use dreamctl or curl.")
    for value in headers.getall("Host", []):
        host = _PORT.sub("", value.strip()).casefold()
        if host not in _HOSTS and host != own_host.casefold():
            raise Unauthorized(
                f"The Host {value[:100]} is not this daemon's.",
                hint="Use http://dreamd/, http://localhost/ or http://127.0.0.1/ as the address.",
            )


def request_id(headers: Headers) -> str:
    """The Idempotency-Key, or empty."""
    key = headers.get("Idempotency-Key", "")
    if len(key) > MAX_REQUEST_ID_CHARS or not key.isprintable():
        raise Invalid(
            f"The Idempotency-Key is not a printable text of at most {MAX_REQUEST_ID_CHARS} characters.",
            hint="Use a UUID.",
            field="request_id",
        )
    return key
