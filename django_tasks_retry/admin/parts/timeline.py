"""A task's past and future: attempts and progress as bars, to scale, and the attempts to come if it keeps failing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...conf import DEFAULTS, configured_backends, options
from ...display import formatting
from ...display.formatting import format_duration, format_elapsed, format_number, format_relative, one_line
from ...models import Step, Task, TaskEvent
from ...rules.backoff import Backoff, Custom, Exponential, FixedDelays, from_json
from ...rules.redact import redact_text
from ...rules.status import Status
from ...rules.transitions import EventKind

WIDTH = 1000.0
MIN_WIDTH = 5.0  # the least width of an attempt, so that short ones can be seen
OUTCOMES: dict[str, tuple[str, str | Promise]] = {
    EventKind.COMPLETED: ("success", gettext_lazy("completed")),
    EventKind.FAILED: ("failed", gettext_lazy("failed")),
    EventKind.RELEASED: ("released", gettext_lazy("released")),
    EventKind.LEASE_LOST: ("lost", gettext_lazy("worker lost")),
    EventKind.CANCELLED: ("cancelled", gettext_lazy("cancelled")),
}
KINDS: dict[str, str | Promise] = {
    "waiting": gettext_lazy("waiting"),
    "running": gettext_lazy("running"),
    **dict(OUTCOMES.values()),
    "step": gettext_lazy("step"),
    "folded": gettext_lazy("several tasks"),
}
MAX_STEPS = 10
MAX_ATTEMPTS = 1000  # the end of the retries is not computed for tasks with more attempts than this


@dataclass(frozen=True, slots=True)
class Span:
    start: datetime
    end: datetime
    kind: str
    label: str

    @property
    def is_attempt(self) -> bool:
        return self.kind != "waiting"

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


@dataclass(slots=True)
class Drawing:
    """The scale of all bars, and the kinds of them that were drawn. Sizes are texts, so that no locale changes them."""

    begin: datetime
    end: datetime
    kinds: set[str] = field(default_factory=set)

    def bars(self, spans: Iterable[Span]) -> list[dict[str, Any]]:
        """Return the spans as bars, cut where the drawing ends: a wait may go on for years."""
        seen = [span for span in spans if span.start <= self.end and span.end >= self.begin]
        cut = [replace(span, start=max(span.start, self.begin), end=min(span.end, self.end)) for span in seen]
        self.kinds |= {span.kind for span in cut}
        return [self.bar(span) for span in cut]

    def bar(self, span: Span) -> dict[str, Any]:
        x, width = self.place(span.start), self.place(span.end) - self.place(span.start)
        if span.is_attempt and width < MIN_WIDTH:
            x, width = min(x, WIDTH - MIN_WIDTH), MIN_WIDTH
        sizes = {"x": f"{x:.2f}", "width": f"{max(width, 0):.2f}"}
        return {**sizes, "kind": span.kind, "label": span.label, "is_attempt": span.is_attempt}

    def mark(self, step: Step) -> dict[str, str]:
        """Mark the instant at which a step was stored."""
        name = one_line(step.name.removesuffix(":until"), 80)
        return {"x": f"{self.place(step.ts):.2f}", "label": _("step %(name)s") % {"name": name}}

    def place(self, moment: datetime) -> float:
        return (moment - self.begin).total_seconds() * WIDTH / max((self.end - self.begin).total_seconds(), 1e-6)

    @property
    def legend(self) -> list[tuple[str, str]]:
        return [(kind, str(label)) for kind, label in KINDS.items() if kind in self.kinds]


def timeline(
    task: Task, events: Sequence[TaskEvent], now: datetime, steps: Sequence[Step] = (), *, is_cut: bool = False
) -> dict[str, Any]:
    begin = events[0].ts if is_cut and events else task.created_at
    spans = list(spans_of(task, events, begin, now))
    end = max([span.end for span in spans], default=begin)
    drawn = Drawing(begin, end)
    return {
        "bars": drawn.bars(spans),
        "marks": [drawn.mark(step) for step in steps if begin <= step.ts <= end],
        "start": begin,
        "end": end,
        "summary": summary([span for span in spans if span.is_attempt], format_elapsed(begin, end)),
        "kinds": drawn.legend,
    }


def summary(attempts: Sequence[Span], total: str) -> str:
    text = ngettext(
        "%(count)s attempt in %(total)s, of which %(running)s running.",
        "%(count)s attempts in %(total)s, of which %(running)s running.",
        len(attempts),
    )
    running = format_duration(sum(span.seconds for span in attempts))
    return text % {"count": len(attempts), "total": total, "running": running}


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
        # A suspended task may be woken at any moment; its eta is only the deadline of the wait.
        yield waiting_span(since, max(since, now, task.eta if task.waits_for is None else now))
    elif task.finished_at and task.finished_at > since:
        yield waiting_span(since, task.finished_at)


def waiting_span(start: datetime, end: datetime) -> Span:
    return Span(start, end, "waiting", _("waited %(time)s") % {"time": format_elapsed(start, end)})


def attempt_span(start: datetime, end: datetime, kind: str, outcome: str | Promise, attempt: int) -> Span:
    values = {"attempt": attempt, "outcome": outcome, "time": format_elapsed(start, end)}
    return Span(start, end, kind, _("attempt %(attempt)s: %(outcome)s after %(time)s") % values)


def read_progress(progress: Any) -> dict[str, str] | None:
    """Return the progress as texts: a bar needs a total. None for a value of another shape, which is shown as JSON."""
    if not isinstance(progress, dict):
        return None
    done: Any = progress.get("done")
    total: Any = progress.get("total")
    if not is_number(done) or not (total is None or is_number(total)):
        return None
    note = one_line(redact_text(str(progress.get("note") or "")), 200)
    if not total or total < 0:
        return {"text": number_text(done), "note": note}
    done = min(max(done, 0), total)
    text = f"{number_text(done)} / {number_text(total)} ({formatting.format_percentage(done, total)})"
    return {"value": f"{done:.6f}", "total": f"{total:.6f}", "text": text, "note": note}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def number_text(value: float) -> str:
    return format_number(int(value)) if value == int(value) else formatting.format_decimal(value)


def backoff_of(task: Task) -> Backoff:
    """Return the task's backoff, or its backend's, or the default if the backend is not in the settings."""
    known = task.backend in configured_backends()
    return from_json(task.backoff) or (options(task.backend) if known else DEFAULTS).backoff


def retry_preview(task: Task, now: datetime) -> dict[str, Any]:
    """Describe the policy and list the attempts to come, each with its delay and due time as ranges."""
    backoff = backoff_of(task)
    budget = ngettext("%s attempt", "%s attempts", task.max_attempts) % task.max_attempts
    preview = {"policy": f"{budget}; {describe_delays(backoff)}"}
    if task.is_finished:
        return preview
    if isinstance(backoff, Custom):
        end = _("The backoff function sets the delay after each failure, until all attempts are used.")
        return {**preview, "end": end}
    # The next attempt of a suspended task begins when it is woken.
    return preview if task.waits_for is not None else {**preview, **next_attempts(task, backoff, now)}


def next_attempts(task: Task, backoff: Exponential | FixedDelays, now: datetime) -> dict[str, Any]:
    earliest = latest = max(task.eta, now)
    steps, attempt = [], task.spent + 1
    if task.status == Status.PENDING:
        due = format_relative(earliest, now) if earliest > now else _("now")
        steps.append({"attempt": attempt, "due": due})
        attempt += 1
    for following in range(attempt, min(task.max_attempts, attempt + MAX_ATTEMPTS) + 1):
        shortest, longest = backoff.delay(following - 1, -1), backoff.delay(following - 1, 1)
        earliest, latest = add_seconds(earliest, shortest), add_seconds(latest, longest)
        due = delay_range((earliest - now).total_seconds(), (latest - now).total_seconds())
        steps.append({"attempt": following, "delay": delay_range(shortest, longest), "due": due})
    not_shown = max(0, task.max_attempts - task.spent - MAX_STEPS)
    text = _("If every attempt fails immediately, the last one fails %(ago)s at the latest.")
    end = text % {"ago": format_relative(latest, now)} if not_shown < MAX_ATTEMPTS else ""
    return {"steps": steps[:MAX_STEPS], "not_shown": not_shown, "end": end}


def add_seconds(moment: datetime, seconds: float) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return moment


def delay_range(shortest: float, longest: float) -> str:
    if abs(longest - shortest) < 0.05:
        return format_duration(longest)
    values = {"shortest": format_duration(shortest), "longest": format_duration(longest)}
    return _("%(shortest)s to %(longest)s") % values


def describe_delays(backoff: Backoff) -> str:
    match backoff:
        case Exponential(base, factor, cap, jitter):
            text = _(
                "%(base)s after the first failure, then multiplied by %(factor)s, at most %(cap)s, ± %(jitter)s %%"
            )
            numbers = {"factor": f"{factor:g}", "jitter": f"{jitter * 100:g}"}
            return text % {"base": format_duration(base), "cap": format_duration(cap), **numbers}
        case FixedDelays(delays):
            listed = ", ".join(format_duration(delay) for delay in delays[:MAX_STEPS])
            more = "…" if len(delays) > MAX_STEPS else ""
            return _("delays after failures: %(delays)s") % {"delays": listed + more}
        case Custom(path):
            return _("delays set by %(path)s") % {"path": one_line(path)}
