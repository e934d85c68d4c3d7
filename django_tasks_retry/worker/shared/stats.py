"""Counts how attempts ended, and adds the counts to the statistics every few seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ...taskqueue import Stat, add_stats
from ...taskqueue.operator.histogram import EMPTY, bucket_of
from .channel import Channel
from .database import DatabaseCaller, Unavailable
from .messages import Counted
from .timer import Every

ADD_SECONDS = 10.0
FIELDS = {"done": "completed", "retry": "retried", "lost": "retried", "failed": "failed"}
"""The column of TaskStat for each word of the log. What was released or cancelled is no end of an attempt's own."""


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
    """A tally for each queue and function."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)

    def __bool__(self) -> bool:
        return bool(self.tallies)

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float) -> None:
        self.tallies[queue, func_path].count(word, ran, waited)

    def add(self, counted: Counted) -> None:
        self.tallies[counted.queue, counted.func_path].add(counted)

    def take(self) -> list[Counted]:
        """What was counted since the last time."""
        taken = [
            Counted(*key, dict(t.words), t.seconds, t.wait_seconds, tuple(t.ran), tuple(t.waited))
            for key, t in self.tallies.items()
        ]
        self.tallies.clear()
        return taken


class StatsSender:
    """A child's counts, sent to the supervisor after each write: what was sent outlives the child."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.counts = Counts()

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float) -> None:
        self.counts.count(queue, func_path, word, ran, waited)

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

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float) -> None:
        counts = Counts()
        counts.count(queue, func_path, word, ran, waited)
        for counted in counts.take():
            self.receive(counted)

    def receive(self, counted: Counted) -> None:
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
            self.database.call(lambda: add_stats([stat_of(counted) for counted in taken], backend=self.backend))
        except Unavailable:
            for counted in taken:
                self.counts.add(counted)


def stat_of(counted: Counted) -> Stat:
    columns: Counter[str] = Counter()
    for word, count in counted.words.items():
        if word in FIELDS:
            columns[FIELDS[word]] += count
    return Stat(
        counted.queue,
        counted.func_path,
        **columns,
        seconds=counted.seconds,
        wait_seconds=counted.wait_seconds,
        ran=counted.ran,
        waited=counted.waited,
    )
