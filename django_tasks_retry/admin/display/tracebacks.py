"""A traceback for reading: the project's own frames first, all of it folded behind them."""

from __future__ import annotations

from dataclasses import dataclass

from ...rules.frames import frames_of
from .formatting import line, visible
from .redact import scrubbed

FRAMES = 20


@dataclass(frozen=True, slots=True)
class Place:
    where: str
    source: str


@dataclass(frozen=True, slots=True)
class Trace:
    """`project` holds the innermost frame first: that is where to look."""

    project: list[Place]
    whole: str


def trace_of(traceback: str) -> Trace | None:
    if not traceback.strip():
        return None
    ours = [frame for frame in frames_of(traceback) if frame.is_project]
    shown = [
        Place(line(f"{frame.file}:{frame.line} {frame.function}", 300), scrubbed(line(frame.source, 200)))
        for frame in reversed(ours[-FRAMES:])
    ]
    return Trace(shown, scrubbed(visible(traceback)))
