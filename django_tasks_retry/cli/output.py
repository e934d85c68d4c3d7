"""Answers: data to stdout, talk to stderr; colours and progress only on a terminal."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core.management.base import OutputWrapper
from django.core.serializers.json import DjangoJSONEncoder

from ..display.formatting import counted, format_moment, format_number, one_line
from ..display.states import State

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


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A property of the items of a list: its name in JSON, and its heading and text in a table; either may be empty."""

    name: str
    heading: str = ""
    text: Callable[[T], str] | None = None  # by default the value, as any value of its type is shown
    value: Callable[[T], Any] | None = None  # by default the attribute or key of that name

    def value_of(self, item: T) -> Any:
        if self.value is not None:
            return self.value(item)
        return item[self.name] if isinstance(item, Mapping) else getattr(item, self.name)

    def json_of(self, item: T) -> Any:
        value = self.value_of(item)
        return value.name if isinstance(value, State) else value

    def text_of(self, item: T) -> str:
        return cell(self.value_of(item)) if self.text is None else self.text(item)


def cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case State():
            return str(value.label)
        case datetime():
            return format_moment(value)
        case int():
            return format_number(value)
    return one_line(value)


def only_json(*names: str) -> list[Column[Any]]:
    """Return columns for attributes that tables leave out."""
    return [Column(name) for name in names]


def rows_of(items: Iterable[T], columns: Sequence[Column[T]]) -> list[list[str]]:
    """Return the rows of a table, the headings first."""
    shown = [column for column in columns if column.heading]
    return [[column.heading for column in shown], *([column.text_of(item) for column in shown] for item in items)]


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
        self.clear_progress()
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

    def listing(self, items: Sequence[T], columns: Sequence[Column[T]], otherwise: str = "") -> None:
        """Several answers: a record each for --json, else one table. If there are none, `otherwise` is said."""
        if self.as_json:
            for item in items:
                self.record({column.name: column.json_of(item) for column in columns if column.name})
        elif items:
            self.table(rows_of(items, columns))
        if otherwise and not items:
            self.say(otherwise)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Aligned, the headings first; on a terminal no line is longer than the screen."""
        limit = shutil.get_terminal_size().columns if self.is_terminal else None
        for n, text in enumerate(aligned(rows)):
            self.line(self.paint(text[:limit], "strong") if n == 0 else text[:limit])

    def paint(self, text: str, tone: str) -> str:
        return f"\x1b[{COLOURS[tone]}m{text}\x1b[0m" if self.colour else text

    # Talk

    def talk(self, text: str) -> None:
        self.clear_progress()
        self.stderr.write(text, style_func=str, ending="")
        self.stderr.flush()

    def say(self, text: str) -> None:
        self.talk(f"{text}\n")

    def progress(self, text: str) -> None:
        """Overwritten by whatever comes next; seen on a terminal only."""
        now = time.monotonic()
        if is_terminal(self.stderr) and now - self.shown_at >= PROGRESS_SECONDS:
            self.talk(text)
            self.shown_at = now

    def clear_progress(self) -> None:
        if self.shown_at:
            self.shown_at = 0.0
            self.stderr.write("\r\x1b[K", ending="")
            self.stderr.flush()

    def count(self, sizes: Iterable[int], participle: str) -> int:
        """The sum of the sizes, with progress meanwhile."""
        total = 0
        for size in sizes:
            total += size
            self.progress(f"{counted(total)} {participle}")
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
