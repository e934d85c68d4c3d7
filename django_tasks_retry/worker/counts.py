"""Counts attempts in memory, and adds them to the statistics every few seconds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..taskqueue import Stat, add_stats
from .attempt import Attempt
from .timer import Every
from .weather import Trouble, Weather

ADD_SECONDS = 10.0
FIELDS = {"done": "completed", "retry": "retried", "failed": "failed"}


class Counts:
    def __init__(self, backend: str, weather: Weather) -> None:
        self.backend, self.weather = backend, weather
        self.counted: dict[tuple[str, str], dict[str, Any]] = defaultdict(lambda: defaultdict(int))
        self.adding = Every(ADD_SECONDS, at_once=False)

    def count(self, attempt: Attempt, word: str) -> None:
        if word in FIELDS:
            numbers = self.counted[attempt.lease.queue, attempt.lease.func_path]
            numbers[FIELDS[word]] += 1
            numbers["seconds"] += attempt.run_time

    def turn(self) -> None:
        if self.adding.is_due():
            self.add()

    def add(self) -> None:
        """Counts that cannot be added now are kept for the next time; at worst a chart misses a few seconds."""
        if not self.counted or not self.weather.is_fine:
            return
        stats = [Stat(queue, path, **numbers) for (queue, path), numbers in self.counted.items()]
        try:
            self.weather.ask(lambda: add_stats(stats, backend=self.backend))
        except Trouble:
            return
        self.counted.clear()
