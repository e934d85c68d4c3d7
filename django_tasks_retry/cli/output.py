"""Answers: data to stdout, talk to stderr; colours and progress only on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.core.management.base import OutputWrapper
from django.core.serializers.json import DjangoJSONEncoder

from ..display.formatting import counted

COLOURS = {"bad": "31", "good": "32", "warn": "33", "calm": "2", "strong": "1"}
BETWEEN = "  "
PROGRESS_SECONDS = 0.2
T = TypeVar("T")


class Encoder(DjangoJSONEncoder):
    """Times in full, unknown types as text: no value keeps a row from being printed."""

    def default(self, value: Any) -> Any:
        if hasattr(value, "isoformat"):
            return value.isoformat()
        try:
            return super().default(value)
        except TypeError:
            return str(value)


class Output:
    def __init__(
        self, stdout: OutputWrapper, stderr: OutputWrapper, *, as_json: bool = False, colour: bool = True
    ) -> None:
        self.stdout, self.stderr, self.as_json = stdout, stderr, as_json
        self.is_terminal = is_terminal(stdout)
        self.colour = colour and self.is_terminal and not os.environ.get("NO_COLOR")
        self.shown_at = 0.0

    # Data

    def line(self, text: str = "") -> None:
        self.stdout.write(f"{text}\n", ending="")

    def record(self, record: Mapping[str, Any]) -> None:
        """One object, on one line."""
        self.line(json.dumps(record, cls=Encoder, ensure_ascii=False))

    def answer(self, record: Mapping[str, Any], text: str) -> None:
        """One answer: a record for --json, else a text."""
        if self.as_json:
            self.record(record)
        else:
            self.line(text)

    def listing(
        self,
        items: Iterable[T],
        record: Callable[[T], Mapping[str, Any]],
        headings: Sequence[str],
        row: Callable[[T], Sequence[str]],
    ) -> None:
        """Several answers: a record each for --json, else one table; nothing if there are none."""
        if self.as_json:
            for item in items:
                self.record(record(item))
        elif rows := [row(item) for item in items]:
            self.table(headings, rows)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Aligned; on a terminal no line is longer than the screen."""
        limit = shutil.get_terminal_size().columns if self.is_terminal else None
        for n, text in enumerate(aligned([headings, *rows])):
            self.line(self.paint(text[:limit], "strong") if n == 0 else text[:limit])

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
        if not is_terminal(self.stderr) or (not is_last and now - self.shown_at < PROGRESS_SECONDS):
            return
        self.shown_at = now
        self.talk(f"\r\x1b[K{'' if is_last else text}")

    def count(self, sizes: Iterable[int], participle: str) -> int:
        """The sum of the sizes, with progress meanwhile."""
        total = 0
        for size in sizes:
            total += size
            self.progress(f"{counted(total)} {participle}")
        self.progress("", is_last=True)
        return total

    def ask(self, question: str) -> bool | None:
        """Yes or no; None if there is nobody to ask."""
        if not (is_terminal(sys.stdin) and is_terminal(self.stderr)):
            return None
        self.talk(f"{question} [y/N] ")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def is_terminal(stream: Any) -> bool:
    return bool(hasattr(stream, "isatty") and stream.isatty())


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [BETWEEN.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
