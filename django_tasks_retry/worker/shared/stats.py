"""Counts how attempts ended, and adds the counts to the statistics every few seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...taskqueue import LaneOutcomes, Stat, add_stats
from ...taskqueue.operator.histogram import EMPTY, bucket_of
from .channel import Channel
from .database import DatabaseCaller, Unavailable
from .messages import Counted, LaneCounted
from .timer import Every

ADD_SECONDS = 10.0
FIELDS = {"done": "completed", "retry": "retried", "lost": "retried", "failed": "failed"}
"""The column of TaskStat for each word of the log. What was released, cancelled or dropped is no attempt's own end."""


@dataclass(slots=True)
class Tally:
    """Attempts of one function in one queue: how many ended with which word, how long they waited and ran."""

    words: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    wait_seconds: float = 0.0
    ran: list[int] = field(default_factory=lambda: list(EMPTY))
    waited: list[int] = field(default_factory=lambda: list(EMPTY))

    def count(self, word: str, ran: float, waited: float) -> None:
        """`ran` is 0 where nobody knows: of a process that died, say."""
        self.words[word] += 1
        self.seconds += ran
        if word not in FIELDS:
            return
        self.wait_seconds += waited
        self.waited[bucket_of(waited)] += 1
        if ran:
            self.ran[bucket_of(ran)] += 1

    def add(self, counted: Counted) -> None:
        self.words.update(counted.words)
        self.seconds += counted.seconds
        self.wait_seconds += counted.wait_seconds
        self.ran = [*map(sum, zip(self.ran, counted.ran, strict=True))]
        self.waited = [*map(sum, zip(self.waited, counted.waited, strict=True))]


class Counts:
    """A tally for each queue and function; and the words of each lane that has a circuit breaker."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self.lanes: dict[str, Counter[str]] = defaultdict(Counter)

    def __bool__(self) -> bool:
        return bool(self.tallies) or bool(self.lanes)

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float, lane: str = "") -> None:
        self.tallies[queue, func_path].count(word, ran, waited)
        if lane:
            self.lanes[lane][word] += 1

    def add(self, counted: Counted | LaneCounted) -> None:
        if isinstance(counted, LaneCounted):
            self.lanes[counted.lane].update(counted.words)
        else:
            self.tallies[counted.queue, counted.func_path].add(counted)

    def take(self) -> list[Counted | LaneCounted]:
        """What was counted since the last time."""
        taken: list[Counted | LaneCounted] = [
            Counted(*key, dict(t.words), t.seconds, t.wait_seconds, tuple(t.ran), tuple(t.waited))
            for key, t in self.tallies.items()
        ]
        taken += [LaneCounted(lane, dict(words)) for lane, words in self.lanes.items()]
        self.tallies.clear()
        self.lanes.clear()
        return taken


class StatsSender:
    """A child's counts, sent to the supervisor after each write: what was sent outlives the child."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.counts = Counts()

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float, lane: str = "") -> None:
        self.counts.count(queue, func_path, word, ran, waited, lane)

    def send(self) -> None:
        for counted in self.counts.take():
            if not self.channel.send(counted):
                self.counts.add(counted)


class StatsWriter:
    """What the supervisor and its children counted, on the way to the database."""

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend, self.database = backend, database
        self.counts = Counts()
        self.tally: Counter[str] = Counter()
        self.adding = Every(ADD_SECONDS, at_once=False)

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float, lane: str = "") -> None:
        counts = Counts()
        counts.count(queue, func_path, word, ran, waited, lane)
        for counted in counts.take():
            self.receive(counted)

    def receive(self, counted: Counted | LaneCounted) -> None:
        if isinstance(counted, Counted):
            self.tally.update(counted.words)
        if any(word in FIELDS for word in counted.words):
            self.counts.add(counted)

    def tick(self) -> None:
        if self.adding.is_due():
            self.add()

    def add(self) -> None:
        """Counts that cannot be added now are kept for the next time."""
        if not self.counts or not self.database.is_available:
            return
        taken = self.counts.take()
        try:
            self.database.call(lambda: add_counted(taken, self.backend))
        except Unavailable:
            for counted in taken:
                self.counts.add(counted)


def add_counted(counted: Sequence[Counted | LaneCounted], backend: str) -> None:
    stats = [stat_of(each) for each in counted if isinstance(each, Counted)]
    lanes = [outcomes_of(each) for each in counted if isinstance(each, LaneCounted)]
    add_stats(stats, lanes, backend=backend)


def columns_of(words: Mapping[str, int]) -> Counter[str]:
    columns: Counter[str] = Counter()
    for word, count in words.items():
        if word in FIELDS:
            columns[FIELDS[word]] += count
    return columns


def outcomes_of(counted: LaneCounted) -> LaneOutcomes:
    columns = columns_of(counted.words)
    return LaneOutcomes(counted.lane, columns["completed"], columns["retried"] + columns["failed"])


def stat_of(counted: Counted) -> Stat:
    return Stat(
        counted.queue,
        counted.func_path,
        **columns_of(counted.words),
        seconds=counted.seconds,
        wait_seconds=counted.wait_seconds,
        ran=counted.ran,
        waited=counted.waited,
    )
