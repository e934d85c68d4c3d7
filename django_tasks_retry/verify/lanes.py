"""Limits, strict order and unique keys, from events alone: tasks that ran at once although they may not.

Tasks are read in the order of their ids. No task starts before it was enqueued, so starts that lie well before the ids
of the last page are complete: they are judged and forgotten. Memory holds what is open, not the whole history.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from .history import OPEN, Breach, Event, TaskHistory

ENDS = {"completed", "failed", "released", "lease_lost", "cancelled"}
MOMENT = 1e-6
SKEW_SECONDS = 600.0  # seconds by which the clock of a producer, which ids are made by, may be ahead of the queue's


class Allowed(NamedTuple):
    """Limits of tasks at once, and of starts in any `per` seconds; None for no limit. `strict` for strict order."""

    running: int | None
    starts: int | None
    per: float
    strict: bool = False


class Span(NamedTuple):
    """A time in which a task held its place: one attempt, or all from its first attempt to its end."""

    start: float
    end: float
    task: UUID
    workflow: UUID | None = None
    """The run of a member of a batch. In a lane of strict order it goes before the task that waits for it."""
    run: UUID | None = None

    def goes_before(self, other: Span) -> bool:
        return self.workflow is not None and self.workflow == other.run


Limits: TypeAlias = Callable[[str], Allowed]


@dataclass(slots=True)
class Track:
    """Spans that share a limit of `most` at once, or of `starts` in a window."""

    rule: str
    name: str
    most: int | None = None
    starts: int | None = None
    per: float = 0.0
    ahead: list[Span] = field(default_factory=list)
    open: list[tuple[float, Span]] = field(default_factory=list)
    recent: deque[float] = field(default_factory=deque)

    def add(self, span: Span, settled: float) -> None:
        if span.start >= settled:
            heapq.heappush(self.ahead, span)

    def settle(self, until: float) -> Iterator[Breach]:
        """Judge the spans that start before this time."""
        while self.ahead and self.ahead[0].start < until:
            span = heapq.heappop(self.ahead)
            yield from self.over_limit(span)
            yield from self.burst(span)
        while self.open and self.open[0][0] < until:
            heapq.heappop(self.open)

    def over_limit(self, span: Span) -> Iterator[Breach]:
        """A lease ends when its last event says so, and frees its place then."""
        if self.most is None:
            return
        while self.open and self.open[0][0] <= span.start:
            heapq.heappop(self.open)
        heapq.heappush(self.open, (span.end, span))
        if len(self.open) > self.most:
            running = sum(not span.goes_before(other) for _, other in self.open)
            if running > self.most:
                text = f"was one of {running} that ran in {self.name} at {span.start:.6f}; {self.most} may"
                yield Breach(self.rule, span.task, text)

    def burst(self, span: Span) -> Iterator[Breach]:
        """The window ends with this start."""
        if self.starts is None:
            return
        self.recent.append(span.start)
        if len(self.recent) > self.starts:
            took = span.start - self.recent.popleft()
            if took < self.per - MOMENT:
                text = f"started as one of {self.starts + 1} within {took:.6f} s in {self.name}"
                yield Breach("rates", span.task, f"{text}; {self.starts} may in {self.per:g} s")

    def is_idle(self, until: float) -> bool:
        return not self.ahead and not self.open and (not self.recent or self.recent[-1] < until - self.per)


@dataclass(slots=True)
class LaneHistory:
    """The tracks of limited lanes and of unique keys; a queue and a function as a whole are lanes, too."""

    limits: Limits
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    settled: float = 0.0
    reported: set[tuple[str, str]] = field(default_factory=set)

    def add(self, life: TaskHistory) -> None:
        row, attempts = life.row, list(spans_of(life.task, life.events, life.read_at))
        for label in row.limited_as if attempts else ():
            allowed = self.limits(label)
            if (allowed.running, allowed.starts) != (None, None):
                self.put(Track("limits", f"lane {label}", allowed.running, allowed.starts, allowed.per), attempts)
            if allowed.strict:
                self.put(Track("order", f"lane {label} of strict order", 1), life_span(life, life.events))
        if row.unique_key is not None:
            name = f"queue {row.queue} under the key {row.unique_key!r}"
            self.put(Track("unique", name, 1), life_span(life, since_moved(life.events)))

    def put(self, track: Track, spans: list[Span]) -> None:
        track = self.tracks.setdefault((track.rule, track.name), track)
        for span in spans:
            track.add(span, self.settled)

    def settle(self, read_until: float = OPEN) -> Iterator[Breach]:
        """Yield what the tasks up to this time have broken, once for each rule and lane."""
        if read_until < self.settled + 2 * SKEW_SECONDS:
            return
        self.settled = read_until - SKEW_SECONDS
        for key, track in list(self.tracks.items()):
            for breach in track.settle(self.settled):
                if (breach.rule, track.name) not in self.reported:
                    self.reported.add((breach.rule, track.name))
                    yield breach
            if track.is_idle(self.settled):
                del self.tracks[key]


def spans_of(task: UUID, events: Sequence[Event], until: float) -> Iterator[Span]:
    """Yield the attempts. One that has not ended lasts until this time."""
    claimed = None
    for event in events:
        if claimed is not None and event.kind in (*ENDS, "running"):
            yield Span(claimed, event.at, task)
            claimed = None
        if event.kind == "running":
            claimed = event.at
    if claimed is not None:
        yield Span(claimed, until, task)


def life_span(life: TaskHistory, events: list[Event]) -> list[Span]:
    """Return the span from the first attempt among these events to the end of the task."""
    start = next((event.at for event in events if event.kind == "running"), None)
    if start is None:
        return []
    end = life.read_at if life.ended_at is None else life.ended_at
    return [Span(start, end, life.task, life.row.run if life.row.batch else None, life.row.run)]


def since_moved(events: list[Event]) -> list[Event]:
    """The events since somebody moved the task: it may have been in another queue before."""
    return events[max((n for n, event in enumerate(events) if event.kind == "rescheduled"), default=0) :]
