"""The only reader of the configuration: TOML file, environment, command-line paths, in rising order of precedence.

`load` gives a frozen `Config` or raises `Invalid`, which names the place, the key and what is allowed there, never the
value: it may be a key. What can be set is described in `daemon.options`.
"""

from __future__ import annotations

import difflib
import json
import os
import pwd
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin
from zoneinfo import ZoneInfo

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from daemon.options import Section, Sections
from storage.errors import Invalid

SYSTEM_FILE: Final = Path("/etc/dreamd/dreamd.toml")

_PREFIX: Final = "DREAMD_"
_WIDTH: Final = 100  # columns of the sample file
_ELSEWHERE: Final = {
    "state_dir": "; it is --state-dir or $DREAMD_STATE_DIR",
    "socket": "; it is --socket or $DREAMD_SOCKET",
}

Keys = tuple[str, ...]  # the way to an option, such as ("decay", "threshold")


class Config(Sections):
    """Everything that can be set, and the three paths; `source` is the file that was read, if any."""

    state_dir: Path
    socket: Path
    source: Path | None = None


def environment() -> Mapping[str, str]:
    """The environment of the process, as it is now."""
    return dict(os.environ)


def load(
    environ: Mapping[str, str], *, config: str | None = None, state_dir: str | None = None, socket: str | None = None
) -> Config:
    """The configuration from file and environment; the arguments are the paths given on the command line."""
    source = config_file(environ, config)
    raw = {} if source is None else _read(source)
    origins = _overlay(raw, environ)
    try:
        sections = Sections.model_validate(raw)
    except ValidationError as error:
        raise _explained(error, raw, origins, source) from None
    zone = sections.schedule.timezone or host_timezone(environ)
    schedule = sections.schedule.model_copy(update={"timezone": zone})
    spend = sections.spend.model_copy(update={"timezone": sections.spend.timezone or zone})
    state = state_folder(environ, state_dir)
    tokenizer = sections.context.tokenizer and str(_absolute(sections.context.tokenizer, environ))
    context = sections.context.model_copy(update={"tokenizer": tokenizer})
    values = dict(sections) | {"schedule": schedule, "spend": spend, "context": context}
    return Config(**values, state_dir=state, socket=socket_path(environ, socket, state), source=source)


def config_file(environ: Mapping[str, str], flag: str | None = None) -> Path | None:
    """--config, $DREAMD_CONFIG, or the first that exists of the user's file and the system's."""
    if named := flag or environ.get("DREAMD_CONFIG"):
        return _absolute(named, environ)
    candidates = (_home(environ) / ".config/dreamd/dreamd.toml", SYSTEM_FILE)
    return next((path for path in candidates if os.access(path, os.F_OK)), None)


def state_folder(environ: Mapping[str, str], flag: str | None = None) -> Path:
    """--state-dir, $DREAMD_STATE_DIR, systemd's first $STATE_DIRECTORY, or ~/.local/state/dreamd."""
    named = flag or environ.get("DREAMD_STATE_DIR") or _first(environ, "STATE_DIRECTORY")
    return _absolute(named, environ) if named else _home(environ) / ".local/state/dreamd"


def socket_path(environ: Mapping[str, str], flag: str | None, state: Path) -> Path:
    """--socket, $DREAMD_SOCKET, a socket in systemd's or the session's runtime folder, or one in the state folder."""
    if named := flag or environ.get("DREAMD_SOCKET"):
        return _absolute(named, environ)
    if runtime := _first(environ, "RUNTIME_DIRECTORY"):
        return Path(runtime) / "dreamd.sock"
    if session := environ.get("XDG_RUNTIME_DIR"):
        return Path(session) / "dreamd/dreamd.sock"
    return state / "dreamd.sock"


def host_timezone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> str:
    """The host's IANA zone: $TZ where it names one, else what /etc/localtime links to, else UTC."""
    linked = os.path.realpath(localtime)
    for candidate in (environ.get("TZ", "").removeprefix(":"), linked):
        name = candidate.rpartition("zoneinfo/")[2]
        try:
            return ZoneInfo(name).key
        except (LookupError, ValueError, OSError):
            continue
    return "UTC"


def sample(config_class: type[Section] = Config) -> str:
    """A dreamd.toml with every key at its default, commented out, each below its description."""
    head = (
        "Configuration of dreamd. Every key stands here at its default: remove the # before one to change it. "
        "Every key can be set in the environment too, as DREAMD_SECTION__KEY, which goes before this file."
    )
    return "\n".join([*_comment(head), *_sample_tables(config_class, ())]) + "\n"


def _sample_tables(section: type[Section], path: Keys) -> Iterator[str]:
    tables = {}
    for name, field in section.model_fields.items():
        if nested := _section(field):
            tables[name] = nested
        elif path:
            choices = _choices(field)
            one_of = f" One of: {', '.join(choices)}." if choices else ""
            yield ""
            yield from _comment(f"{field.description}{one_of}")
            yield f"# {name} = {_toml(field.default)}"
    for name, nested in tables.items():
        yield ""
        yield from _comment(nested.__doc__ or "")
        yield f"[{'.'.join((*path, name))}]"
        yield from _sample_tables(nested, (*path, name))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _toml(value: Any) -> str:
    """A default as TOML; those are texts, numbers, booleans, lists and empty tables, which JSON writes alike."""
    return json.dumps(value, ensure_ascii=False)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def _absolute(text: str, environ: Mapping[str, str]) -> Path:
    if text == "~" or text.startswith("~/"):
        return _home(environ) / text[2:]
    return Path(text).absolute()


def _first(environ: Mapping[str, str], name: str) -> str:
    """The first of the folders that systemd lists in a variable, separated by colons."""
    return environ.get(name, "").partition(":")[0]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Invalid(f"{path} cannot be read: {reason}", hint=f"ls -l {path}", field="config") from None
    except UnicodeDecodeError as error:
        detail = f"{path} is not UTF-8 text, at byte {error.start}"
        raise Invalid(detail, hint=f"save {path} as UTF-8 and start dreamd again", field="config") from None
    except tomllib.TOMLDecodeError as error:
        detail = f"{path} is not TOML: {error}"
        raise Invalid(detail, hint=f"mend {path} and start dreamd again", field="config") from None


def _overlay(raw: dict[str, Any], environ: Mapping[str, str]) -> dict[Keys, str]:
    """Lay each DREAMD_SECTION__KEY over the file's tables; returns which variable set which key."""
    origins: dict[Keys, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or "__" not in variable:
            continue
        path = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
        table = raw
        for name in path[:-1]:
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                break  # the file has no table there, which is an error of its own
            table = inner
        else:
            table[path[-1]] = _value(environ[variable], _field(path))
            origins[path] = variable
    return origins


def _value(text: str, field: FieldInfo | None) -> Any:
    """A variable's value: text where the key wants text, else read as TOML or JSON where it is that."""
    if field is None or field.annotation is str or _choices(field):
        return text
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return table["value"] if len(table) == 1 else text


def _section(field: FieldInfo) -> type[Section] | None:
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _choices(field: FieldInfo) -> tuple[str, ...]:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def _field(path: Sequence[str]) -> FieldInfo | None:
    """The option at a path of sections and key, None where there is none."""
    section: type[Section] | None = Sections
    field = None
    for name in path:
        field = section.model_fields.get(name) if section else None
        section = _section(field) if field else None
    return field


def _options(section: type[Section] = Sections, path: Keys = ()) -> Iterator[Keys]:
    """The path of every section and option."""
    for name, field in section.model_fields.items():
        yield (*path, name)
        if nested := _section(field):
            yield from _options(nested, (*path, name))


def _explained(
    error: ValidationError, raw: Mapping[str, Any], origins: Mapping[Keys, str], source: Path | None
) -> Invalid:
    """All that is wrong, one line a fault: where it stands, which key, what it is, what it must be."""
    lines, places, keys = [], [], []
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        path = _known_part(fault["loc"])
        variable = next((name for known, name in origins.items() if known[: len(path)] == path), None)
        place = f"${variable}" if variable else str(source)
        lines.append(f"{place}: {_named(path)} {_fault(fault['type'], fault['msg'], path, raw)}")
        places.append(place)
        keys.append(".".join(path))
    hint = f"mend {', '.join(dict.fromkeys(places))}, then start dreamd again"
    return Invalid("\n".join(dict.fromkeys(lines)), hint=hint, field=keys[0])


def _known_part(location: Sequence[int | str]) -> Keys:
    """A fault's location down to its key: what lies within the value of an option could be private."""
    path: Keys = ()
    for part in location:
        path = (*path, str(part))
        field = _field(path)
        if field is None or _section(field) is None:
            break
    return path


def _named(path: Keys) -> str:
    return f"[{path[0]}]" if len(path) == 1 else f"[{'.'.join(path[:-1])}] {path[-1]}"


def _fault(kind: str, message: str, path: Keys, raw: Mapping[str, Any]) -> str:
    if kind == "extra_forbidden":
        near = _nearest(path)
        return "is not known" + (f"; did you mean {_named(near)}?" if near else _ELSEWHERE.get(path[-1], ""))
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    value: Any = raw
    for name in path:
        value = value[name]
    must = "must be a table" if kind == "model_type" else message.replace("Input should be", "must be", 1)
    return f"is {_kind(value)} and {must.replace('tuple', 'list').replace('dictionary', 'table')}"


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def _nearest(path: Keys) -> Keys | None:
    """The known option that an unknown one was probably meant to be: the same name elsewhere, or one spelt alike."""
    options = [option for option in _options() if len(option) == len(path)]
    beside = [option[-1] for option in options if option[:-1] == path[:-1]]
    for option in options:
        if option[-1] == path[-1]:
            return option
    alike = difflib.get_close_matches(path[-1], beside, n=1)
    return (*path[:-1], alike[0]) if alike else None
