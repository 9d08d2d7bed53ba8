"""How exports and imports are shown."""

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
_SIZES: Final = (("bytes", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000))


def exported(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """How much went into the file, and how it comes back."""
    memories = _number("memory", result["memories"])
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
    yield f"{head} {_number('memory', result['imported'])}."
    kinds = {kind: count for kind, count in result["counts"].items() if kind != "memory"}
    kept = {kind: count for kind, count in result["kept"].items() if kind != "memory"}
    unknown = ", ".join(f"{name} ({count})" for name, count in result["unknown"].items())
    masked = ", ".join(f"{name} ({count})" for name, count in result["redactions"].items())
    yield from fields(screen, [
        ("with them", _counts(kinds)),
        ("here already", _counts({"memory": result["skipped"], **kept})),
        ("kept as they are", _number("memory", result["conflicts_total"]) if result["conflicts_total"] else ""),
        ("no place for", unknown), ("redacted", masked), ("format", result["format"]),
    ])  # fmt: skip
    yield from (f"  {screen.yellow('differs here')} {one['id']}, {one['place']}" for one in result["conflicts"])
    yield from _more(result["conflicts"], result["conflicts_total"], screen)
    yield from (f"  {screen.red('not stored')} {one['place']}: {one['detail']}" for one in result["failed"])
    yield from _more(result["failed"], result["failed_total"], screen)
    if not would and any(result["counts"].values()):
        yield screen.dim(f"Take it back: dreamctl undo {result['run_id']}")


def _more(shown: list[Any], total: int, screen: Screen) -> Iterator[str]:
    if total > len(shown):
        yield screen.dim(f"  and {total - len(shown)} more")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(_number(kind, count) for kind, count in counts.items() if count)


def _number(kind: str, count: int) -> str:
    one, several = NAMES.get(kind, (kind, kind))
    return f"{count:,} {one if count == 1 else several}"


def _size(count: int) -> str:
    unit, length = next(size for size in reversed(_SIZES) if count >= size[1] or size[1] == 1)
    return f"{count / length:.3g} {unit}" if length > 1 else f"{count} {unit}"
