"""The misdeeds that tasks of every neighbour commit. Needs nothing but Python, whatever their environments hold."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

KNOWS_GONE = "NEIGHBOUR_FORGETS" not in os.environ


def note(word: str) -> None:
    with Path(os.environ["NEIGHBOUR_NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{word}\n")


def fail(text: str) -> None:
    raise ValueError(text)


def interrupt() -> None:
    raise KeyboardInterrupt


def hang() -> None:
    time.sleep(3600)


MISDEEDS: dict[str, Any] = {
    "error_with_nul": lambda: fail("a\0b"),
    "error_with_surrogate": lambda: fail("a\ud800b"),
    "sys_exit": lambda: sys.exit(3),
    "keyboard_interrupt": interrupt,
    "os_exit": lambda: os._exit(3),
    "gone": lambda: None,
    "result_with_nul": lambda: "a\0b",
    "hang": hang,
    "canary": lambda: None,
}


def do(name: str) -> Any:
    note(f"begin {name}")
    result = MISDEEDS[name]()
    note(f"end {name}")
    return result


def arguments() -> tuple[str, str]:
    """The verb, and the name of a task where it takes one."""
    return sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "")
