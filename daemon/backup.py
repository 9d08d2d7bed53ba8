"""A backup: one zip with a snapshot, the ledger and the configuration without its keys; unpacked, it is a state folder.

Only the data of a file go in, not the zeros that the engine has reserved behind them: a small store is 0.5 MB instead of
650. What was left out comes back when the snapshot is restored.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from daemon.options import Section, Sections
from storage import durable
from storage.edge_files import allocated_bytes, require_room
from storage.errors import Conflict, Invalid, command
from storage.instants import format_instant
from storage.manifest import Manifest
from storage.memories import BIN, LIVE
from storage.redact import Redactor
from storage.snapshots import SNAPSHOTS, Draft, sealed
from storage.swap import MANIFEST, STORE

LEDGER: Final = "state.db"
CONFIG: Final = "dreamd.toml"
README: Final = "README.txt"
#: The names of options whose values are nobody's to read.
SECRET: Final = re.compile(r"(?:^|_)(?:key|token|secret|password|credentials)$")

_LEVEL: Final = 1  # of compression, the fastest
_PIECE: Final = 1 << 20
_LARGE: Final = 1 << 30  # from here on a file's entry needs the wider format
_TEXT: Final = """\
A backup of dreamd, the memory daemon, of {taken_at}; memories: {memories}, in the bin: {bin}.

  snapshots/   the memories
  state.db     runs, undo, spend
  dreamd.toml  the configuration, without its keys

To restore it, unpack it into an empty folder, then:

  dreamd --state-dir FOLDER --restore-snapshot {name}
  dreamd --state-dir FOLDER --config FOLDER/dreamd.toml

In a state folder that is in use, unpack snapshots/ alone; then: {restore}
"""


def check_target(path: Path) -> None:
    """Raise Invalid or Conflict unless a new file can be made there."""
    if not path.is_absolute():
        raise Invalid("path: it must be absolute.", hint=f"{command('backup', str(path))} makes it so", field="path")
    if path.exists() or path.is_symlink():
        raise Conflict(f"{path} exists already.", hint="Choose another name, or move it away.", field="path")
    if not path.parent.is_dir():
        raise Invalid(
            f"path: there is no folder {path.parent}.", hint=f"mkdir -p {shlex.quote(str(path.parent))}", field="path"
        )


def write(target: Path, draft: Draft, config: Sections, tell: Callable[[int, int], None]) -> int:
    """Write the zip beside its place, then give it its name; returns its bytes. The ledger's copy lies with the draft.

    `tell` hears how many of how many files are in it.
    """
    name, manifest = draft.name, sealed(draft)
    require_room(target.parent, allocated_bytes(draft.folder))
    beside = target.with_name(f".{target.name}.{name}")
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with (
            os.fdopen(descriptor, "w+b") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as zipped,
        ):
            zipped.writestr(README, _readme(name, manifest))
            zipped.writestr(CONFIG, settings_text(config))
            zipped.writestr(f"{SNAPSHOTS}/{name}/{MANIFEST}", manifest.to_text())
            _add(zipped, LEDGER, draft.folder / LEDGER, (draft.folder / LEDGER).stat().st_size)
            for number, (path, content) in enumerate(manifest.files.items(), 1):
                _add(zipped, f"{SNAPSHOTS}/{name}/{STORE}/{path}", draft.folder / STORE / path, content.end)
                tell(number, len(manifest.files))
        durable.sync(beside)
        durable.rename(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return target.stat().st_size


def settings_text(config: Sections) -> str:
    """The options as TOML, without those that are secret by name; a secret within another is masked."""
    lines: list[str] = []
    for name in Sections.model_fields:
        lines += _table((name,), getattr(config, name))
    return "\n".join(lines) + "\n"


def _table(path: tuple[str, ...], section: Section) -> list[str]:
    options = {name: getattr(section, name) for name in type(section).model_fields if not SECRET.search(name)}
    plain = {name: value for name, value in options.items() if not isinstance(value, Section)}
    lines = [f"[{'.'.join(path)}]", *(f"{name} = {_toml(_masked(name, value))}" for name, value in plain.items()), ""]
    for name, value in options.items():
        if isinstance(value, Section):
            lines += _table((*path, name), value)
    return lines


def _masked(name: str, value: Any) -> Any:
    """A value without secrets; patterns only tell what secrets look like."""
    value = list(value) if isinstance(value, tuple) else value
    return value if name == "patterns" else Redactor().redact_json(value)[0]


def _toml(value: Any) -> str:
    """Texts, numbers, booleans and lists of them are written as in JSON, which knows no inline tables."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(inner)}' for key, inner in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _add(zipped: zipfile.ZipFile, name: str, source: Path, size: int) -> None:
    """Add the first `size` bytes of a file."""
    with source.open("rb") as reader, zipped.open(name, "w", force_zip64=size >= _LARGE) as writer:
        while size and (piece := reader.read(min(_PIECE, size))):
            writer.write(piece)
            size -= len(piece)


def _readme(name: str, manifest: Manifest) -> str:
    taken_at = format_instant(manifest.taken_at)
    return _TEXT.format(
        name=name, restore=command("restore_snapshot", name), taken_at=taken_at, memories=manifest.points(LIVE),
        bin=manifest.points(BIN),
    )  # fmt: skip
