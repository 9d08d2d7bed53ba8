"""What Animus writes: a snapshot, or its export as JSON, JSONL or CSV.

There, an edit is a new memory whose `parent_id` names the one before, and both are found. Here the newest of such a history
is the memory, and those before it are its former versions.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from storage.errors import Invalid
from storage.exchange.chains import Chains, Link
from storage.exchange.items import Fault, Item
from storage.exchange.json_files import first_record, records
from storage.exchange.record import Record, attempt, memory
from storage.model import HEATS, SENSITIVITIES, SOURCES

SYSTEM: Final = "animus"
LISTS: Final = ("memories",)
#: The header of its CSV.
COLUMNS: Final = [
    "id", "content", "memory_type", "created_at", "updated_at", "tags", "source", "confidence", "subtype",
]  # fmt: skip
#: What a version has no place for, where it is not as usual.
_REST: Final = frozenset({"subtype", "source", "confidence"})


def matches(path: Path) -> bool:
    """Whether the file begins with a record of Animus, or with the header of its CSV."""
    if _is_csv(path):
        return True
    record = first_record(path, LISTS)
    return isinstance(record, dict) and {"id", "content", "memory_type"} <= record.keys() and "kind" not in record


def read(path: Path) -> Iterator[Item | Fault]:
    """Its memories, then what they said before. Raises Invalid where the file is cut or damaged."""
    chains = Chains(_link(item) for item in _items(path) if isinstance(item, Item) and "id" in item.fields)
    former: list[Item] = []
    for item in _items(path):
        if isinstance(item, Fault):
            yield item
        elif chains.is_former(item.fields.get("id")):
            former.append(item)
        else:
            yield _head(item, chains)
    for item in former:
        yield _version(item, chains)


def _items(path: Path) -> Iterator[Item | Fault]:
    """Every record as a memory of its own."""
    for entry in _rows(path) if _is_csv(path) else records(path, LISTS):
        yield entry if isinstance(entry, Fault) else attempt(entry[0], _memory, entry[1])


def _memory(value: Any) -> Item:
    """One memory, or a former text of one. Animus forgets nothing by itself, so it is a `long` one."""
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - whatever a record is refused for is a ValueError
    record = Record(value)
    own = record.value("metadata")
    kind, subtype = record.kind("memory_type", record.word("subtype"))
    record.one_of("provenance", ("direct",))  # the common one is not worth a word
    fields = {
        "id": record.id("id", SYSTEM),
        "content": record.content("content"),
        "session": Record(own).word("conversation_id") if isinstance(own, dict) else "",
        "type": kind,
        "subtype": subtype,
        "tags": record.tags("tags"),
        "tier": "long",
        "heat": record.one_of("tier", HEATS),
        "confidence": record.share("confidence"),
        "source": record.one_of("source", SOURCES),
        "sensitivity": record.one_of("sensitivity", SENSITIVITIES),
        "version": record.count("version") or None,
        "change_summary": record.text("change_summary"),
        "created_at": record.instant("created_at"),
        "updated_at": record.instant("updated_at"),
        "accessed_at": record.instant("last_accessed"),
        "access_count": record.count("access_count"),
    }
    if fields["created_at"] is None:
        raise ValueError("created_at is missing")
    return memory(**fields, metadata=record.metadata(own))


# -- histories


def _link(item: Item) -> Link:
    """`parent_id` is no field of ours, and so it stands in the metadata."""
    fields = item.fields
    parent = Record(fields.get("metadata", {})).id("parent_id", SYSTEM)
    return Link(fields["id"], parent or "", fields.get("version", 1), fields["created_at"], fields.get("sensitivity"))


def _head(item: Item, chains: Chains) -> Item:
    """The memory with its number and its birth; an edit in Animus lowers the sensitivity to public, which is undone here."""
    head = chains.head(item.fields.get("id"))
    if head is None:
        return item
    ours = {"version": head.number, "created_at": head.created_at, "sensitivity": head.sensitivity}
    return item._replace(fields=item.fields | {name: value for name, value in ours.items() if value is not None})


def _version(item: Item, chains: Chains) -> Item:
    """A former text; its metadata says under which id it stood."""
    fields = item.fields
    own, number, replaced_at = chains.former(fields["id"])
    rest = {name: value for name, value in fields.items() if name in _REST and value not in ("stated", 1.0)}
    version = {
        "memory": own,
        "number": number,
        "content": fields["content"],
        "context": "",
        "type": fields.get("type", "semantic"),
        "tags": fields.get("tags", []),
        "metadata": rest | {"original_id": fields["id"]} | fields.get("metadata", {}),
        "change_summary": fields.get("change_summary", ""),
        "created_at": fields["created_at"],
        "replaced_at": replaced_at,
    }
    level = {"sensitivity": fields["sensitivity"]} if "sensitivity" in fields else {}
    return Item("version", item.place, version | level)


# -- CSV


def _is_csv(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.readline(4096).decode("utf-8-sig", "replace")
    with suppress(csv.Error):  # a file of another kind may end its lines as no table does
        return next(csv.reader([header]), [])[: len(COLUMNS)] == COLUMNS
    return False


def _rows(path: Path) -> Iterator[tuple[str, Any] | Fault]:
    """Every row after the header. Raises Invalid where the file ends within one."""
    csv.field_size_limit(sys.maxsize)  # a text may be longer than what the library takes by default
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = csv.reader(file, strict=True)
        header = next(rows)
        number, short = 1, False
        while True:
            number += 1
            try:
                row = next(rows)
            except StopIteration:
                break
            except csv.Error as error:
                if "end of data" in str(error):
                    raise _cut(path) from error
                yield Fault(f"row {number}", f"it is no CSV: {error}")
                continue
            short = len(row) < len(header)
            if len(row) == len(header):
                yield f"row {number}", _fields(dict(zip(header, row, strict=True)))
            elif row:
                yield Fault(f"row {number}", f"it has {len(row)} fields, and the header {len(header)}")
    if short and not _ends_with_a_line(path):
        raise _cut(path)


def _fields(row: dict[str, str]) -> dict[str, Any]:
    """A row as its JSON would be."""
    fields: dict[str, Any] = {name: value for name, value in row.items() if value}
    fields["tags"] = [tag for tag in row["tags"].split(";") if tag]
    try:
        fields["confidence"] = float(row["confidence"])
    except ValueError:
        return fields
    return fields


def _cut(path: Path) -> Invalid:
    return Invalid(f"{path} is cut: it ends within a row.", hint="export it once more, and import that", field="path")


def _ends_with_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read().endswith(b"\n")
