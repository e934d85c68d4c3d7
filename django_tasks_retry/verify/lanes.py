"""Limits of lanes, from events alone: no instant at which more ran, no window in which more started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from .history import Breach, Event, Life

OPEN = float("inf")
ENDS = {"completed", "failed", "released", "lease_lost", "cancelled"}
MOMENT = 1e-6


class Allowed(NamedTuple):
    """So many at once, so many starts in any window of `per` seconds. None: as many as there are."""

    running: int | None
    starts: int | None
    per: float


class Span(NamedTuple):
    """One attempt, from its claim to whatever ended its lease."""

    start: float
    end: float
    task: UUID


Limits: TypeAlias = Callable[[str], Allowed]


@dataclass(slots=True)
class LaneHistory:
    """The attempts of each lane that is limited; a queue and a function as a whole are lanes, too."""

    limits: Limits
    spans: dict[str, list[Span]] = field(default_factory=dict)

    def add(self, lane: str, life: Life) -> None:
        if lane and self.limits(lane)[:2] != (None, None):
            self.spans.setdefault(lane, []).extend(spans_of(life.task, life.events))

    def breaches(self) -> Iterator[Breach]:
        for lane, spans in self.spans.items():
            running, starts, per = self.limits(lane)
            if running is not None:
                yield from crowds(lane, spans, running)
            if starts is not None:
                yield from bursts(lane, spans, starts, per)


def spans_of(task: UUID, events: list[Event]) -> Iterator[Span]:
    claimed = None
    for event in events:
        if claimed is not None and event.kind in (*ENDS, "running"):
            yield Span(claimed, event.at, task)
            claimed = None
        if event.kind == "running":
            claimed = event.at
    if claimed is not None:
        yield Span(claimed, OPEN, task)


def crowds(lane: str, spans: list[Span], most: int) -> Iterator[Breach]:
    """The first attempt that was one too many. A lease ends when its last event says so, and frees its place then."""
    turns = sorted([(span.start, 1, span.task) for span in spans] + [(span.end, 0, span.task) for span in spans])
    running = 0
    for at, starts, task in turns:
        running += 1 if starts else -1
        if running > most:
            yield Breach("limits", task, f"was one of {running} that ran in lane {lane} at {at:.6f}; {most} may")
            return


def bursts(lane: str, spans: list[Span], most: int, per: float) -> Iterator[Breach]:
    """The first start that was one too many in a window that ends with it."""
    starts = sorted((span.start, span.task) for span in spans)
    for n in range(most, len(starts)):
        (first, _), (at, task) = starts[n - most], starts[n]
        if at - first < per - MOMENT:
            text = f"started as one of {most + 1} within {at - first:.6f} s in lane {lane}; {most} may in {per:g} s"
            yield Breach("rates", task, text)
            return
