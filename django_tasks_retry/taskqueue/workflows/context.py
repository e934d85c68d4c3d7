"""Methods of a task's context that outlive one attempt: remember, fan out, wait without a worker."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Exists, OuterRef, Q

from ...clock import now
from ...durations import as_seconds, in_seconds
from ...errors import InvalidCall, MembersFailed, MembersGone, Suspend
from ...models import Task, TaskResult
from ...models.querysets import TaskQuerySet
from ...rules.backoff import MAX_DELAY
from ...rules.calls import Call, call
from ...rules.status import Status
from ..database import database
from ..new_tasks import new_id
from ..renewal import one_commit
from ..typed import Instances, function_of, read_returned, return_codec
from .batches import start_batch
from .cancel import cancel
from .members import batch_key, members_of, open_members, signal_key, without_success
from .steps import CALLBACK, UNTIL, Kind, StepStore
from .wake import Received, received

PAGE = 1000
ERRORS = ("raise", "return")
P = ParamSpec("P")
R = TypeVar("R")


def in_thread(
    method: Callable[Concatenate[Workflow, P], R],
) -> Callable[Concatenate[Workflow, P], Coroutine[Any, Any, R]]:
    """Return the method as a coroutine function."""

    @wraps(method)
    async def awaited(self: Workflow, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await sync_to_async(method)(self, *args, **kwargs)

    return awaited


class Workflow:
    """The part of a context that outlives the attempt. A name may come once in an attempt."""

    __slots__ = ()
    steps: StepStore

    @property
    def _using(self) -> str:
        return database(self.steps.lease.backend)

    def step(self, name: str, func: Callable[..., Any], /, *args: Any, atomic: bool = False, **kwargs: Any) -> Any:
        """Call the function once and keep its result: a later attempt is given that, and does not call it again.

        With `atomic` what it writes to this database and the memory of it are one commit: exactly once. Without, a
        crash between the two makes it run again.
        """
        if self.steps.enter(name, Kind.STEP):
            return self.steps.result(name, func)
        if not atomic:
            return self.steps.save(name, Kind.STEP, func(*args, **kwargs), func)
        with one_commit(self.steps.lease):
            return self.steps.save(name, Kind.STEP, func(*args, **kwargs), func)

    def sleep(self, name: str, duration: float | timedelta) -> None:
        """Go on after this time. No worker is held meanwhile."""
        until = self._deadline(name, Kind.SLEEP, duration)
        left = (until - now(self._using)).total_seconds()
        if left > 0:
            raise Suspend(f"sleeps: {name}", left)

    def _deadline(self, name: str, kind: Kind, duration: float | timedelta) -> datetime:
        """Counted from when the code first came here. A negative duration has passed: it means zero."""
        length = in_seconds(duration)
        seconds = as_seconds(0.0 if isinstance(length, int | float) and length < 0 else duration)
        if self.steps.enter(name, kind):
            return datetime.fromisoformat(self.steps.result(name))
        until = now(self._using) + timedelta(seconds=min(seconds, MAX_DELAY))
        return datetime.fromisoformat(self.steps.save(name, kind, until.isoformat()))

    def wait_for(self, name: str, *, timeout: float | timedelta | None = None) -> Received | None:
        """Wait for `signal(name, …)`, sent before or after; None if it did not come in time. Holds no worker."""
        if self.steps.enter(name, Kind.SIGNAL):
            return received_again(self.steps.result(name))
        left = MAX_DELAY
        if timeout is not None:
            until = self._deadline(f"{name}{UNTIL}", Kind.WAIT, timeout)
            left = (until - now(self._using)).total_seconds()
        found = received(name, self._using)
        if found is None and left > 0:
            raise Suspend(f"waits for signal {name}", left, signal_key(name))
        stored = found and [found.payload, found.ts.isoformat(), found.actor]
        return received_again(self.steps.save(name, Kind.SIGNAL, stored))

    def gather(self, name: str, calls: Iterable[Any], *, errors: str = "raise", fail_fast: bool = False) -> Results:
        """Enqueue the calls as a batch and go on when all have ended, with their results. Holds no worker meanwhile.

        `errors="raise"` raises MembersFailed if some did not succeed; `"return"` puts a MemberFailed in the place of
        each. With `fail_fast` the first that fails ends the wait, and the others are cancelled.
        """
        check_errors(errors)
        if not self.steps.enter(name, Kind.BATCH):
            start_batch(self.steps, name, Kind.BATCH, new_id(), calls)
        batch = UUID(self.steps.result(name)["batch"])
        if fail_fast and without_success(batch, self._using).exists():
            self._cancel_rest(batch)
        self._await_batch(batch, fail_fast=fail_fast)
        return self._results(name, errors)

    def _results(self, name: str, errors: str) -> Results:
        known = self.steps.result(name)
        return results_of(UUID(known["batch"]), known["count"], errors, self._using)

    def _await_batch(self, batch: UUID, *, fail_fast: bool = False) -> None:
        count = open_members(batch, self._using).count()
        if count:
            raise Suspend(f"waits for {count:,} tasks", MAX_DELAY, batch_key(batch, fail_fast=fail_fast))

    def _cancel_rest(self, batch: UUID) -> None:
        rest = list(open_members(batch, self._using).values_list("pk", flat=True))
        lease = self.steps.lease
        cancel(rest, by=f"task:{lease.id}", reason="another member of its batch has failed", backend=lease.backend)

    def call(self, name: str, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Like step(), but the call is a task: with attempts, a timeout, a queue and a page of its own."""
        wanted = func if isinstance(func, Call) else call(func, *args, **kwargs)
        return self.gather(name, [wanted])[0]

    def add_members(self, name: str, calls: Iterable[Any]) -> int:
        """Enqueue more members of the batch that this task is a member of; how many. It ends when they have ended."""
        batch = self.steps.lease.batch
        if batch is None:
            raise InvalidCall("add_members(): this task is no member of a batch. Use gather(), or enqueue_many().")
        if not self.steps.enter(name, Kind.MEMBERS):
            start_batch(self.steps, name, Kind.MEMBERS, batch, calls)
        count: int = self.steps.result(name)["count"]
        return count

    def batch_results(self, *, errors: str = "raise") -> Results:
        """Return the results of the members, in the callback of a batch, given as `then=`."""
        check_errors(errors)
        if not self.steps.enter(CALLBACK, Kind.BATCH):
            raise InvalidCall("batch_results(): this task is no callback. enqueue_many(calls, then=call(…)) makes one.")
        self._await_batch(UUID(self.steps.result(CALLBACK)["batch"]))
        return self._results(CALLBACK, errors)

    # The same for coroutines

    async def astep(
        self, name: str, func: Callable[..., Any], /, *args: Any, atomic: bool = False, **kwargs: Any
    ) -> Any:
        """See step(). The function may be a coroutine function, but not that of an atomic step."""
        if not inspect.iscoroutinefunction(func):
            return await sync_to_async(self.step)(name, func, *args, atomic=atomic, **kwargs)
        if atomic:
            raise InvalidCall(f"Step {name!r} is atomic: give it a plain function, for coroutines have no transaction.")
        if await sync_to_async(self.steps.enter)(name, Kind.STEP):
            return await sync_to_async(self.steps.result)(name, func)
        made: Awaitable[Any] = func(*args, **kwargs)
        return await sync_to_async(self.steps.save)(name, Kind.STEP, await made, func)

    asleep = in_thread(sleep)
    await_for = in_thread(wait_for)
    agather = in_thread(gather)
    acall = in_thread(call)
    aadd_members = in_thread(add_members)
    abatch_results = in_thread(batch_results)


def received_again(stored: list[Any] | None) -> Received | None:
    return None if stored is None else Received(stored[0], datetime.fromisoformat(stored[1]), stored[2])


class Results:
    """The results of the members, one after the other; for a member that was retried, that of its last retry.

    Iterate as often as you like: each time the database is asked anew, for a thousand at once. With
    `errors="return"` a member that did not succeed is a `MemberFailed`.
    """

    def __init__(self, batch: UUID, using: str) -> None:
        self.batch, self.using = batch, using

    @property
    def originals(self) -> TaskQuerySet:
        """The members without their retries."""
        # Only a retry is compared with others: a planner may join all members with all (4 s for 5,000).
        earlier = Task.objects.filter(pk=OuterRef("retry_of"), batch=OuterRef("batch"))
        return members_of(self.batch, self.using).filter(Q(retry_of=None) | ~Exists(earlier)).order_by("pk")

    def __len__(self) -> int:
        return self.originals.count()

    def __iter__(self) -> Iterator[Any]:
        last: UUID | None = None
        while page := self.page_after(last):
            yield from self.values_of(page)
            last = page[-1]

    async def __aiter__(self) -> AsyncIterator[Any]:
        last: UUID | None = None
        while page := await sync_to_async(self.page_after)(last):
            for value in await sync_to_async(self.values_of)(page):
                yield value
            last = page[-1]

    def __getitem__(self, place: int) -> Any:
        """One result by its place, counted from the first call."""
        size = len(self)
        found = place if place >= 0 else size + place
        if not 0 <= found < size:
            raise IndexError(f"The batch has {size:,} results; there is no number {place}.")
        return self.values_of(list(self.originals.values_list("pk", flat=True)[found : found + 1]))[0]

    def __repr__(self) -> str:
        return f"<Results of batch {self.batch}>"

    def page_after(self, last: UUID | None) -> list[UUID]:
        members = self.originals if last is None else self.originals.filter(pk__gt=last)
        return list(members.values_list("pk", flat=True)[:PAGE])

    def values_of(self, page: Sequence[UUID]) -> list[Any]:
        latest = self.latest_of(page)
        outcomes = TaskResult.objects.using(self.using).in_bulk(list(latest.values()))
        paths = Task.objects.using(self.using).filter(pk__in=outcomes).values_list("pk", "func_path")
        functions = {pk: function_of(path) for pk, path in paths}
        load = Instances([each.result for pk, each in outcomes.items() if return_codec(functions.get(pk))])
        return [value_of(pk, outcomes.get(pk), functions.get(pk), load) for pk in (latest[each] for each in page)]

    def latest_of(self, page: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the last retry of each member."""
        latest, newer = {pk: pk for pk in page}, dict(zip(page, page, strict=True))
        while newer:
            retries = members_of(self.batch, self.using).filter(retry_of__in=list(newer)).order_by("pk")
            last = {newer[of]: pk for pk, of in retries.values_list("pk", "retry_of_id")}
            latest |= last
            newer = {pk: member for member, pk in last.items()}
        return latest


@dataclass(frozen=True, slots=True)
class MemberFailed:
    """Stands in the results for a member that did not succeed."""

    task_id: UUID
    status: Status | None
    message: str
    exception: str = ""

    def __bool__(self) -> bool:
        return False


def value_of(task_id: UUID, outcome: TaskResult | None, function: Callable[..., Any] | None, load: Instances) -> Any:
    if outcome is None:
        return MemberFailed(task_id, None, "its result is gone")
    if outcome.status == Status.SUCCESS:
        return read_returned(function, outcome.result, load)
    error = outcome.error or {}
    return MemberFailed(task_id, Status(outcome.status), error.get("message", ""), error.get("exception", ""))


def check_errors(errors: str) -> None:
    if errors not in ERRORS:
        raise InvalidCall(f"errors={errors!r}: give 'raise' or 'return'.")


def results_of(batch: UUID, count: int, errors: str, using: str) -> Results:
    """Return the results. Raise MembersFailed if some did not succeed and the caller does not take errors."""
    results = Results(batch, using)
    stored = len(results)
    if stored < count:
        raise MembersGone(count - stored, count)
    if errors == "raise":
        check_success(batch, using)
    return results


def check_success(batch: UUID, using: str) -> None:
    failed = without_success(batch, using)
    ids = list(failed.values_list("pk", flat=True)[:10])
    if ids:
        outcome = TaskResult.objects.using(using).filter(pk=ids[0]).first()
        error = (outcome and outcome.error) or {}
        raise MembersFailed(failed.count(), ids, error.get("message", ""))
