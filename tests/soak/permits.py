"""The checker of lanes (I15): limits, rates and order, proved from the events alone; and nobody waits for a crowd."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from django_tasks_retry.verify.history import OPEN, Event
from django_tasks_retry.verify.lanes import Allowed, Span, Track, spans_of

RUNNING, WHOLE, STARTS, PER = 2, 3, 10, 1.0
SETTINGS = {"queue:narrow": {"concurrency": WHOLE}, "function:tests.soak.lanes.metered": {"rate": (STARTS, PER)}}
ALLOWED = {
    "limited": Allowed(RUNNING, None, PER),
    "rated": Allowed(None, STARTS, PER),
    "ordered": Allowed(1, None, PER),
    "narrow": Allowed(WHOLE, None, PER),
    "metered": Allowed(None, STARTS, PER),
}
"""By the beginning of a place's name. A place is a lane, or a queue or function that is limited as a whole."""
CROWD, BACKLOG = "fair-crowd", 300
MOST_OVERTAKEN = 200
"""Of the crowd that may be claimed while a task of another lane waits, with a larger backlog before it. Nine children
claim ahead, each from the lanes that it saw a quarter of a second ago or, on a busy machine, earlier."""
ENOUGH = 300  # attempts, to expect that each limit was reached


@dataclass(frozen=True, slots=True)
class Member:
    place: str
    enqueued: float
    events: Sequence[Event]

    @property
    def claims(self) -> list[float]:
        return [event.at for event in self.events if event.kind == "running"]


Members: TypeAlias = Mapping[UUID, Member]
Places: TypeAlias = Mapping[str, list[Span]]


def kind_of(place: str) -> str:
    return place.partition("-")[0]


def places_of(members: Members) -> Places:
    """The attempts in each place that is limited."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for task, member in members.items():
        if kind_of(member.place) in ALLOWED:
            found[member.place] += spans_of(task, member.events, OPEN)
    return found


def complaints(members: Members) -> list[str]:
    places = places_of(members)
    return [*too_many(places), *out_of_order(members), *overtaken_too_often(members), *never_reached(places)]


def too_many(places: Places) -> Iterator[str]:
    for place, spans in places.items():
        allowed = ALLOWED[kind_of(place)]
        track = Track("limits", f"lane {place}", allowed.running, allowed.starts, allowed.per)
        for span in spans:
            track.add(span, settled=0.0)
        first = {breach.rule: breach for breach in reversed(list(track.settle(OPEN)))}
        yield from (f"I15 {breach.task} {breach.text}" for breach in first.values())


def out_of_order(members: Members) -> Iterator[str]:
    """In strict order the whole life of a task, from its first claim to its end, lies apart from every other's."""
    lives: defaultdict[str, list[tuple[float, float, UUID]]] = defaultdict(list)
    for task, member in members.items():
        if kind_of(member.place) == "ordered" and member.claims:
            lives[member.place].append((member.claims[0], member.events[-1].at, task))
    for place, found in lives.items():
        last = float("-inf")
        for began, ended, task in sorted(found):
            if began < last:
                yield f"I15 {task} began in {place} before the one that was begun there had ended"
            last = max(last, ended)


def overtaken(members: Members) -> list[tuple[int, UUID]]:
    """How many of the crowd were claimed while each lone task waited for its first claim; the worst last."""
    crowd = sorted(at for member in members.values() if member.place == CROWD for at in member.claims)
    return sorted(
        (sum(member.enqueued < at < member.claims[0] for at in crowd), task)
        for task, member in members.items()
        if kind_of(member.place) == "fair" and member.place != CROWD and member.claims
    )


def overtaken_too_often(members: Members) -> Iterator[str]:
    for count, task in overtaken(members):
        if count > MOST_OVERTAKEN:
            yield f"I15 {task} of {members[task].place} waited while {count} of the crowd were claimed"


def never_reached(places: Places) -> Iterator[str]:
    """A limit that nothing ever came up to has not been tried."""
    peaks, attempts = peaks_of(places), attempts_of(places)
    for kind, allowed in ALLOWED.items():
        wanted = allowed.running or allowed.starts or 0
        if attempts[kind] >= ENOUGH and peaks[kind] < wanted:
            yield f"I15 no place of the kind {kind!r} was ever full: {peaks[kind]} of {wanted}"


def attempts_of(places: Places) -> Counter[str]:
    return Counter(kind_of(place) for place, spans in places.items() for _ in spans)


def peaks_of(places: Places) -> Counter[str]:
    """The most at once, or the most in one window, of each kind."""
    peaks: Counter[str] = Counter()
    for place, spans in places.items():
        kind = kind_of(place)
        most = most_started(spans) if ALLOWED[kind].running is None else most_at_once(spans)
        peaks[kind] = max(peaks[kind], most)
    return peaks


def most_at_once(spans: Sequence[Span]) -> int:
    turns = sorted([(span.start, 1) for span in spans] + [(span.end, -1) for span in spans if span.end < OPEN])
    running = most = 0
    for _, step in turns:
        running += step
        most = max(most, running)
    return most


def most_started(spans: Sequence[Span]) -> int:
    starts, first, most = sorted(span.start for span in spans), 0, 0
    for last, at in enumerate(starts):
        while starts[first] <= at - PER:
            first += 1
        most = max(most, last - first + 1)
    return most


def told(members: Members) -> Iterator[str]:
    """For the report: how near to each limit it came, and how long lone tasks waited."""
    places = places_of(members)
    peaks, attempts = peaks_of(places), attempts_of(places)
    parts = [f"{kind} {peaks[kind]} of {most(one)} ({attempts[kind]:,} attempts)" for kind, one in ALLOWED.items()]
    yield f"lanes, at most, by the events alone: {', '.join(parts)}"
    waits = [count for count, _ in overtaken(members)]
    if waits:
        late = f"{waits[len(waits) // 2]} (p50), {waits[len(waits) * 99 // 100]} (p99), {waits[-1]} (at most)"
        yield f"{len(waits):,} lone tasks beside a crowd of {BACKLOG} and more: overtaken by {late}"


def most(allowed: Allowed) -> str:
    return f"{allowed.starts} in {PER:g} s" if allowed.running is None else f"{allowed.running} at once"
