"""A traceback for reading: the project's own frames first, the full text folded behind them."""

from __future__ import annotations

from dataclasses import dataclass

from ..rules.frames import frames_of
from .formatting import one_line, printable
from .redact import redact_text

MAX_FRAMES = 20


@dataclass(frozen=True, slots=True)
class FormattedFrame:
    location: str
    source: str


@dataclass(frozen=True, slots=True)
class FormattedTraceback:
    """`project_frames` begins with the innermost one: that is where to look."""

    project_frames: list[FormattedFrame]
    full_text: str


def format_traceback(traceback: str) -> FormattedTraceback | None:
    if not traceback.strip():
        return None
    project = [frame for frame in frames_of(traceback) if frame.is_project]
    shown = [
        FormattedFrame(
            one_line(f"{frame.file}:{frame.line} {frame.function}", 300), one_line(redact_text(frame.source), 200)
        )
        for frame in reversed(project[-MAX_FRAMES:])
    ]
    return FormattedTraceback(shown, printable(redact_text(traceback)))
