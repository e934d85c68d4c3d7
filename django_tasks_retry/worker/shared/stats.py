"""Counts how attempts ended, and adds the counts to the statistics every few seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from ...taskqueue import Stat, add_stats
from .channel import Channel
from .database import DatabaseCaller, Unavailable
from .messages import Counted
from .timer import Every

ADD_SECONDS = 10.0
FIELDS = {"done": "completed", "retry": "retried", "lost": "retried", "failed": "failed"}
"""The column of TaskStat for each word of the log. What was released or cancelled is no end of an attempt's own."""


class Counts:
    """Attempts by queue and function: how many ended with which word, and how long they ran."""

    def __init__(self) -> None:
        self.words: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)

    def __bool__(self) -> bool:
        return bool(self.words)

    def count(self, queue: str, func_path: str, words: Mapping[str, int], seconds: float) -> None:
        counted = self.words[queue, func_path]
        for word, count in words.items():
            counted[word] += count
        self.seconds[queue, func_path] += seconds

    def take(self) -> list[Counted]:
        """What was counted since the last time."""
        taken = [Counted(*key, dict(words), self.seconds[key]) for key, words in self.words.items()]
        self.words.clear()
        self.seconds.clear()
        return taken


class StatsSender:
    """A child's counts, sent to the supervisor after each write: what was sent outlives the child."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.counts = Counts()

    def count(self, queue: str, func_path: str, word: str, seconds: float) -> None:
        self.counts.count(queue, func_path, {word: 1}, seconds)

    def send(self) -> None:
        for counted in self.counts.take():
            if not self.channel.send(counted):
                self.counts.count(counted.queue, counted.func_path, counted.words, counted.seconds)


class StatsWriter:
    """What the supervisor and its children counted, on the way to the database."""

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend, self.database = backend, database
        self.counts = Counts()
        self.tally: Counter[str] = Counter()
        self.adding = Every(ADD_SECONDS, at_once=False)

    def count(self, queue: str, func_path: str, word: str, seconds: float) -> None:
        self.receive(Counted(queue, func_path, {word: 1}, seconds))

    def receive(self, counted: Counted) -> None:
        self.tally.update(counted.words)
        if any(word in FIELDS for word in counted.words):
            self.counts.count(counted.queue, counted.func_path, counted.words, counted.seconds)

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
                self.counts.count(counted.queue, counted.func_path, counted.words, counted.seconds)


def stat_of(counted: Counted) -> Stat:
    columns: Counter[str] = Counter()
    for word, count in counted.words.items():
        if word in FIELDS:
            columns[FIELDS[word]] += count
    return Stat(counted.queue, counted.func_path, **columns, seconds=counted.seconds)
