"""Where items wait between the two passes of an import: files without a name, which are gone whatever ends the process."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TextIO

from storage.errors import Unavailable
from storage.exchange.forms import to_json


class Waiting(NamedTuple):
    """An item that passed the gate, and where it stood."""

    place: str
    fields: dict[str, Any]


class Spool:
    """Items by kind, in their order. What is written here has passed the gate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, TextIO] = {}
        self._counts: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what is still buffered for a full disk
            self._stack.close()

    def __len__(self) -> int:
        return sum(self._counts.values())

    def add(self, kind: str, place: str, fields: dict[str, Any]) -> None:
        """Let an item wait. Raises Unavailable where the disk is full."""
        try:
            if kind not in self._files:
                self._files[kind] = self._stack.enter_context(
                    tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=self._folder)  # noqa: SIM115
                )
            self._files[kind].write(to_json([place, fields]) + "\n")
        except OSError as error:
            raise self._refused(error) from error
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def batches(self, kind: str, size: int) -> Iterator[list[Waiting]]:
        """The items of a kind, so many at a time."""
        if kind not in self._files:
            return
        file = self._files[kind]
        try:
            file.seek(0)
        except OSError as error:  # what was buffered does not fit
            raise self._refused(error) from error
        batch: list[Waiting] = []
        for line in file:
            batch.append(Waiting(*json.loads(line)))
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _refused(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"What is imported cannot wait in {self._folder}: {error.strerror}.",
            hint=f"df -h {shlex.quote(str(self._folder))}, free some space, then try again",
        )
