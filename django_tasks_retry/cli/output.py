"""Where words go: data to stdout, talk to stderr; colours and progress only on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.management.base import OutputWrapper
from django.core.serializers.json import DjangoJSONEncoder

COLOURS = {"bad": "31", "good": "32", "warn": "33", "calm": "2", "strong": "1"}
BETWEEN = "  "
PROGRESS_SECONDS = 0.2


class Encoder(DjangoJSONEncoder):
    """Times in full, whatever else as text: no value keeps a row from being told."""

    def default(self, value: Any) -> Any:
        if hasattr(value, "isoformat"):
            return value.isoformat()
        try:
            return super().default(value)
        except TypeError:
            return str(value)


def as_json(value: Any) -> str:
    return json.dumps(value, cls=Encoder, ensure_ascii=False)


class Output:
    def __init__(
        self, stdout: OutputWrapper, stderr: OutputWrapper, *, as_json: bool = False, colour: bool = True
    ) -> None:
        self.stdout, self.stderr, self.as_json = stdout, stderr, as_json
        self.is_terminal = is_terminal(stdout)
        self.colour = colour and self.is_terminal and not os.environ.get("NO_COLOR")
        self.told_at = 0.0

    # Data

    def line(self, text: str = "") -> None:
        self.stdout.write(f"{text}\n", ending="")

    def record(self, record: Mapping[str, Any]) -> None:
        """One object, on one line."""
        self.line(as_json(record))

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Aligned; on a terminal no line is longer than the screen."""
        cells = [list(headings), *(list(row) for row in rows)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(headings))]
        limit = shutil.get_terminal_size().columns if self.is_terminal else None
        for n, row in enumerate(cells):
            text = BETWEEN.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()[:limit]
            self.line(self.paint(text, "strong") if n == 0 else text)

    def paint(self, text: str, tone: str) -> str:
        return f"\x1b[{COLOURS[tone]}m{text}\x1b[0m" if self.colour else text

    # Talk

    def talk(self, text: str) -> None:
        self.stderr.write(text, style_func=str, ending="")
        self.stderr.flush()

    def say(self, text: str) -> None:
        self.talk(f"{text}\n")

    def progress(self, text: str, *, is_last: bool = False) -> None:
        """Overwritten by the next one; seen on a terminal only."""
        now = time.monotonic()
        if not is_terminal(self.stderr) or (not is_last and now - self.told_at < PROGRESS_SECONDS):
            return
        self.told_at = now
        self.talk(f"\r\x1b[K{'' if is_last else text}")

    def ask(self, question: str) -> bool | None:
        """Yes or no; None where there is nobody to ask."""
        if not (is_terminal(sys.stdin) and is_terminal(self.stderr)):
            return None
        self.talk(f"{question} [y/N] ")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def is_terminal(stream: Any) -> bool:
    return bool(hasattr(stream, "isatty") and stream.isatty())
