"""Claim: due tasks become RUNNING under a lease. Two claimers never get the same task, and nobody waits for anybody."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from django.db import DataError, IntegrityError

from ... import registry
from ...clock import now
from ...conf import options
from ...models import FlowLimit, Queue, Task
from ...rules.failure import Code, Failure
from ...rules.payload import noted
from ...rules.queues import serves
from ..database import as_moment, database
from ..engines import Engine, engine_for
from ..engines.base import ClaimRequest
from ..engines.ranges import ClaimRange
from ..lanes import COLUMNS, is_usable, limit_of
from ..lease import Claimed, Lease, as_uuid
from ..new_tasks import new_task
from ..reading import read_rows
from ..recording import record
from ..report import Failed, report_of
from .cursor import ClaimCursor, Contention, LaneRotation
from .fair_share import FairShare, Part, plan
from .limiter import Closed, KnownRows, Limiter, head_of, with_limits
from .tuning import TUNING, ClaimTuning, Clock

logger = logging.getLogger("django_tasks_retry")
POISON_PAGE = 200
CONTENTION = "contention:"  # the label of what is closed to a claimer that was turned away


@dataclass(slots=True)
class ClaimMemory:
    """The memories that one claimer keeps between claims, each an object of its own, and the tasks that it claims."""

    queues: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    paths: Sequence[str] | None = None  # functions to claim for; None means all that this process knows
    clock: Clock = time.monotonic
    tuning: ClaimTuning = TUNING
    cursor: ClaimCursor = field(init=False)
    rotation: LaneRotation = field(init=False)
    shares: FairShare = field(init=False)
    rows: KnownRows = field(init=False)
    closed: Closed = field(init=False)
    contention: Contention = field(init=False)

    def __post_init__(self) -> None:
        self.cursor, self.rotation = ClaimCursor(self.clock, self.tuning), LaneRotation(self.tuning)
        self.shares, self.rows = FairShare(), KnownRows()
        self.closed, self.contention = Closed(self.clock), Contention(self.clock, self.tuning)

    def serves(self, queue: str) -> bool:
        return serves(queue, self.queues, self.exclude)

    @property
    def known(self) -> Sequence[str]:
        return registry.known_paths() if self.paths is None else self.paths

    @property
    def is_turned_away(self) -> bool:
        """Return whether too many others were claiming a moment ago."""
        return self.closed.is_closed(CONTENTION)

    @property
    def is_all_closed(self) -> bool:
        """Return whether the last refresh saw all lanes, and each range is full by now: another would find no more."""
        sees_all = not self.rotation.cursors and self.cursor.sees_all_pages
        return sees_all and all(each.is_limited and self.closed.is_closed(each.lane) for each in self.cursor.ranges)

    @property
    def ahead(self) -> float:
        """Return how much of the usual may be claimed ahead, while tasks of limited lanes may be due.

        Nothing if one has a rate: its tasks need a slot as soon as they are claimed. Little beside others, since a task
        that waits here holds a permit.
        """
        limited = [each.lane for each in self.cursor.ranges if each.is_limited and not self.closed.is_closed(each.lane)]
        if not limited:
            return 1.0
        return self.tuning.limited_ahead if self.rows.rated.isdisjoint(limited) else 0.0

    def refresh(self, engine: Engine, backend: str = "default") -> bool:
        """Find the ranges whose first task is due. Return whether there are any."""
        began = self.clock()
        due, has_lanes, wholes = self.cursor.next_page(engine, self.serves)
        if has_lanes:
            lanes = with_limits(self.rotation.next_lanes(engine), backend, engine.using)
            due += [each for each in lanes if self.serves(each.queue)]
        self.cursor.move_to(due, began, has_lanes=has_lanes)
        self.rows.learn(wholes, self.cursor.ranges, backend)
        if self.cursor.has_lanes:
            self.shares.open({each.lane for each in self.cursor.ranges})
        return bool(due)


def claim(
    worker_id: str,
    queues: Sequence[str] = ("*",),
    limit: int = 1,
    lease: float | None = None,
    *,
    backend: str = "default",
    memory: ClaimMemory | None = None,
    at_once: int | None = None,
    searches: bool = True,
) -> list[Lease]:
    """Lease up to `limit` tasks, most urgent first. Pass the same `memory` each time to let claims build on each other.

    At most `at_once` of them are from lanes with a rate: as many as the claimer starts at once. Leases from known
    ranges are returned without a search for others: the next claim does that, and while `came_short` there may be more.
    A claim that never `searches` leaves it to the next one, for a caller that holds locks meanwhile.
    """
    engine, memory = engine_for(database(backend)), memory or ClaimMemory(queues)
    seconds = options(backend).lease if lease is None else lease
    terms = ClaimRequest(worker_id, backend, seconds, memory.known, places=memory.contention.places)
    starting = limit if at_once is None else at_once
    memory.closed.forget_opened()
    memory.rotation.widen_for(limit)
    if not memory.cursor.is_stale:
        claimed = claim_known(memory, limit, starting, terms, engine)
        memory.cursor.came_short = 0 < len(claimed) < limit and not memory.is_all_closed
        if claimed or claimed.turned_away or not memory.cursor.may_refresh:
            return claimed.leases
    if not searches:
        return []
    return claim_known(memory, limit, starting, terms, engine).leases if memory.refresh(engine, backend) else []


def claim_known(memory: ClaimMemory, limit: int, at_once: int, terms: ClaimRequest, engine: Engine) -> Claimed:
    """Claim from the ranges that are known, then move the cursor on."""
    if not memory.cursor.ranges or limit < 1:
        return Claimed()
    began, in_parts = memory.clock(), memory.cursor.has_lanes or memory.rows.has_wholes(terms.backend)
    if in_parts:
        claimed = SharedClaim(memory, limit, at_once, terms, engine).claim()
    else:
        aging = options(terms.backend).priority_aging
        claimed = engine.claim(memory.shares.in_order(memory.cursor.ranges, aging), limit, terms)
    claimed.leases.sort(key=lambda lease: (-lease.priority, lease.eta, lease.id.int))
    if claimed.turned_away:
        memory.cursor.raise_floors(claimed.leases)
        memory.closed.close(CONTENTION, memory.contention.note_refusal())
    else:
        seconds = memory.clock() - began
        memory.contention.note_claim(seconds)
        memory.cursor.advance(claimed.leases, seconds, read_all_due=len(claimed) < limit and not in_parts)
    if claimed.unreadable:
        fail_unreadable(claimed.unreadable)
    return claimed


class SharedClaim:
    """One claim, priority by priority, from ranges of which some have a lane or a limit."""

    def __init__(self, memory: ClaimMemory, limit: int, at_once: int, terms: ClaimRequest, engine: Engine) -> None:
        self.memory, self.limit, self.engine = memory, limit, engine
        self.functions = memory.rows.limited_functions(terms.known, terms.backend)
        limited = set(self.functions)
        self.terms = replace(terms, known=[path for path in terms.known if path not in limited])
        self.limiter = Limiter(memory.closed, memory.rows, self.terms, engine, at_once, memory.tuning)
        self.taken, self.turned_away = Claimed(), False

    def claim(self) -> Claimed:
        aging = options(self.terms.backend).priority_aging
        for level in self.memory.shares.levels(self.memory.cursor.ranges, aging):
            used_up = self.claim_from(level, by_weight=True)
            if used_up and not self.is_over:
                # Others did not take their share: it goes to lanes that can use it, before any lower priority.
                self.claim_from(level, by_weight=False)
            if self.is_over:
                break
        return replace(self.taken, turned_away=self.turned_away)

    @property
    def is_over(self) -> bool:
        """A claimer that is turned away takes nothing that is less urgent."""
        return self.turned_away or len(self.taken) >= self.limit

    def claim_from(self, level: Sequence[ClaimRange], *, by_weight: bool) -> bool:
        """Follow the plan for one priority. Return whether a lane used up its share."""
        used_up, left = False, self.limit - len(self.taken)
        for part in plan(level, left, is_limited=self.limiter.labels, functions=self.functions, by_weight=by_weight):
            if not self.is_over:
                claimed = self.claim_part(part)
                used_up = part.is_used_up(claimed.everything) or used_up
                self.memory.shares.charge(claimed.everything, part.ranges)
        return used_up

    def claim_part(self, part: Part) -> Claimed:
        """Claim through the limiter if the part is limited."""
        left = self.limit - len(self.taken)
        if part.is_limited:
            claimed = self.limiter.claim(part, left)
        else:
            claimed = self.engine.claim(part.ranges, part.quota(left), self.terms)
        self.turned_away = claimed.turned_away
        self.taken.add(claimed)
        return claimed


def fail_unreadable(unreadable: Sequence[tuple[Lease, str]]) -> None:
    """End them, each under its own lease: an attempt would need what cannot be read, and so would the next one."""
    for lease, reason in unreadable:
        message = noted(f"The task's row cannot be read. {reason}")
        logger.error("%s %s fails: %s", lease.func_path, lease.id, message)
        failure = Failure(message, Code.UNREADABLE, exception="", traceback="")
        try:
            record([report_of(Failed(lease, failure))])
        except (DataError, IntegrityError):
            logger.exception("the failure of %s %s is refused; its lease will expire", lease.func_path, lease.id)


def claim_task(task: Task, worker_id: str, *, backend: str = "default") -> Lease | None:
    """Lease this very task, by the rules of every claim; None if it is not due, paused, locked or taken."""
    using, memory = database(backend), ClaimMemory()
    terms = ClaimRequest(worker_id, backend, options(backend).lease, [task.func_path], only=task.pk)
    labels = [task.lane, f"queue:{task.queue}", f"function:{task.func_path}"]
    rows = frozenset(FlowLimit.objects.using(using).labels(labels))
    found = ClaimRange(task.queue, task.priority, task.eta, now(using), floor_id=task.pk, lane=task.lane)
    found.is_limited = bool(task.lane) and (task.lane in rows or limit_of(task.lane, backend).is_limited)
    memory.cursor.ranges, memory.cursor.has_lanes, memory.rows.wholes = [found], bool(task.lane), rows
    claimed = claim_known(memory, 1, 1, terms, engine_for(using))
    return claimed.leases[0] if claimed.leases else None


def is_work_due(memory: ClaimMemory, backend: str = "default") -> bool:
    """Return whether a task may be due in a queue that is served. For processes that claim nothing themselves."""
    return memory.cursor.may_refresh and memory.refresh(engine_for(database(backend)), backend)


def is_work_left(memory: ClaimMemory, backend: str = "default", *, poison: bool = False) -> bool:
    """Return whether a task is due that may start now, or once its limit has room. Uses no memory."""
    using = database(backend)
    rows = read_rows(FlowLimit.objects.using(using).with_contents())
    unusable = [row for row in rows if not is_usable(row, backend)]
    queues = Queue.objects.using(using).paused().values_list("name", flat=True)
    due = Task.objects.using(using).due().filter(backend=backend, func_path__in=memory.known).may_begin(poison=poison)
    due = due.exclude(queue__in=list(queues))
    for kind, column in COLUMNS.items():
        due = due.exclude(**{f"{column}__in": [row.name for row in unusable if row.kind == kind]})
    for queue, priority, lane in due.order_by().values_list("queue", "priority", "lane").distinct():
        if memory.serves(queue):
            # In a lane of strict order only its head may start, and that may be due later.
            if limit_of(lane, backend).order != "strict":
                return True
            head = head_of(ClaimRange(queue, priority, None, now(using), lane=lane), using)
            if head and due.filter(pk=head).exists():
                return True
    return False


class PoisonPage(NamedTuple):
    """The poison tasks of one page that this process may run: their last attempts died with their process.

    Ordinary claims leave them to a process of their own.
    """

    tasks: list[Task]
    next_page: int  # the number of the page that follows; 0 after the last one


def find_poison(serves: Callable[[str], bool], page: int = 0, *, backend: str = "default") -> PoisonPage:
    """Return those that are due, of queues that are served and functions that this process knows, the oldest first."""
    rows = engine_for(database(backend)).fetch(
        "poison", {"backend": backend, "limit": POISON_PAGE, "offset": page * POISON_PAGE}
    )
    tasks = [
        new_task(id=as_uuid(task_id), queue=queue, priority=priority, eta=as_moment(eta), func_path=path, lane=lane)
        for task_id, queue, priority, eta, path, lane in rows
        if serves(queue) and registry.find(path)
    ]
    return PoisonPage(tasks, page + 1 if len(rows) == POISON_PAGE else 0)
