"""How many tasks to claim: as many as there are free slots, and a little ahead only while tasks are short."""

from __future__ import annotations

AHEAD_SECONDS = 0.1
MOST_AHEAD = 400


class Appetite:
    """Learns how long functions run. Claims ahead at most a tenth of a second's work, so a long task starves nobody."""

    def __init__(self, slots: int, most_ahead: int = MOST_AHEAD) -> None:
        self.slots = slots
        self.most_ahead = most_ahead
        self.run_time: float | None = None

    def learn(self, run_time: float) -> None:
        """A long run is believed at once, short ones only slowly."""
        if self.run_time is None or run_time > self.run_time:
            self.run_time = run_time
        else:
            self.run_time += (run_time - self.run_time) / 20

    @property
    def ahead(self) -> int:
        if self.run_time is None:
            return 0
        return min(self.most_ahead, int(AHEAD_SECONDS / max(self.run_time, 1e-6)))

    def room(self, in_flight: int) -> int:
        """How many to claim now. Waits until half of what was claimed ahead is gone, so that claims stay large."""
        free = self.slots + self.ahead - in_flight
        return free if in_flight < self.slots or free * 2 >= self.ahead else 0
