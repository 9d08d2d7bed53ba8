"""What the embedded engine raises, in our words: its own may quote what is stored, so they go no further."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

from storage.errors import Conflict, Corrupt, DreamdError, Invalid, Unavailable

RESTORE: Final = "dreamctl restore_snapshot NAME"


def translated(error: BaseException, action: str, shard: Path) -> DreamdError:
    """The error for what `action` raised on the shard in that folder.

    The engine knows bare `Exception` with a sentence, `TypeError` and `ValueError` for arguments, and panics.
    """
    words = str(error)
    if "WouldBlock" in words:
        return Conflict(
            f"{shard} is open in another process.", hint="stop the other dreamd, or use another --state-dir"
        )
    if isinstance(error, TypeError | ValueError | OverflowError):
        return Invalid(f"The engine refused what {action} was given for {shard}.", hint="dreamctl doctor")
    failure = re.search(r"\bos error (\d+)|\[Errno (\d+)\]", words)
    if failure and int(failure[1] or failure[2]) != errno.ENOENT:  # a missing file is damage
        return Unavailable(f"The file system failed {action} in {shard}.", hint=f"ls -l {shard}, then dreamctl doctor")
    kind = type(error).__name__
    return Corrupt(f"{shard} is damaged: {action} failed ({kind}). Nothing was moved or replaced.", hint=RESTORE)
