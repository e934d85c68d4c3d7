"""Marks that tasks leave for the tests, and gates that they wait for."""

from __future__ import annotations

import os
from pathlib import Path


def mark(*words: object) -> None:
    """One line, in one write: lines of many processes do not mix."""
    descriptor = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(str(word) for word in words) + "\n").encode())
    os.close(descriptor)


def marked(line: str) -> int:
    return Path(os.environ["EFFECTS"]).read_text(encoding="utf-8").splitlines().count(line)


def gate(name: str) -> Path:
    return Path(os.environ["EFFECTS"] + f".{name}")
