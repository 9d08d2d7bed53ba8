"""Every method of the wire, a file a group. The same word is route, verb, tool and label."""

from __future__ import annotations

from typing import Final

from daemon.methods import care, graph, night, read, write
from daemon.wire import Method, Methods

METHODS: Final[Methods] = {
    method.name: method
    for group in (write, read, graph, night, care)
    for method in group.METHODS
    if isinstance(method, Method)
}
