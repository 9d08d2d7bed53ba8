"""Every option of dreamd, described once: its type, its default, its bounds and the sentence that explains it.

`daemon.config` fills these from TOML and the environment, and writes the sample file from them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Sensitivity = Literal["public", "personal", "confidential", "secret"]

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CRON_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12))


def _cron(line: str) -> str:
    """A crontab line of five fields, `off`, or nothing."""
    if line in ("", "off"):
        return line
    fields = line.lower().split()
    if len(fields) != 5:
        raise ValueError('is neither "off" nor a cron line of five fields (minute hour day month weekday)')
    for text, (name, low, high) in zip(fields, _CRON_FIELDS, strict=False):
        for part in text.split(","):
            _cron_part(part, name, low, high)
    _cron_weekday(fields[4])
    return line


def _cron_part(part: str, name: str, low: int, high: int) -> None:
    """One element of a list: `*`, `5` or `5-9`, each with `/step`; months by name too, without a step."""
    if name == "month" and part.replace("-", "").isalpha():
        part = re.sub("[a-z]+", lambda month: str(_MONTHS.index(month[0]) + 1 if month[0] in _MONTHS else 0), part)
    match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", part, re.ASCII)
    if match is None:
        raise ValueError(f"has a {name} that is none of *, {low}, {low}-{high} and these with a /step")
    start, end, step = match.groups()
    first = int(start or low)
    last = int(end or (high if start is None or step else start))
    if not low <= first <= last <= high:
        raise ValueError(f"has a {name} outside {low}-{high}, or a range that runs backwards")
    if step and not 1 <= int(step) <= last - first:
        raise ValueError(f"has a {name} whose step does not fit into its range")


def _cron_weekday(text: str) -> None:
    if re.search(r"\d", text):
        raise ValueError(
            "numbers its weekdays, and programs differ on whether 0 is Sunday or Monday; write sun, mon, ..."
        )
    for part in text.split(","):
        days = part.split("-")
        if part != "*" and (len(days) > 2 or not set(days) <= set(_DAYS)):
            raise ValueError(f"has a weekday that is none of *, {', '.join(_DAYS)}, and ranges such as mon-fri")
        if part != "*" and _DAYS.index(days[0]) > _DAYS.index(days[-1]):
            raise ValueError("has a weekday range that runs backwards; the week begins on mon")


def _zone(name: str) -> str:
    try:
        if name:
            ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError("is no time zone of the IANA database; such as Europe/Berlin or UTC are") from None
    return name


def _patterns(patterns: Iterable[str]) -> None:
    # Messages count the patterns instead of quoting them: what people hide is nothing for a log.
    for number, pattern in enumerate(patterns, 1):
        try:
            empty = re.compile(pattern).search("")
        except re.error as error:
            raise ValueError(f"pattern {number} is not a regular expression: {error.msg}") from None
        if empty:
            raise ValueError(f"pattern {number} matches empty text, and so everything")


def _keyed_by_pattern(table: dict[str, Sensitivity]) -> dict[str, Sensitivity]:
    _patterns(table)
    return table


def _named_patterns(table: dict[str, str]) -> dict[str, str]:
    for number, name in enumerate(table, 1):
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
            raise ValueError(f"name {number} is not of the form [a-z][a-z0-9_]*, at most 32 characters")
    _patterns(table.values())
    return table


def _listen(text: str) -> str:
    if text:
        host, port = _split(text)
        if host != "localhost":
            try:
                ipaddress.ip_address(host)
            except ValueError:
                raise ValueError("names a host; give localhost or an IP address, IPv6 in brackets") from None
        if port > 65535:
            raise ValueError("has a port above 65535")
    return text


def _split(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,6})", text)
    if match is None:
        raise ValueError("is not of the form 127.0.0.1:9464 or [::1]:9464")
    return match[1] or match[2], int(match[3])


Cron = Annotated[str, AfterValidator(_cron)]
Zone = Annotated[str, AfterValidator(_zone)]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Days = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A table of the file: unknown keys are errors, nothing is converted, nothing changes after the start."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True, hide_input_in_errors=True
    )


class Storage(Section):
    """Where and how memories are kept."""

    durability: Literal["process", "power"] = Field(
        default="process",
        description="What an acknowledged write survives: a kill of the process at any moment, or a power cut too "
        "(one fsync before each answer).",
    )
    flush_seconds: Positive = Field(
        default=5.0, description="How often the log is brought to the disk; a power cut may lose this much."
    )
    reserve_mb: Annotated[int, Field(ge=0)] = Field(
        default=256, description="Below this much free disk, in MB, writes and starts are refused."
    )


class Learn(Section):
    """Learning from recalls."""

    flush_seconds: Positive = Field(
        default=1.0,
        description="How often learned co-activations and access counts are stored; a kill may lose this much.",
    )


class SensitivityOptions(Section):
    """Who may see a memory."""

    default: Sensitivity = Field(
        default="personal", description="The level of a memory for which its writer names none."
    )
    patterns: Annotated[dict[str, Sensitivity], AfterValidator(_keyed_by_pattern)] = Field(
        default={},
        description='Regular expression = the level to which a text is raised that matches, {"project x" = "secret"}.',
    )


class Redact(Section):
    """Secrets that never reach the store, beside those which are known by their form."""

    patterns: Annotated[dict[str, str], AfterValidator(_named_patterns)] = Field(
        default={}, description='Name = regular expression of a secret of your own, {badge = "EMP-[0-9]{6}"}.'
    )


class Embedding(Section):
    """Which model turns text into vectors; after a change run `dreamctl reindex`."""

    provider: Literal["use", "wordllama"] = Field(
        default="use", description="use: 16 languages, 3 ms a text; wordllama: English, 0.05 ms a text."
    )
    model: str = Field(default="", description="A model of that provider; empty is its default.")


class Dream(Section):
    """The nightly replay."""

    sweep_days: Annotated[int, Field(ge=1)] = Field(
        default=14, description="In how many nights every memory is visited once."
    )


class Decay(Section):
    """Forgetting. A memory whose retention R falls under the threshold goes to the bin, restorable for a while."""

    policy: Literal["ebbinghaus", "linear", "none"] = Field(
        default="ebbinghaus",
        description="ebbinghaus: R = e^(-t/S); linear: R = 1 - t/(2 half_life_days); none: only what expires goes.",
    )
    base_strength_days: Positive = Field(default=7.0, description="S of a memory that was never recalled.")
    reinforcement_days: Weight = Field(default=3.5, description="What each access adds to S.")
    half_life_days: Positive = Field(default=7.0, description="After how many days R is one half, under linear.")
    threshold: Share = Field(default=0.1, description="Below this retention a short-term memory is forgotten.")
    bin_days: Days = Field(
        default=30, description="How long the bin keeps what was forgotten; 0 purges it the same night."
    )
    ceiling: Share = Field(
        default=0.05,
        description="The largest share of a scope that may be forgotten in any 24 hours, or 10 memories if more.",
    )


class Night(Section):
    """What the night keeps for looking back."""

    undo_days: Annotated[int, Field(ge=1)] = Field(default=30, description="How long a run can be undone.")
    history_days: Days = Field(default=365, description="How long superseded memories are kept.")


class Canary(Section):
    """How a night measures what it did: by real questions of yours, of which vectors are kept and no text."""

    enabled: bool = Field(
        default=True, description="Keep the last 64 questions, and ask them before and after a night."
    )
    min_overlap: Share = Field(
        default=0.9, description="A night after which they find less of what they found before raises an alarm."
    )
    undo: bool = Field(default=False, description="Whether such a night is taken back at once.")


class Recall(Section):
    """Boosts on top of a memory's evidence; each is 0 to switch it off."""

    recency_weight: Weight = Field(default=0.05, description="The boost of a memory of this moment.")
    recency_halflife_days: Positive = Field(default=30.0, description="After how many days that boost is one half.")
    citation_weight: Weight = Field(default=0.02, description="The boost for each access.")
    citation_cap: Weight = Field(default=0.15, description="The most that accesses can add.")
    emotion_weight: Weight = Field(default=0.1, description="The boost of the strongest emotion.")
    importance_weight: Weight = Field(default=0.1, description="Times importance above or below 0.5.")


class Context(Section):
    """What `context` and `wakeup` give an agent to read."""

    tokenizer: str = Field(
        default="", description="The tokenizer.json by which tokens are counted; empty is the one inside WordLlama."
    )


class Schedule(Section):
    """When jobs run. A job's line gives it runs of its own beside the night; "off" takes it out of the night too."""

    timezone: Zone = Field(
        default="", description="The zone of these times, such as Europe/Berlin; empty is the host's."
    )
    night: Cron = Field(
        default="30 3 * * *", description="minute hour day month weekday (by name); the whole night, or off."
    )
    snapshot: Cron = Field(
        default="", description="A copy of the store is kept; without one a night forgets, merges and erases nothing."
    )
    hebbian: Cron = Field(default="", description="Co-activations become edges.")
    dedup: Cron = Field(default="", description="Twins become one, near pairs are proposed.")
    dream: Cron = Field(default="", description="The near are linked, emotions settle.")
    prune: Cron = Field(default="", description="Faded edges go.")
    demote: Cron = Field(default="", description="Heat and tiers follow use.")
    decay: Cron = Field(default="", description="The faded and the expired go to the bin.")
    purge: Cron = Field(default="", description="The bin's oldest are erased.")

    @property
    def zone(self) -> ZoneInfo:
        """The time zone, read from the database."""
        return ZoneInfo(self.timezone or "UTC")


class Spend(Section):
    """The hard daily cap on what models may cost."""

    cap_usd_per_day: Weight = Field(default=1.0, description="USD a day; no call is made that could pass it.")
    timezone: Zone = Field(default="", description="The zone in which a day begins; empty is the schedule's.")

    @property
    def zone(self) -> ZoneInfo:
        """The time zone, read from the database."""
        return ZoneInfo(self.timezone or "UTC")


class Metrics(Section):
    """Prometheus metrics and health over TCP."""

    listen: Annotated[str, AfterValidator(_listen)] = Field(
        default="127.0.0.1:9464", description="Address and port (0 is any free one); empty is off."
    )

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, or None where metrics are off."""
        return _split(self.listen) if self.listen else None


class Rpc(Section):
    """Who may use the socket, beside the daemon's own user and root."""

    allow_uids: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False)] = Field(
        default=(), description="Numeric user ids."
    )
    allow_group: str = Field(default="", description="A group whose members may.")


class Sections(Section):
    """All tables of the file."""

    storage: Storage = Storage()
    learn: Learn = Learn()
    sensitivity: SensitivityOptions = SensitivityOptions()
    redact: Redact = Redact()
    embedding: Embedding = Embedding()
    dream: Dream = Dream()
    decay: Decay = Decay()
    night: Night = Night()
    canary: Canary = Canary()
    recall: Recall = Recall()
    context: Context = Context()
    schedule: Schedule = Schedule()
    spend: Spend = Spend()
    metrics: Metrics = Metrics()
    rpc: Rpc = Rpc()
