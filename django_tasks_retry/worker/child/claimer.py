"""Claimers of a child, one for each kind of slot: when and how many they claim, and what becomes of a lost answer."""

import random
from collections.abc import Callable, Iterable, Sequence, Set
from time import monotonic

from django.db import transaction

from ... import registry
from ...taskqueue import ClaimMemory, Lease, Receipt, Released, claim, claim_task, finish, is_work_left, leases_of
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import Room
from .attempt import Attempt
from .prefetch import ClaimBudget

OWN_POLLS = 60  # a child polls by itself this many times less often than its supervisor
SHORTEST_WAIT = 0.02
OPEN_SPREAD = 0.02


class Claimer:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller, paths: Sequence[str]) -> None:
        self.worker_id, self.options, self.database = worker_id, options, database
        self.paths, self.memory = paths, ClaimMemory(options.queues, options.exclude, paths)
        self.claim_now, self.wanted_since = True, monotonic()
        self.answer_lost = self.came_full = False
        self.next_poll = 0.0

    @property
    def is_due(self) -> bool:
        return self.claim_now or monotonic() >= self.next_poll

    @property
    def due_since(self) -> float:
        return self.wanted_since if self.claim_now else self.next_poll

    def claim(self, limit: int, at_once: int) -> list[Lease]:
        """Claim up to `limit` leases; of limited lanes, `at_once` at most. Claim again at once if there may be more."""
        try:
            leases = self.database.call(lambda: self.ask(limit, at_once))
        except Unavailable:
            self.answer_lost = True
            return []
        return self.note_claimed(leases, limit)

    def note_claimed(self, leases: list[Lease], limit: int) -> list[Lease]:
        self.wait()
        self.came_full = len(leases) == limit
        if self.came_full or self.memory.cursor.came_short:
            self.wake()
        return leases

    def wake(self) -> None:
        """Claim soon: there may be more."""
        self.claim_now, self.wanted_since = True, monotonic()

    def wait(self) -> None:
        """Claim later: there is nothing more, as far as is known."""
        self.claim_now = False
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
        now = monotonic()
        # What was full, or had started too often, is asked for again when it may have room; not before, and hardly
        # later: with waits that were up to 40 % longer, a rate of 10/s let 8 start.
        opens_in = max(SHORTEST_WAIT, (self.memory.closed.opens_at - now) * (1 + OPEN_SPREAD * random.random()))  # noqa: S311
        # The supervisor polls for all its children. This is for a wake-up that was lost on its way from there; but of
        # lanes with a key each claimer sees a part, and goes round by itself.
        poll = self.options.poll * (1 if self.memory.cursor.has_lanes else OWN_POLLS)
        self.next_poll = now + min(poll * spread, opens_in)

    def has_seen_nothing(self, since: float) -> bool:
        """Return whether a claim since then found no due task at all."""
        return self.memory.cursor.found_none_at > since and not self.memory.cursor.has_lanes

    def note_ended(self, lease: Lease) -> None:
        """Claim again at once if the lane of the task was full: a permit is free."""
        if self.reopen(lease):
            self.wake()

    def reopen(self, lease: Lease) -> bool:
        return self.memory.closed.reopen(*labels_of(lease))

    def opens(self, lease: Lease) -> bool:
        """Return whether the end of this task opens what was full."""
        closed = self.memory.closed.until
        return bool(closed) and any(label in closed for label in labels_of(lease))

    def ask(self, limit: int, at_once: int, *, searches: bool = True) -> list[Lease]:
        only, backend, memory = self.options.only, self.options.backend, self.memory
        if only is None:
            return claim(
                self.worker_id, limit=limit, backend=backend, memory=memory, at_once=at_once, searches=searches
            )
        known = only.func_path in (self.memory.paths or ())
        lease = claim_task(only, self.worker_id, backend=backend) if known else None
        return [lease] if lease else []

    def release_unanswered(self, attempts: Iterable[Attempt]) -> None:
        """Release leases of a claim whose answer was lost, their attempts refunded."""
        if not self.answer_lost or not self.database.is_available:
            return
        known = {attempt.lease.id for attempt in attempts}
        try:
            leases = self.database.call(lambda: leases_of(self.worker_id, self.options.backend))
            unknown = [Released(lease, "the answer to the claim was lost") for lease in leases if lease.id not in known]
            if unknown:
                self.database.call(lambda: finish(unknown))
        except Unavailable:
            return
        self.answer_lost = False


def labels_of(lease: Lease) -> tuple[str, str, str]:
    return lease.lane, f"queue:{lease.queue}", f"function:{lease.func_path}"


class Successors:
    """Tasks of full lanes, claimed in the transaction that records the ends of those before them.

    A lane that runs one task at a time waits for one flush of the server's log a task, not for two.
    """

    def __init__(self, claimer: Claimer, ended: Sequence[Attempt], limit: int, at_once: int) -> None:
        self.claimer, self.ended, self.limit, self.at_once = claimer, ended, limit, at_once
        self.leases: list[Lease] = []
        self.asked = 0.0

    def claim_after(self, record: Callable[[], list[Receipt]]) -> list[Receipt]:
        with transaction.atomic(using=self.claimer.database.using):
            receipts = record()
            for attempt in self.ended:
                self.claimer.reopen(attempt.lease)
            self.asked = monotonic()
            self.leases = self.claimer.ask(self.limit, self.at_once, searches=False)
        return receipts

    def forget(self) -> None:
        """The answer is lost, or nothing was written: what was claimed is looked for, and given back."""
        self.leases, self.ended, self.claimer.answer_lost = [], [], True


class Intake:
    """The two claimers of a child, for functions and for coroutines, and the budget of both."""

    def __init__(
        self, worker_id: str, options: WorkerOptions, database: DatabaseCaller, attempts: Set[Attempt], *, careful: bool
    ) -> None:
        self.options, self.database, self.attempts = options, database, attempts
        paths = registry.known_paths()
        coroutines = [path for path in paths if registry.is_coroutine(path)]
        self.functions = Claimer(worker_id, options, database, [path for path in paths if path not in set(coroutines)])
        self.coroutines = Claimer(worker_id, options, database, coroutines)
        self.budget = ClaimBudget(options, attempts, careful=careful, knows_coroutines=bool(coroutines))
        self.may_be_more = False
        self.successors: Successors | None = None
        self.look_again, self.look_wait = float("-inf"), SHORTEST_WAIT

    def claim_now(self) -> None:
        """Claim soon, as a wake-up says that there may be due tasks."""
        for claimer in (self.functions, self.coroutines):
            claimer.memory.cursor.note_arrival()
            claimer.wake()

    def claim(self, start: Callable[[list[Lease], float], None], *, ran_dry: bool = False) -> None:
        """Claim for every kind that has room, and hand over what was claimed. `ran_dry` says that no function waits."""
        if ran_dry and self.functions.came_full:
            self.budget.prefetch.note_dry()
        self.may_be_more = False
        for claimer in (self.functions, self.coroutines):
            claimer.release_unanswered(self.attempts)
            limit = self.limit(claimer)
            if limit < 1 or not claimer.is_due or not self.database.is_available or self.is_answered(claimer):
                continue
            asked = monotonic()  # leases run from before the answer arrives
            leases = claimer.claim(limit, self.budget.free_slots(coroutines=claimer is self.coroutines))
            self.may_be_more |= claimer.came_full
            self.budget.note_claimed(len(leases))
            if leases:
                self.look_again, self.look_wait = float("-inf"), SHORTEST_WAIT
            start(leases, asked)

    def successors_of(self, ended: Sequence[Attempt]) -> Successors | None:
        """Return how to claim in the transaction that records these, if that opens a lane; None as a rule."""
        for claimer in (self.functions, self.coroutines):
            is_async = claimer is self.coroutines
            its = [each for each in ended if each.is_async is is_async and claimer.opens(each.lease)]
            limit = self.limit(claimer) if its and not claimer.answer_lost and self.options.only is None else 0
            if limit > 0:
                self.successors = Successors(claimer, its, limit, self.budget.free_slots(coroutines=is_async))
                return self.successors
        return None

    def take_successors(self, start: Callable[[list[Lease], float], None]) -> None:
        if self.successors is None:
            return
        successors, self.successors = self.successors, None
        if not successors.leases:
            successors.claimer.wake()
            return
        if not successors.claimer.claim_now:  # else another claim is wanted, for what arrived meanwhile
            successors.claimer.note_claimed(successors.leases, successors.limit)
        self.budget.note_claimed(len(successors.leases))
        start(successors.leases, successors.asked)

    def limit(self, claimer: Claimer) -> int:
        return self.budget.limit(coroutines=claimer is self.coroutines, ahead=self.functions.memory.ahead)

    def is_answered(self, claimer: Claimer) -> bool:
        """Return whether the claim of functions answers for coroutines, which wait in the same lanes."""
        if claimer is self.functions or self.limit(self.functions) < 1:
            return False
        if self.functions.has_seen_nothing(claimer.due_since):
            claimer.wait()
            return True
        return self.functions.memory.cursor.came_short and self.functions.claim_now

    @property
    def may_look_again(self) -> bool:
        return monotonic() >= self.look_again

    def is_work_left(self) -> bool:
        """Return whether a drain must go on though a claim found nothing: it saw one page, or a limit was full."""
        if self.options.only is not None:
            return False
        paths = [*self.functions.paths, *self.coroutines.paths]
        memory = ClaimMemory(self.options.queues, self.options.exclude, paths)
        try:
            is_left = self.database.call(lambda: is_work_left(memory, self.options.backend))
        except Unavailable:
            return True
        self.look_again = monotonic() + self.look_wait
        self.look_wait = min(self.options.poll, self.look_wait * 2)
        return is_left

    @property
    def room(self) -> Room:
        functions = Room.FUNCTIONS if self.limit(self.functions) > 0 else Room.NONE
        free = not self.budget.knows_coroutines or self.limit(self.coroutines) > 0
        return functions | (Room.COROUTINES if free else Room.NONE)

    def note_ended(self, attempt: Attempt) -> None:
        self.budget.note_answered()
        if self.successors and attempt in self.successors.ended:
            return
        if attempt.lease.lane or self.functions.memory.closed.until or self.coroutines.memory.closed.until:
            (self.coroutines if attempt.is_async else self.functions).note_ended(attempt.lease)

    @property
    def next_claim(self) -> float:
        """Return when to claim next, by the monotonic clock, even if no wake-up comes."""
        moments = [self.budget.careful_until] if self.budget.is_careful else []
        moments += [self.look_again] if self.options.drain and not self.attempts else []
        for claimer in (self.functions, self.coroutines):
            if self.limit(claimer) > 0:
                moments.append(0.0 if claimer.claim_now else claimer.next_poll)
        return min(moments, default=float("inf"))
