"""Prefetch: how many tasks to claim. As many as there are free slots, and a few ahead only while tasks are short."""

from __future__ import annotations

AHEAD_SECONDS = 0.1
MOST_AHEAD = 800
FIRST_REST, LONGEST_REST = 30.0, 600.0


class Prefetch:
    """Learns how long functions run. Claims ahead at most a tenth of a second's work, so a long task starves nobody.

    What was claimed ahead and had to be given back ends claiming ahead for half a minute, the next time for twice as
    long: no task is claimed and given back in a circle.
    """

    def __init__(self, slots: int, most_ahead: int = MOST_AHEAD) -> None:
        self.slots = slots
        self.most_ahead = most_ahead
        self.run_time: float | None = None
        self.rests_until = float("-inf")
        self.rest = FIRST_REST

    def learn(self, run_time: float) -> None:
        """A long run is believed at once, short ones only slowly."""
        if self.run_time is None or run_time > self.run_time:
            self.run_time = run_time
        else:
            self.run_time += (run_time - self.run_time) / 20

    def note_given_back(self, now: float) -> None:
        if now < self.rests_until:
            return
        self.rest = min(LONGEST_REST, self.rest * 2) if now < self.rests_until + self.rest else FIRST_REST
        self.rests_until = now + self.rest

    def ahead(self, now: float) -> int:
        if self.run_time is None or now < self.rests_until:
            return 0
        return min(self.most_ahead, int(AHEAD_SECONDS / max(self.run_time, 1e-6)))

    def room(self, in_flight: int, now: float) -> int:
        """How many to claim now. Waits until half of what was claimed ahead is gone, so that claims stay large."""
        ahead = self.ahead(now)
        free = self.slots + ahead - in_flight
        return free if in_flight < self.slots or free * 2 >= ahead else 0
