"""A task's timeline as bars, to scale: how long it waited and ran, and how each attempt ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...display.formatting import format_duration, format_elapsed, one_line
from ...models import Step, Task, TaskEvent
from ...rules.status import Status
from ...rules.transitions import EventKind

WIDTH = 1000.0
MIN_WIDTH = 5.0
"""The least width of an attempt, so that short ones can be seen."""

OUTCOMES: dict[str, tuple[str, str | Promise]] = {
    EventKind.COMPLETED: ("success", gettext_lazy("completed")),
    EventKind.FAILED: ("failed", gettext_lazy("failed")),
    EventKind.RELEASED: ("released", gettext_lazy("released")),
    EventKind.LEASE_LOST: ("lost", gettext_lazy("worker lost")),
    EventKind.CANCELLED: ("cancelled", gettext_lazy("cancelled")),
}


@dataclass(frozen=True, slots=True)
class Span:
    start: datetime
    end: datetime
    kind: str
    label: str

    @property
    def is_attempt(self) -> bool:
        return self.kind != "waiting"


@dataclass(frozen=True, slots=True)
class Bar:
    """A span in the units of the drawing, as texts that no locale changes."""

    x: str
    width: str
    kind: str
    label: str
    is_attempt: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A step, where it was remembered."""

    x: str
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    bars: list[Bar]
    marks: list[Mark]
    start: datetime
    end: datetime
    summary: str
    kinds: list[tuple[str, str]]


def timeline(
    task: Task, events: Sequence[TaskEvent], now: datetime, steps: Sequence[Step] = (), *, is_cut: bool = False
) -> Timeline:
    begin = events[0].ts if is_cut and events else task.created_at
    spans = list(spans_of(task, events, begin, now))
    end = max([span.end for span in spans], default=begin)
    total = max((end - begin).total_seconds(), 1e-6)
    present = {span.kind for span in spans}
    return Timeline(
        [bar(span, begin, total) for span in spans],
        [mark(step, begin, total) for step in steps if begin <= step.ts <= end],
        begin,
        end,
        summary([span for span in spans if span.is_attempt], format_elapsed(begin, end)),
        [(kind, str(label)) for kind, label in KINDS.items() if kind in present],
    )


def summary(attempts: Sequence[Span], total: str) -> str:
    running = sum((span.end - span.start).total_seconds() for span in attempts)
    text = ngettext(
        "%(count)s attempt in %(total)s, of which %(running)s running.",
        "%(count)s attempts in %(total)s, of which %(running)s running.",
        len(attempts),
    )
    return text % {"count": len(attempts), "total": total, "running": format_duration(running)}


KINDS: dict[str, str | Promise] = {
    "waiting": gettext_lazy("waiting"),
    "running": gettext_lazy("running"),
    **dict(OUTCOMES.values()),
}


def spans_of(task: Task, events: Sequence[TaskEvent], begin: datetime, now: datetime) -> Iterator[Span]:
    since, running = begin, False
    for event in events:
        if event.kind == EventKind.RUNNING:
            yield waiting_span(since, event.ts)
            since, running = event.ts, True
        elif event.kind in OUTCOMES and running:
            yield attempt_span(since, event.ts, *OUTCOMES[event.kind], event.attempt)
            since, running = event.ts, False
    if running:
        yield attempt_span(since, max(since, now), "running", KINDS["running"], task.attempts)
    elif task.status == Status.PENDING:
        # What it waits for may come at any moment; the eta is only when it gives up.
        yield waiting_span(since, max(since, now, task.eta if task.waits_for is None else now))
    elif task.finished_at and task.finished_at > since:
        yield waiting_span(since, task.finished_at)


def waiting_span(start: datetime, end: datetime) -> Span:
    return Span(start, end, "waiting", _("waited %(time)s") % {"time": format_elapsed(start, end)})


def attempt_span(start: datetime, end: datetime, kind: str, outcome: str | Promise, attempt: int) -> Span:
    values = {"attempt": attempt, "outcome": outcome, "time": format_elapsed(start, end)}
    return Span(start, end, kind, _("attempt %(attempt)s: %(outcome)s after %(time)s") % values)


def mark(step: Step, begin: datetime, total: float) -> Mark:
    x = (step.ts - begin).total_seconds() / total * WIDTH
    return Mark(f"{x:.2f}", _("step %(name)s") % {"name": one_line(step.name, 80)})


def bar(span: Span, begin: datetime, total: float) -> Bar:
    x = (span.start - begin).total_seconds() / total * WIDTH
    width = (span.end - span.start).total_seconds() / total * WIDTH
    if span.is_attempt and width < MIN_WIDTH:
        x, width = min(x, WIDTH - MIN_WIDTH), MIN_WIDTH
    return Bar(f"{x:.2f}", f"{max(width, 0):.2f}", span.kind, span.label, span.is_attempt)
