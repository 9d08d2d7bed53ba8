"""Writes the OpenAPI document that `dreamctl` is made of: `python -m daemon.openapi`, after any change of a method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from daemon.methods import METHODS
from daemon.wire import openapi

FILE: Final = Path(__file__).with_name("openapi.json")


def text() -> str:
    """The document as it is committed."""
    return json.dumps(openapi(METHODS), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
