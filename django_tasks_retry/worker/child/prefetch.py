"""How many tasks a child may claim: by free slots, ahead while tasks are short, one at a time after a crash."""

from collections.abc import Callable, Set
from time import monotonic

from ..options import WorkerOptions
from .attempt import Attempt

AHEAD_SECONDS = 0.1
WINDOW_SECONDS = 0.25
MOST_AHEAD = 800
FIRST_REST, LONGEST_REST = 30.0, 600.0
CAREFUL_TASKS, CAREFUL_SECONDS = 5, 0.5
LOOP_REST, LONGEST_LOOP_REST = 5.0, 80.0


class ClaimBudget:
    """Functions may be claimed ahead while they are short; coroutines fill the slots of the event loop.

    After a crash one task at a time, for a few tasks; but a long one does not keep the other slots empty.
    """

    def __init__(
        self,
        options: WorkerOptions,
        attempts: Set[Attempt],
        *,
        careful: bool = False,
        knows_coroutines: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.options, self.attempts, self.clock = options, attempts, clock
        self.knows_coroutines = knows_coroutines
        self.tasks_left = options.max_tasks
        self.prefetch = Prefetch(options.threads)
        self.careful_tasks = CAREFUL_TASKS if careful else 0
        self.careful_until = clock() + CAREFUL_SECONDS
        self.loop_rests_until, self.loop_rest = float("-inf"), LOOP_REST

    def limit(self, *, coroutines: bool, ahead: float = 1.0) -> int:
        """Return how many may be claimed; `ahead` is the share of what may be claimed ahead."""
        if coroutines and (not self.knows_coroutines or self.clock() < self.loop_rests_until):
            room = 0
        elif coroutines or self.is_careful:
            room = self.free_slots(coroutines=coroutines)
        else:
            room = self.prefetch.room(self.in_flight(coroutines=False), self.clock(), ahead)
        return room if self.tasks_left is None else min(room, self.tasks_left)

    def free_slots(self, *, coroutines: bool) -> int:
        """Return how many would start at once."""
        if self.is_careful:
            return 0 if self.attempts else 1
        slots = self.options.async_slots if coroutines else self.options.threads
        return max(0, slots - self.in_flight(coroutines=coroutines))

    def in_flight(self, *, coroutines: bool) -> int:
        of_loop = sum(attempt.is_async for attempt in self.attempts) if self.knows_coroutines else 0
        return of_loop if coroutines else len(self.attempts) - of_loop

    @property
    def is_careful(self) -> bool:
        return self.careful_tasks > 0 and self.clock() < self.careful_until

    def note_claimed(self, count: int) -> None:
        if self.tasks_left is not None:
            self.tasks_left -= count

    def note_answered(self) -> None:
        self.careful_tasks = max(0, self.careful_tasks - 1)

    def rest_loop(self) -> None:
        """Claim no coroutines for a while, as a blocked event loop gave some back; the next time for twice as long."""
        now = self.clock()
        self.loop_rest = min(LONGEST_LOOP_REST, self.loop_rest * 2) if now < self.loop_rests_until + 60 else LOOP_REST
        self.loop_rests_until = now + self.loop_rest


class Prefetch:
    """Learns how long functions run. Claims ahead at most a tenth of a second's work, so a long task starves nobody.

    If prefetched tasks must be released, prefetching stops for 30 s, then twice as long each time.
    """

    def __init__(self, slots: int, most_ahead: int = MOST_AHEAD) -> None:
        self.slots = slots
        self.most_ahead = most_ahead
        self.run_time: float | None = None
        self.parallel = 1.0
        """Seconds of functions that the child runs in a second. Slots alone do not tell: functions that compute share
        the interpreter, so that 16 threads run them no faster than one."""
        self.ran, self.window_began, self.ran_dry = 0.0, float("-inf"), False
        self.rests_until = float("-inf")
        self.rest = FIRST_REST

    def learn(self, run_time: float, now: float) -> None:
        """Believe a long run at once, short ones only slowly, and what runs side by side a quarter second later."""
        if self.run_time is None or run_time > self.run_time:
            self.run_time = run_time
        else:
            self.run_time += (run_time - self.run_time) / 20
        self.ran += run_time
        window = now - self.window_began
        if window >= WINDOW_SECONDS:
            measured = max(self.ran / window, self.parallel if self.ran_dry else 1.0)
            self.parallel = min(float(self.slots), measured)
            self.ran, self.window_began, self.ran_dry = 0.0, now, False

    def note_dry(self) -> None:
        """Claim twice as far ahead: slots stood idle, so what ran side by side tells too little."""
        self.parallel, self.ran_dry = min(float(self.slots), self.parallel * 2), True

    def note_given_back(self, now: float) -> None:
        if now < self.rests_until:
            return
        self.rest = min(LONGEST_REST, self.rest * 2) if now < self.rests_until + self.rest else FIRST_REST
        self.rests_until = now + self.rest

    def ahead(self, now: float) -> int:
        if self.run_time is None or self.run_time > AHEAD_SECONDS or now < self.rests_until:
            return 0
        return min(self.most_ahead, int(self.parallel * AHEAD_SECONDS / max(self.run_time, 1e-6)))

    def lasts(self, waiting: int) -> float:
        """Return the seconds until the last of so many starts, if they are like those before."""
        return waiting * (self.run_time or 0.0) / self.parallel

    def room(self, in_flight: int, now: float, share: float = 1.0) -> int:
        """Return how many to claim now; 0 until half of what was claimed ahead is gone, so that claims stay large."""
        ahead = int(self.ahead(now) * share)
        free = self.slots + ahead - in_flight
        return free if in_flight < self.slots or free * 2 >= ahead else 0
