"""The two ends of systemd's protocol: telling it how we are, and taking the sockets it opened for us.

Nothing here reads the environment; it is handed over, and the names of one start are taken out of it so that no child
process believes them its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

from storage.errors import Invalid

FIRST_FD: Final = 3  # SD_LISTEN_FDS_START


class Notifier:
    """Sends state to `$NOTIFY_SOCKET`; with an empty address it does nothing."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def send(self, **state: str | int) -> bool:
        """Send `NAME=value` lines, such as `ready=1, status="..."`; false where nobody was there to take them."""
        if not self._address:
            return False
        lines = (f"{name.upper()}={str(value).replace(chr(10), ' ')}" for name, value in state.items())
        message = "\n".join(lines).encode("utf-8", "replace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)  # systemd's queue may be full, and the loop may not wait for it
                sender.sendto(message, self._address)
        except OSError:
            return False
        return True


def watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """How often to ping the watchdog: half of what the unit allows; None where it does not watch this process."""
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    allowed = _number(environ, "WATCHDOG_USEC")
    return allowed / 2e6 if allowed else None


def take_sockets(environ: MutableMapping[str, str], pid: int) -> list[tuple[str, socket.socket]]:
    """The listening sockets that systemd passed to this process, each with its name; children do not inherit them."""
    meant = environ.pop("LISTEN_PID", "") == str(pid)
    count = _number(environ, "LISTEN_FDS") if meant else 0
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    environ.pop("LISTEN_FDS", None)
    names += ["unknown"] * (count - len(names))
    return [(name or "unknown", _take(FIRST_FD + place)) for place, name in enumerate(names[:count])]


def _take(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        raise Invalid(
            f"File descriptor {descriptor}, passed by systemd, is not a socket.",
            hint="Let the socket unit hold ListenStream= lines only.",
        ) from error


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "0")
    if not (text.isascii() and text.isdigit()):
        raise Invalid(f"${name} is not a number.", hint=f"Start the daemon from its unit, or unset {name}.", field=name)
    return int(text)
