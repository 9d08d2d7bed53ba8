"""How exports, imports, snapshots, backups and new vectors are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from daemon.terminal import Screen, fields

#: One and several of each kind, as a person says it.
NAMES: Final = {
    "memory": ("memory", "memories"),
    "version": ("former version", "former versions"),
    "edge": ("edge", "edges"),
    "comment": ("comment", "comments"),
    "fact": ("fact", "facts"),
    "turn": ("turn", "turns"),
    "session_state": ("session state", "session states"),
}
#: How the folder that keeps a damaged store begins, which no snapshot does.
DAMAGED: Final = "store.corrupt-"
_SIZES: Final = (("bytes", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000))


def exported(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """How much went into the file, and how it comes back."""
    memories = number("memory", result["memories"])
    yield f"{screen.green('Exported')} {memories} to {result['path']} ({_size(result['bytes'])})."
    beside = _counts({kind: count for kind, count in result["counts"].items() if kind != "memory"})
    scope = "every scope" if result["scope"] == "*" else result["scope"]
    yield from fields(screen, [("with them", beside), ("scope", scope), ("format", result["format"])])
    if result["format"] == "csv":
        yield screen.dim("A table holds the memories alone; --format jsonl holds all that hangs on them.")


def imported(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What came in, what did not and why, and how it is taken back."""
    would = result["dry_run"]
    head = screen.yellow("Would import") if would else screen.green("Imported")
    yield f"{head} {number('memory', result['imported'])}."
    kinds = {kind: count for kind, count in result["counts"].items() if kind != "memory"}
    kept = {kind: count for kind, count in result["kept"].items() if kind != "memory"}
    unknown = ", ".join(f"{name} ({count})" for name, count in result["unknown"].items())
    scopes = ", ".join(f"{name} ({count})" for name, count in result["scopes"].items())
    masked = ", ".join(f"{name} ({count})" for name, count in result["redactions"].items())
    yield from fields(screen, [
        ("into", scopes), ("with them", _counts(kinds)),
        ("here already", _counts({"memory": result["skipped"], **kept})),
        ("conflicts", f"{result['conflicts_total']:,}; ours are kept" if result["conflicts_total"] else ""),
        ("no place for", unknown), ("redacted", masked), ("format", result["format"]),
    ])  # fmt: skip
    yield from (
        f"  {screen.yellow('conflict')} {one['id']} ({one['place']}), ours is kept" for one in result["conflicts"]
    )
    yield from _more(result["conflicts"], result["conflicts_total"], screen)
    yield from (f"  {screen.red('not stored')} {one['place']}: {one['detail']}" for one in result["failed"])
    yield from _more(result["failed"], result["failed_total"], screen)
    if not would and any(result["counts"].values()):
        yield screen.dim(f"Take it back: dreamctl undo {result['run_id']}")


def snapshot(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What was kept under which name, and the way back to it."""
    yield f"{screen.green('Kept')} {result['name']}: {_held(result)} ({_size(result['bytes'])})."
    yield screen.dim(f"Back to it: dreamctl restore_snapshot {result['name']}")


def snapshot_restored(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What the store holds now, and where the former one is."""
    yield f"{screen.green('Restored')} {result['name']}: {_held(result)}."
    former = result["replaced"]
    if former and former.startswith(DAMAGED):
        yield f"What was there is damaged; it is kept in the folder {former}."
    elif former:
        yield screen.dim(f"What was there is kept as {former}: dreamctl restore_snapshot {former}")


def backed_up(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """How much went into the archive."""
    memories = number("memory", result["memories"])
    yield f"{screen.green('Backed up')} {memories} to {result['path']} ({_size(result['bytes'])})."


def reindexed(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Whose the vectors are now."""
    if result["outcome"] == "changed":
        yield f"{screen.green('Reindexed')} {number('memory', result['memories'])} with {result['embedder']}."
    elif result["outcome"] == "unchanged":
        yield f"Nothing to do: the vectors are those of {result['embedder']} already."
    else:
        yield f"{screen.red(result['outcome'] or 'under way')}: the vectors are as they were. {result['reason'] or ''}".rstrip()


def _held(result: Mapping[str, Any]) -> str:
    return f"{number('memory', result['memories'])}, {result['bin']:,} in the bin"


def _more(shown: list[Any], total: int, screen: Screen) -> Iterator[str]:
    if total > len(shown):
        yield screen.dim(f"  and {total - len(shown)} more")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(number(kind, count) for kind, count in counts.items() if count)


def number(kind: str, count: int) -> str:
    """A count and what it is of, as a person says it."""
    one, several = NAMES.get(kind, (kind, kind))
    return f"{count:,} {one if count == 1 else several}"


def _size(count: int) -> str:
    unit, length = next(size for size in reversed(_SIZES) if count >= size[1] or size[1] == 1)
    return f"{count / length:.3g} {unit}" if length > 1 else f"{count} {unit}"
