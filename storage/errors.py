"""The kinds of error, chosen by what the caller should do next.

Every error names what happened, to what, and in `hint` the next command to run. Anything that is not one of these is a
bug: it is logged with its traceback and answered as `internal`. "Nothing to do" is a result, never an error.
"""

from __future__ import annotations

import shlex
from typing import Any, ClassVar


class DreamdError(Exception):
    """An error with a kind, a sentence for the person and the next command to run.

    `extra` holds further members of the answer (`field`, `duplicate_of`, `run_id`, `retry_after_s`, ...).
    """

    kind: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    status: ClassVar[int] = 500

    def __init__(self, detail: str, *, hint: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.extra = extra


class Invalid(DreamdError):
    """The request is wrong: mend `field` and send it again."""

    kind, title, status = "invalid", "Invalid request", 400

    def __init__(self, detail: str, *, hint: str, field: str = "", **extra: Any) -> None:
        super().__init__(detail, hint=hint, field=field, **extra)


class Unauthorized(DreamdError):
    """The caller may not speak to this daemon."""

    kind, title, status = "unauthorized", "Not allowed", 403


class NotFound(DreamdError):
    """There is no such thing, or the caller's clearance does not cover it: the words are the same.

    `withheld` is the sensitivity of what was not covered; it is counted, and never a part of the answer.
    """

    kind, title, status = "not_found", "Not found", 404

    def __init__(self, detail: str, *, hint: str, withheld: str | None = None, **extra: Any) -> None:
        super().__init__(detail, hint=hint, **extra)
        self.withheld = withheld


class Conflict(DreamdError):
    """The thing changed meanwhile, exists already, or is busy: look again, then decide."""

    kind, title, status = "conflict", "Conflict", 409


class TooLarge(DreamdError):
    """The request is over a limit that the message names."""

    kind, title, status = "too_large", "Too large", 413


class Refused(DreamdError):
    """Policy says no: a cap, a ceiling, a sensitivity, a protected class."""

    kind, title, status = "refused", "Refused", 422


class Unavailable(DreamdError):
    """Something this needs is away at the moment: the disk, the store, the embedder, a model."""

    kind, title, status = "unavailable", "Unavailable", 503

    def __init__(self, detail: str, *, hint: str, retry_after_s: float = 5.0, **extra: Any) -> None:
        super().__init__(detail, hint=hint, retry_after_s=retry_after_s, **extra)


class Corrupt(DreamdError):
    """What is on disk is less than what was acknowledged: nothing is overwritten; restore a snapshot."""

    kind, title, status = "corrupt", "Store damaged", 500


def command(verb: str, *words: str, **flags: str | bool) -> str:
    """A command line for a hint: whatever the words and the values of the flags are, a shell gives them to `dreamctl` as such.

    A flag that is true takes no value, one that is false is left out.
    """
    spelt: list[str] = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            spelt += [flag] * value
        else:
            spelt += [f"{flag}={value}"] if value.startswith("-") else [flag, value]
    if any(word.startswith("-") for word in words):
        return shlex.join(["dreamctl", verb, *spelt, "--", *words])
    return shlex.join(["dreamctl", verb, *words, *spelt])


#: Every kind that may stand on the wire; `internal` is for bugs.
KINDS: tuple[type[DreamdError], ...] = (
    Invalid,
    Unauthorized,
    NotFound,
    Conflict,
    TooLarge,
    Refused,
    Unavailable,
    Corrupt,
    DreamdError,
)
