"""A task's progress as a bar: how far it says that it has come."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from ...display.formatting import format_decimal, format_number, format_percentage, one_line
from ...display.redact import redact_text


@dataclass(frozen=True, slots=True)
class Progress:
    """`value` of `total`, as texts that no locale changes; without a total nobody knows how far that is."""

    value: str
    total: str
    text: str
    note: str


def read_progress(progress: Any) -> Progress | None:
    """None for what is no progress as tasks report it; then it is shown as it is."""
    if not isinstance(progress, dict):
        return None
    done: Any = progress.get("done")
    total: Any = progress.get("total")
    if not is_number(done) or not (total is None or is_number(total)):
        return None
    note = one_line(redact_text(str(progress.get("note") or "")), 200)
    if not total or total < 0:
        return Progress("", "", said(done), note)
    done = min(max(done, 0), total)
    text = f"{said(done)} / {said(total)} ({format_percentage(done, total)})"
    return Progress(f"{done:.6f}", f"{total:.6f}", text, note)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def said(value: float) -> str:
    return format_number(int(value)) if value == int(value) else format_decimal(value)
