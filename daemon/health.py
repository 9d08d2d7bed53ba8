"""What is not as it should be, for `health`, the metrics and whoever starts the daemon."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Health:
    """What is not as it should be: a reason by name, with what happened and the next command to run."""

    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)

    def degrade(self, name: str, detail: str, hint: str) -> None:
        """Say that something is wrong until `mend` says it is not."""
        self.reasons[name] = (detail, hint)

    def mend(self, name: str) -> None:
        """Say that it is well again."""
        self.reasons.pop(name, None)
