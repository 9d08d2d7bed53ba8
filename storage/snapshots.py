"""Snapshots: whole copies of the store, each a folder of its own under `snapshots/`, and the store made of one again.

    <time>-<label>/manifest.json   when, by what, how many points, and of each file its length and checksum
    <time>-<label>/store/          the shards as they were after a flush

The shards are copied in the lane (0.1 s and 116 MB for 20,000 memories). All else is done outside: the copy is checked and
brought to the disk, and gets its name last. What is restored is copied, compared with the manifest and opened before
anything is moved. The store that was there becomes a snapshot too; a damaged one is kept as it is, under another name.
Those of the nights are labelled `nightly`, have what they hold alike once, and rotate (`storage.rotation`); nobody else's go.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from storage import durable, read_back, sharing, swap
from storage import edge_files as files
from storage.embed import Fingerprint
from storage.errors import Corrupt, DreamdError, Invalid, NotFound, Refused, Unavailable
from storage.ledger import Ledger
from storage.manifest import Manifest, broken, read
from storage.model import DAY
from storage.store import Stores, collections
from storage.swap import MANIFEST, NEXT, PROGRESS, STORE, Arrival

SNAPSHOTS: Final = "snapshots"
NIGHTLY: Final = "nightly"
BEFORE_RESTORE: Final = "before-restore"
CORRUPT: Final = f"{STORE}.corrupt-"
_PARTIAL: Final = ".partial-"
_LEAVING: Final = ".leaving-"
_LABEL_CHARS: Final = 40
_LATER: Final = 60.0  # seconds at most by which a name tells a later time than the manifest: the former ones were taken
_MIB: Final = 1 << 20


class Snapshot(NamedTuple):
    """A snapshot as it lies there; `fault` says why it cannot be restored, and `damaged` that it could be once.

    `bytes` is what it takes on the disk, of what it shares with others its part.
    """

    name: str
    manifest: Manifest | None
    bytes: int
    fault: str = ""
    damaged: bool = False
    linked: bool = False  # it lies elsewhere, and a link leads there

    @property
    def rotates(self) -> bool:
        """Whether a night may let it go: a night took it, and it lies there as it did then, by the name that it got.

        A copy tells the same time and has another name; nor does one rotate that a person moved and linked to.
        """
        if self.manifest is None or self.manifest.label != NIGHTLY or self.fault or self.linked:
            return False
        named = _named(self.name)
        return named is not None and 0.0 <= named - math.floor(self.manifest.taken_at) <= _LATER


class Draft(NamedTuple):
    """A copy that has no name yet."""

    name: str
    folder: Path
    manifest: Manifest


#: Looks at a copy before it gets its name: its store, a folder to make and to use, and its manifest.
Check: TypeAlias = Callable[[Path, Path, Manifest], None]


class Coming(NamedTuple):
    """What lies whole in `store.next`, closed and on the disk."""

    dimension: int
    embedder: Fingerprint | None
    marks: dict[str, list[int]]
    taken_at: float | None = None  # of the snapshot that it was made of, if it was
    erasures: int = 0
    scrub: bool = False  # whether text that was erased may lie in its pages


# -- taking one


def clean_label(label: str) -> str:
    """The label as it stands in a name: a-z, 0-9 and dashes. Raises Invalid where nothing of it is left."""
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    cleaned = re.sub("[^a-z0-9]+", "-", plain)[:_LABEL_CHARS].strip("-")
    if label.strip() and not cleaned:
        raise Invalid(
            "The label holds none of a-z and 0-9, of which a name is made.",
            hint="dreamctl snapshot --label before-the-move",
            field="label",
        )
    return cleaned


def copied(stores: Stores, label: str, now: float, made_by: Mapping[str, str]) -> Draft:
    """Copy the store as it is now. Called in the lane; `finished` does the rest. Raises Unavailable without room."""
    name = _free_name(stores.folder, label, now)
    folder = stores.folder / SNAPSHOTS / f"{_PARTIAL}{name}"
    with as_unavailable(folder):
        durable.make(folder)
    try:
        stores.flush()
        stores.engine.copy_to(folder / STORE)
        return Draft(name, folder, described(stores, label, now, made_by))
    except BaseException:
        dropped(folder)
        raise


def described(stores: Stores, label: str, now: float, made_by: Mapping[str, str]) -> Manifest:
    """What the manifest says of the store as it is, right after a flush. Called in the lane."""
    embedder, erasures = stores.records.fingerprint(), stores.ledger.last_erasure()
    return Manifest(now, label, dict(made_by), embedder, stores.engine.marks(), erasures)


def sealed(draft: Draft) -> Manifest:
    """Check that the copy is whole; its manifest."""
    for name, (_, tracked) in draft.manifest.marks.items():
        shard = draft.folder / STORE / name
        if files.fault(shard) or files.tracker_bytes(shard) != tracked:
            raise Unavailable(f"The copy of {name} is not whole.", hint="dreamctl doctor")
    return draft.manifest._replace(files=files.contents(draft.folder / STORE))


def finished(draft: Draft, former: Snapshot | None = None, check: Check | None = None) -> Snapshot:
    """Make sure of the copy, bring it to the disk, and give it its name; where that fails it goes.

    What it has alike with `former` it shares with it. `check` gets the store in the copy, a folder to make and to use, and
    the manifest; it raises where the copy is not good.
    """
    folder, scratch = draft.folder.with_name(draft.name), draft.folder.with_name(f"{draft.folder.name}.read-back")
    try:
        with as_unavailable(draft.folder):
            manifest = sealed(draft)
            if former is not None and former.manifest is not None:
                store = draft.folder.with_name(former.name) / STORE
                sharing.share(draft.folder / STORE, manifest.files, store, former.manifest.files)
            durable.write(draft.folder / MANIFEST, manifest.to_text())
            durable.sync_tree(draft.folder)
            if check is not None:
                check(draft.folder / STORE, scratch, manifest)
            durable.rename(draft.folder, folder)
    except BaseException:
        dropped(draft.folder)
        raise
    finally:
        dropped(scratch)
    return Snapshot(draft.name, manifest, sharing.share_of_disk(folder))


def dropped(folder: Path) -> None:
    """Let go of a copy that nobody will use."""
    with suppress(OSError):
        files.remove(folder)


def clear_scrap(state: Path) -> None:
    """Let go of what a kill left of a copy, before anybody makes another; a reindex may go on with its own."""
    for beginning in (_PARTIAL, _LEAVING):
        for folder in (state / SNAPSHOTS).glob(f"{beginning}*"):
            dropped(folder)
    if not (state / NEXT / PROGRESS).exists():
        dropped(state / NEXT)


# -- letting one go


def leaving(state: Path) -> list[str]:
    """The names of those that were let go of and are still there in part, since something failed."""
    return sorted(path.name.removeprefix(_LEAVING) for path in (state / SNAPSHOTS).glob(f"{_LEAVING}*"))


def let_go(state: Path, name: str) -> None:
    """Delete a snapshot, or what is left of it. It loses its name first: nobody sees half of it. Raises Unavailable.

    What a link leads to lies where a person put it, and stays.
    """
    folder, going = state / SNAPSHOTS / name, state / SNAPSHOTS / f"{_LEAVING}{name}"
    with as_unavailable(going):
        if folder.is_dir():
            durable.rename(folder, going)
        files.remove(going)


# -- finding one


def every(state: Path) -> list[Snapshot]:
    """Every snapshot there is, newest first."""
    found = [_look(state / SNAPSHOTS / name) for name in _names(state)]
    return [one for one in found if (state / SNAPSHOTS / one.name).is_dir()]  # a night may have let go of one meanwhile


def find(state: Path, name: str) -> Manifest:
    """The manifest of a snapshot that can be restored. Raises NotFound, Refused (a newer format) or Corrupt."""
    names = _names(state)
    if name not in names:
        there = f"there are {', '.join(names[:10])}" if names else "there is none yet"
        raise NotFound(f"There is no snapshot {name!r}; {there}.", hint="dreamctl snapshots")
    manifest = read(state / SNAPSHOTS / name / MANIFEST, name)
    if fault := manifest.fault(state / SNAPSHOTS / name / STORE):
        raise broken(name, fault)
    return manifest


def holding(state: Path, since: float) -> int:
    """How many snapshots hold what was there at `since`; one that does not tell its time may."""
    return sum(one.manifest is None or one.manifest.taken_at >= since for one in every(state))


def fresh(state: Path, now: float, since: float | None = None) -> str | None:
    """The newest snapshot of the last 24 hours that can be restored, as far as its manifest and lengths tell, or None.

    `since` is when the present store took the place of another: what was taken by then is a copy of that one.
    """
    for name in _names(state):
        folder = state / SNAPSHOTS / name
        try:
            manifest = read(folder / MANIFEST, name)
        except DreamdError:
            continue  # `snapshots` tells what is wrong with it
        recent = 0.0 <= now - manifest.taken_at <= DAY and (since is None or manifest.taken_at > since)
        if recent and not manifest.fault(folder / STORE):
            return name
    return None


# -- restoring one


def unpacked(state: Path, name: str, manifest: Manifest, *, reserve_mb: int) -> Coming:
    """Make `store.next` of a snapshot and open it once. Nobody else may be at `store.next`.

    Raises Corrupt where a file is not what the manifest says, or the engine finds less; Unavailable without room.
    """
    source, coming = state / SNAPSHOTS / name / STORE, swap.cleared(state)
    try:
        with as_unavailable(coming):
            files.require_room(state, files.allocated_bytes(source) + reserve_mb * _MIB)
            for _ in read_back.copied(source, coming, name, manifest):
                pass
            with read_back.opened(coming, name, manifest, reserve_mb) as engine:
                engine.flush()
                marks = engine.marks()  # for opening writes
            durable.sync_tree(coming)
        return Coming(read_back.dimension_of(coming), manifest.embedder, marks, manifest.taken_at, manifest.erasures)
    except BaseException:
        with suppress(DreamdError):
            swap.discard(state)
        raise


def exchange(stores: Stores, coming: Coming, label: str, now: float, made_by: Mapping[str, str]) -> str | None:
    """Put `store.next` in the place of the store, and serve it. Called in the lane.

    Returns what the former store is from now on: the name of a snapshot, or of the folder that keeps a damaged one; None
    where it was not there any more. Where the exchange fails the former store serves on.
    """
    leaving = None
    if not stores.damage and (stores.folder / STORE).exists():
        stores.flush()
        leaving = described(stores, label, now, made_by)
    name, moved = departure(stores.folder, stores.ledger, coming, leaving, now)
    stores.engine.reload(stores.folder / STORE, collections(coming.dimension), moved)
    stores.reload()
    swap.erase_again(stores)
    return name


def departure(
    state: Path, ledger: Ledger, coming: Coming, leaving: Manifest | None, now: float
) -> tuple[str | None, AbstractContextManager[None]]:
    """What the present store is to be called, and the exchange itself; nobody may have its files open then.

    `leaving` is the manifest of a store that is whole; without one it is kept apart, as it is.
    """
    name = outgoing = None
    told: Callable[[], str] | None = None
    if (state / STORE).exists():
        if leaving is None:
            name = outgoing = CORRUPT + _free_stamp(now, lambda stamp: (state / f"{CORRUPT}{stamp}").exists())
        else:
            name = _free_name(state, leaving.label, now)
            outgoing = f"{SNAPSHOTS}/{name}/{STORE}"
            told = partial(_told, leaving, state / STORE)
    arrival = Arrival(outgoing, coming.marks, now, coming.taken_at, coming.erasures, coming.scrub)
    return name, swap.exchanged(state, arrival, ledger, told)


# -- the small parts


def _told(manifest: Manifest, store: Path) -> str:
    return manifest._replace(files=files.contents(store)).to_text()


def _names(state: Path) -> list[str]:
    """The names of the snapshots, newest first; the time stands first in each."""
    folder = state / SNAPSHOTS
    if not folder.is_dir():
        return []
    return sorted((path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."), reverse=True)


def _free_name(state: Path, label: str, now: float) -> str:
    """A name that begins with a time which no other has."""
    folder = state / SNAPSHOTS
    there = (
        [path.name.removeprefix(_PARTIAL).removeprefix(_LEAVING) for path in folder.iterdir()]
        if folder.is_dir()
        else []
    )
    stamp = _free_stamp(now, lambda stamp: any(name.startswith(stamp) for name in there))
    return f"{stamp}-{label}" if label else stamp


def _free_stamp(now: float, taken: Callable[[str], bool]) -> str:
    """The time in UTC to the second, or the first second after it that is not taken."""
    while taken(stamp := _stamp(now)):
        now += 1.0
    return stamp


def _stamp(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}"


def _named(name: str) -> float | None:
    """The time that stands in the name of a night's snapshot, or None where it is no such name."""
    try:
        at = datetime.strptime(name, f"%Y%m%dT%H%M%SZ-{NIGHTLY}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return at if name == f"{_stamp(at)}-{NIGHTLY}" else None


def _look(folder: Path) -> Snapshot:
    found = Snapshot(folder.name, None, sharing.share_of_disk(folder), linked=folder.is_symlink())
    try:
        manifest = read(folder / MANIFEST, folder.name)
    except Refused as error:
        return found._replace(fault=error.detail)
    except Corrupt as error:
        return found._replace(fault=error.detail, damaged=True)
    fault = manifest.fault(folder / STORE)
    return found._replace(manifest=manifest, fault=fault, damaged=bool(fault))


@contextmanager
def as_unavailable(path: Path) -> Iterator[None]:
    """Make what the file system refuses an error of ours."""
    try:
        yield
    except OSError as error:
        detail = f"{error.filename or path} cannot be written or read: {error.strerror}."
        raise Unavailable(detail, hint=f"ls -ld {path.parent}, df -h {path.parent}, then try again") from None
