"""The limiter: claims from ranges that are limited, under the locks of their rows, and never more than their capacity.

A lease is the permit: it is counted, in a statement after the lock was granted, and freed by whatever ends it.
"""

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from django.db import connections, transaction

from ...errors import InvalidLane
from ...models import FlowLimit, Task
from ...rules.lanes import window
from ...rules.lanes.limits import Limit
from ..engines.base import ClaimRequest, Engine
from ..engines.ranges import ClaimRange, LaneRange
from ..lanes import count_permits, create_limits, decided_limit, has_wholes, limit_of, lock_limits
from ..lease import Claimed
from ..reading import set_aside
from ..workflows.members import batch_of
from .fair_share import Part
from .tuning import TUNING, ClaimTuning, Clock


@dataclass(slots=True)
class Closed:
    """The labels that are full, paused or locked by others, and until when: a lane, `queue:…` or `function:…`."""

    clock: Clock = time.monotonic
    until: dict[str, float] = field(default_factory=dict)

    def close(self, label: str, seconds: float) -> None:
        """Nothing of it can start for so long, as far as is known."""
        self.until[label] = self.clock() + seconds

    def reopen(self, *labels: str) -> bool:
        """A task of these has ended. Return whether one of them was closed."""
        closed = self.until.keys() & set(labels)
        for label in closed:
            del self.until[label]
        return bool(closed)

    def is_closed(self, label: str) -> bool:
        return self.until.get(label, 0.0) > self.clock()

    @property
    def opens_at(self) -> float:
        """Return when something that was held back may start, by the claimer's clock."""
        return min(self.until.values(), default=float("inf"))

    def forget_opened(self) -> None:
        """Call this before a claim, never after: the claim passed over whatever opened meanwhile."""
        now = self.clock()
        self.until = {label: until for label, until in self.until.items() if until > now}


@dataclass(slots=True)
class KnownRows:
    """The lanes, queues and functions that have a row of limits, as of the last refresh."""

    wholes: frozenset[str] = frozenset()  # queues and functions, by their labels
    seen: set[str] = field(default_factory=set)
    rated: set[str] = field(default_factory=set)
    """Lanes with a rate; one that a person decided is known once its row was locked."""

    def learn(self, wholes: frozenset[str], ranges: Iterable[ClaimRange], backend: str) -> None:
        self.wholes, self.seen = wholes, {each.lane for each in ranges if each.is_limited}
        self.rated = {lane for lane in self.seen if lane in self.rated or limit_of(lane, backend).starts is not None}

    def is_limited(self, label: str, backend: str) -> bool:
        """Return whether this queue or function, as a whole, is claimed from only through the limiter."""
        return label in self.wholes or limit_of(label, backend).is_limited

    def has_wholes(self, backend: str) -> bool:
        return bool(self.wholes) or has_wholes(backend)

    def limited_functions(self, known: Sequence[str], backend: str) -> list[str]:
        if not self.has_wholes(backend):
            return []
        return [path for path in known if self.is_limited(f"function:{path}", backend)]

    def create_missing(self, labels: set[str], using: str) -> None:
        if missing := labels - self.seen - self.wholes:
            create_limits(missing, using)
        self.seen |= labels


def with_limits(lanes: Sequence[LaneRange], backend: str, using: str) -> list[ClaimRange]:
    """Note on the ranges of lanes their weight and whether they are limited; create rows that are missing."""
    missing = set()
    for lane in lanes:
        limit, found = limit_of(lane.range.lane, backend), lane.range
        found.weight = lane.weight or limit.weight
        found.is_limited = lane.has_row or limit.is_limited
        if found.is_limited and not lane.has_row:
            missing.add(found.lane)
    if missing:
        create_limits(missing, using)
    return [lane.range for lane in lanes]


@dataclass(slots=True)
class Capacity:
    """The number of tasks that may still start in one lane, queue or function."""

    row: FlowLimit
    limit: Limit
    left: int
    is_bounded: bool = False  # by its own limit, and not by what the claimer asks for
    has_started: bool = False

    def closed_for(self, tuning: ClaimTuning) -> float:
        """Return for how long none may start, as far as is known."""
        if self.row.paused_at is not None:
            return tuning.paused_seconds
        full_seconds = tuning.full_seconds * random.uniform(1.0, 1.4)  # noqa: S311 - spreads load
        if self.limit.starts is None:
            return full_seconds
        opens_in = window.opens_in(self.row.recent, self.limit.starts, self.limit.per, self.row.locked_at.timestamp())
        return min(tuning.longest_rate_wait, opens_in or full_seconds)

    @property
    def must_start(self) -> bool:
        """Return whether its tasks are claimed by who starts them at once: their starts count from the claim."""
        return self.limit.starts is not None

    def count_starts(self, taken: int, moment: datetime) -> None:
        """Count starts if there is a rate. `moment` is not before any of them."""
        if taken and self.limit.starts is not None:
            self.row.recent = window.with_starts(self.row.recent, taken, self.limit.per, moment.timestamp())
            self.has_started = True


def capacity_of(row: FlowLimit, running: int, most: int, backend: str) -> Capacity:
    """Measure the capacity of a locked row, at most `most`."""
    limit, time = decided_limit(row, limit_of(row.label, backend)), row.locked_at.timestamp()
    if row.paused_at is not None:
        return Capacity(row, limit, 0, is_bounded=True)
    most_running = 1 if row.probing_since else limit.most_running
    bounds = [most]
    if most_running is not None:
        bounds.append(max(0, most_running - running))
    if limit.starts is not None:
        bounds.append(window.room(row.recent, limit.starts, limit.per, time))
    return Capacity(row, limit, min(bounds), is_bounded=min(bounds) < most)


@dataclass(slots=True)
class Limiter:
    closed: Closed
    rows: KnownRows
    terms: ClaimRequest
    engine: Engine
    at_once: int  # how many more tasks the claimer would start at once
    tuning: ClaimTuning = TUNING
    locked_at: float = 0.0
    limited_queues: dict[str, bool] = field(default_factory=dict)

    def claim(self, part: Part, limit: int) -> Claimed:
        """Lease up to `limit` tasks of a limited part."""
        # Other claimers pass over locked ranges, so lock no more than the claim can use.
        most = max(self.tuning.fewest_locked, min(2 * limit, self.tuning.most_locked))
        wanted = [each for each in part.ranges if not any(map(self.closed.is_closed, self.labels(each)))][:most]
        whole = f"function:{part.function}" if part.function else None
        if not wanted or (whole and self.closed.is_closed(whole)):
            return Claimed()
        labels = {label for each in wanted for label in self.labels(each)} | ({whole} if whole else set())
        self.rows.create_missing(labels, self.engine.using)
        using = self.engine.using
        is_alone = connections[using].get_autocommit()  # else the commit is the caller's
        if is_alone and not self.engine.has_row_locks and not self.has_room(wanted, labels, whole):
            return Claimed()
        with transaction.atomic(using=using, savepoint=False):
            capacities = self.capacities(labels, limit)
            claimed = self.take(wanted, limit, capacities, part.function)
            started = [capacity.row for capacity in capacities.values() if capacity.has_started]
            FlowLimit.objects.using(using).bulk_update(started, ["recent"])
            if is_alone and not claimed.everything:
                # Its commit would flush the log for nothing, under the locks.
                transaction.set_rollback(True, using)  # noqa: FBT003
        self.close_full(capacities)
        return claimed

    def has_room(self, wanted: Sequence[ClaimRange], labels: set[str], whole: str | None) -> bool:
        """Return whether anything may start, as read before the lock: others would wait for one that finds nothing."""
        capacities = self.capacities(labels, 1)
        opened = {label for label, capacity in capacities.items() if capacity.left > 0}
        if any(opened.issuperset(self.labels(each) + ([whole] if whole else [])) for each in wanted):
            return True
        self.close_full(capacities)
        return False

    def close_full(self, capacities: dict[str, Capacity]) -> None:
        for label, capacity in capacities.items():
            if capacity.is_bounded and capacity.left <= 0:
                # As of the lock, by whose time the window was measured: the claim and its commit took a while.
                since_lock = self.closed.clock() - self.locked_at
                self.closed.close(label, max(self.tuning.locked_seconds, capacity.closed_for(self.tuning) - since_lock))

    def labels(self, of: ClaimRange) -> list[str]:
        """Return whose rows must be locked to claim from this range; none if it is not limited."""
        named = [of.lane] if of.lane and of.is_limited else []
        return [*named, f"queue:{of.queue}"] if self.is_limited_queue(of.queue) else named

    def is_limited_queue(self, queue: str) -> bool:
        """Asked for each range, so remembered for as long as this claim lasts."""
        if queue not in self.limited_queues:
            self.limited_queues[queue] = self.rows.is_limited(f"queue:{queue}", self.terms.backend)
        return self.limited_queues[queue]

    def capacities(self, labels: set[str], most: int) -> dict[str, Capacity]:
        """Lock these rows, without those that others have locked or nobody can read, and measure each."""
        locked = lock_limits(labels, self.engine.using)
        for label in labels - locked.keys():
            self.closed.close(label, self.tuning.locked_seconds)
        self.locked_at = self.closed.clock()
        running = count_permits(locked.keys(), self.engine.using)
        capacities = {}
        for label, row in locked.items():
            try:
                capacities[label] = capacity_of(row, running[label], most, self.terms.backend)
                (self.rows.rated.add if capacities[label].must_start else self.rows.rated.discard)(label)
            except InvalidLane as error:
                # A limit that cannot be read must not be exceeded. Without a capacity, nobody claims from the lane.
                set_aside(label, str(error))
                self.closed.close(label, self.tuning.paused_seconds)
        return capacities

    def take(
        self, wanted: Sequence[ClaimRange], limit: int, capacities: dict[str, Capacity], function: str | None
    ) -> Claimed:
        """Run one statement for each queue: the capacity of a whole queue or function bounds all its ranges.

        And one for what must start at once.
        """
        held = [f"{capacity.row.kind}:{capacity.row.name}" for capacity in capacities.values()]
        known = [function] if function else self.terms.known
        terms = replace(self.terms, known=known, held=held, places=0)  # whoever locked the row has its place
        taken, whole = Claimed(), [f"function:{function}"] if function else []
        kinds: dict[tuple[str, bool, bool], list[ClaimRange]] = {}
        for each in wanted:
            bounds = [capacities[label] for label in (*self.labels(each), *whole) if label in capacities]
            must_start = any(capacity.must_start for capacity in bounds)
            kinds.setdefault((each.queue, bool(each.lane), must_start), []).append(each)
        for (queue, _, must_start), of_kind in kinds.items():
            wholes = [*whole, f"queue:{queue}"] if self.is_limited_queue(queue) else whole
            most = min([limit - len(taken), *(capacities[each].left if each in capacities else 0 for each in wholes)])
            most = min(most, self.at_once) if must_start else most
            ranges = self.open_ranges(of_kind, capacities) if most > 0 else []
            if ranges:
                claimed = self.engine.claim(ranges, most, terms)
                self.at_once -= len(claimed) if must_start else 0
                use_up(capacities, claimed)
                taken.add(claimed)
        return taken

    def open_ranges(self, ranges: Sequence[ClaimRange], capacities: dict[str, Capacity]) -> list[ClaimRange]:
        """Return those in which something may start, each lane once: its quota counts for one statement."""
        found: dict[object, ClaimRange] = {}
        for each in ranges:
            name: object = each.lane if each.is_limited else each.name
            if name not in found:
                opened = self.opened(each, capacities.get(each.lane)) if each.is_limited else each
                if opened is not None:
                    found[name] = opened
        return list(found.values())

    def opened(self, of: ClaimRange, capacity: Capacity | None) -> ClaimRange | None:
        """Say how many may start in a limited lane, or which one; None if nothing may."""
        if capacity is None or capacity.left < 1:
            return None
        quota = capacity.left if of.quota is None else min(of.quota, capacity.left)
        if capacity.limit.order != "strict":
            return of.with_quota(quota)
        head = head_of(of, self.engine.using)
        return None if head is None else of.with_quota(quota, only=head)


def use_up(capacities: dict[str, Capacity], claimed: Claimed) -> None:
    """Take what was claimed from the capacity of its lane, its queue and its function."""
    taken: Counter[str] = Counter()
    for lease in claimed.everything:
        taken.update([lease.lane, f"queue:{lease.queue}", f"function:{lease.func_path}"])
    moment = max((lease.last_attempt_at for lease in claimed.everything), default=None)
    for label, capacity in capacities.items():
        capacity.left -= taken[label]
        if moment is not None:
            capacity.count_starts(taken[label], moment)


def head_of(of: ClaimRange, using: str) -> UUID | None:
    """The task that was begun and not finished, or one that it waits for; else the first. None if that is elsewhere."""
    waiting = Task.objects.using(using).pending().filter(queue=of.queue, priority=of.priority, lane=of.lane)
    in_line = waiting.order_by("eta", "pk")
    begun = begun_in(of.lane, using)
    if begun is not None:
        batch = awaited_by(begun)
        if batch is None:
            return begun.pk if (begun.queue, begun.priority) == (of.queue, of.priority) else None
        # Its members of this lane go before it: it waits for them, and they would wait for it for ever.
        in_line = in_line.filter(batch=batch)
    first: UUID | None = in_line.values_list("pk", flat=True).first()
    return first


def begun_in(lane: str, using: str) -> Task | None:
    """Return the task that was begun and waits to go on; if it waits for another one, that one."""
    tasks = Task.objects.using(using).begun_in(lane).pending().order_by("eta", "pk")
    tasks = tasks.only("queue", "priority", "waits_for")
    begun: Task | None = tasks.first()
    seen: set[UUID] = set()
    while begun is not None and (batch := awaited_by(begun)) and batch not in seen:
        seen.add(batch)  # batches may wait for each other in a circle
        member: Task | None = tasks.filter(batch=batch).first()
        if member is None:
            break
        begun = member
    return begun


def awaited_by(task: Task) -> UUID | None:
    return batch_of(task.waits_for or "")
