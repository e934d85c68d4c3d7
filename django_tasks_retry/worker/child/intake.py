"""Intake: how many tasks a child takes on, of which kind, and when it claims them."""

from __future__ import annotations

from collections.abc import Callable, Set
from time import monotonic

from ... import registry
from ...taskqueue import Lease
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller
from ..shared.inflight import Room
from .attempt import Attempt, is_coroutine
from .claimer import Claimer
from .prefetch import Prefetch

CAREFUL_TASKS, CAREFUL_SECONDS = 5, 0.5
LOOP_REST, LONGEST_LOOP_REST = 5.0, 80.0


class CarefulMode:
    """After a crash one task at a time, for a few tasks; but a long one does not keep the other slots empty."""

    def __init__(self, *, wanted: bool) -> None:
        self.tasks_left = CAREFUL_TASKS if wanted else 0
        self.until = monotonic() + CAREFUL_SECONDS

    def __bool__(self) -> bool:
        return self.tasks_left > 0 and monotonic() < self.until

    def note_answered(self) -> None:
        self.tasks_left = max(0, self.tasks_left - 1)


class Intake:
    def __init__(
        self,
        worker_id: str,
        options: WorkerOptions,
        database: DatabaseCaller,
        attempts: Set[Attempt],
        *,
        careful: bool,
    ) -> None:
        self.options, self.database, self.attempts = options, database, attempts
        paths = registry.known_paths()
        coroutines = [path for path in paths if is_coroutine(path)]
        self.functions = Claimer(worker_id, options, database, [path for path in paths if path not in set(coroutines)])
        self.coroutines = Claimer(worker_id, options, database, coroutines)
        self.knows_coroutines = bool(coroutines)
        self.prefetch = Prefetch(options.threads)
        self.careful = CarefulMode(wanted=careful)
        self.tasks_left = options.max_tasks
        self.left_some = False
        self.loop_rests_until = float("-inf")
        self.loop_rest = LOOP_REST

    def claim_now(self) -> None:
        """A wake-up: there may be due tasks."""
        self.functions.hurry()
        self.coroutines.hurry()

    def claim(self, start: Callable[[list[Lease], float], None]) -> None:
        """Claim for every kind that has room, and hand over what was claimed."""
        self.left_some = False
        for claimer, room in ((self.functions, self.function_room), (self.coroutines, self.coroutine_room)):
            claimer.release_unanswered(self.attempts)
            limit = self.limited(room())
            if limit > 0 and claimer.is_due and self.database.is_available and not self.is_spared(claimer):
                asked = monotonic()  # leases run from before the answer arrives
                leases = claimer.claim(limit, self.free_slots(claimer))
                self.left_some |= len(leases) == limit
                if self.tasks_left is not None:
                    self.tasks_left -= len(leases)
                start(leases, asked)

    def is_spared(self, claimer: Claimer) -> bool:
        """Coroutines wait in the same lanes as functions. What is empty for those, or looked at next, is asked once."""
        if claimer is self.functions or self.limited(self.function_room()) < 1:
            return False
        if self.functions.has_seen_nothing(claimer.due_since):
            claimer.rest()
            return True
        return self.functions.lanes.came_short and self.functions.claim_now

    @property
    def is_turned_away(self) -> bool:
        """Whether there may be work that others were claiming from."""
        return self.functions.lanes.is_turned_away or self.coroutines.lanes.is_turned_away

    @property
    def room(self) -> Room:
        functions = Room.FUNCTIONS if self.limited(self.function_room()) > 0 else Room.NONE
        free = not self.knows_coroutines or self.limited(self.coroutine_room()) > 0
        return functions | (Room.COROUTINES if free else Room.NONE)

    def free_slots(self, claimer: Claimer) -> int:
        """How many would start at once."""
        if self.careful:
            return 0 if self.attempts else 1
        if claimer is self.coroutines:
            return self.options.async_slots - self.coroutines_in_flight()
        return max(0, self.options.threads - len(self.attempts) + self.coroutines_in_flight())

    def note_ended(self, attempt: Attempt) -> None:
        if attempt.lease.lane or self.functions.lanes.closed_until or self.coroutines.lanes.closed_until:
            (self.coroutines if attempt.is_async else self.functions).note_ended(attempt.lease)

    def limited(self, room: int) -> int:
        return room if self.tasks_left is None else min(room, self.tasks_left)

    def function_room(self) -> int:
        if self.careful:
            return 0 if self.attempts else 1
        in_flight = len(self.attempts) - self.coroutines_in_flight()
        if self.functions.lanes.wants_slots:
            # Nothing is claimed ahead, or tasks that must start at once would never find a free slot.
            return max(0, self.options.threads - in_flight)
        return self.prefetch.room(in_flight, monotonic())

    def coroutine_room(self) -> int:
        if not self.knows_coroutines or monotonic() < self.loop_rests_until:
            return 0
        if self.careful:
            return 0 if self.attempts else 1
        return self.options.async_slots - self.coroutines_in_flight()

    def coroutines_in_flight(self) -> int:
        if not self.knows_coroutines:
            return 0
        return sum(attempt.is_async for attempt in self.attempts)

    @property
    def next_claim(self) -> float:
        """When to claim next, by the monotonic clock, even if no wake-up comes."""
        moments = [self.careful.until] if self.careful else []
        for claimer, room in ((self.functions, self.function_room), (self.coroutines, self.coroutine_room)):
            if self.limited(room()) > 0:
                moments.append(0.0 if claimer.claim_now else claimer.next_poll)
        return min(moments, default=float("inf"))

    def rest_loop(self) -> None:
        """A blocked event loop gave coroutines back: it claims none for a while, the next time for twice as long."""
        now = monotonic()
        self.loop_rest = min(LONGEST_LOOP_REST, self.loop_rest * 2) if now < self.loop_rests_until + 60 else LOOP_REST
        self.loop_rests_until = now + self.loop_rest
