"""What a task's context can do beyond one attempt: remember, fan out, wait without a worker."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async

from ...clock import now
from ...durations import as_seconds
from ...errors import InvalidCall, Suspend
from ...rules.backoff import MAX_DELAY
from ...rules.calls import Call, call
from ..database import database
from ..ids import new_id
from ..operator.intervene import cancel
from .batches import open_members, start_batch, without_success
from .memory import CALLBACK, UNTIL, Kind, Memory, one_commit
from .results import Results, check_errors, results_of
from .signals import Received, received
from .wake import batch_key, signal_key


class Workflow:
    """The part of a context that outlives the attempt. A name may come once in an attempt."""

    __slots__ = ()
    memory: Memory

    @property
    def _using(self) -> str:
        return database(self.memory.lease.backend)

    def step(self, name: str, func: Callable[..., Any], /, *args: Any, atomic: bool = False, **kwargs: Any) -> Any:
        """Call the function once and keep its result: a later attempt is given that, and does not call it again.

        With `atomic` what it writes to this database and the memory of it are one commit: exactly once. Without, a
        crash between the two makes it run again.
        """
        if self.memory.visit(name, Kind.STEP):
            return self.memory.result(name)
        if not atomic:
            return self.memory.remember(name, Kind.STEP, func(*args, **kwargs))
        with one_commit(self.memory.lease):
            return self.memory.remember(name, Kind.STEP, func(*args, **kwargs))

    def sleep(self, name: str, duration: float | timedelta) -> None:
        """Go on after this time. No worker is held meanwhile."""
        until = self._deadline(name, Kind.SLEEP, as_seconds(duration))
        left = (until - now(self._using)).total_seconds()
        if left > 0:
            raise Suspend(f"sleeps: {name}", left)

    def _deadline(self, name: str, kind: Kind, seconds: float) -> datetime:
        """Counted from when the code first came here."""
        if self.memory.visit(name, kind):
            return datetime.fromisoformat(self.memory.result(name))
        until = now(self._using) + timedelta(seconds=min(seconds, MAX_DELAY))
        return datetime.fromisoformat(self.memory.remember(name, kind, until.isoformat()))

    def wait_for(self, name: str, *, timeout: float | timedelta | None = None) -> Received | None:
        """What `signal(name, …)` brings, before or after; None where it did not come in time. Holds no worker."""
        if self.memory.visit(name, Kind.SIGNAL):
            return received_again(self.memory.result(name))
        left = MAX_DELAY
        if timeout is not None:
            until = self._deadline(f"{name}{UNTIL}", Kind.WAIT, as_seconds(timeout))
            left = (until - now(self._using)).total_seconds()
        found = received(name, self._using)
        if found is None and left > 0:
            raise Suspend(f"waits for signal {name}", left, signal_key(name))
        stored = found and [found.payload, found.ts.isoformat(), found.actor]
        return received_again(self.memory.remember(name, Kind.SIGNAL, stored))

    def gather(self, name: str, calls: Iterable[Any], *, errors: str = "raise", fail_fast: bool = False) -> Results:
        """Enqueue the calls as a batch and go on when all have ended, with their results. Holds no worker meanwhile.

        `errors="raise"` raises MembersFailed where some did not succeed; `"return"` puts a MemberFailed in the place of
        each. With `fail_fast` the first that fails ends the wait, and the others are cancelled.
        """
        check_errors(errors)
        if not self.memory.visit(name, Kind.BATCH):
            start_batch(self.memory, name, Kind.BATCH, new_id(), calls)
        batch = UUID(self.memory.result(name)["batch"])
        if fail_fast and without_success(batch, self._using).exists():
            self._cancel_rest(batch)
        self._await_batch(batch, fail_fast=fail_fast)
        return self._results(name, errors)

    def _results(self, name: str, errors: str) -> Results:
        known = self.memory.result(name)
        return results_of(UUID(known["batch"]), known["count"], errors, self._using)

    def _await_batch(self, batch: UUID, *, fail_fast: bool = False) -> None:
        count = open_members(batch, self._using).count()
        if count:
            raise Suspend(f"waits for {count:,} tasks", MAX_DELAY, batch_key(batch, fail_fast=fail_fast))

    def _cancel_rest(self, batch: UUID) -> None:
        rest = list(open_members(batch, self._using).values_list("pk", flat=True))
        lease = self.memory.lease
        cancel(rest, by=f"task:{lease.id}", reason="another member of its batch has failed", backend=lease.backend)

    def call(self, name: str, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Like step(), but the call is a task: with attempts, a timeout, a queue and a page of its own."""
        wanted = func if isinstance(func, Call) else call(func, *args, **kwargs)
        return self.gather(name, [wanted])[0]

    def add_members(self, name: str, calls: Iterable[Any]) -> int:
        """Enqueue more members of the batch that this task is a member of; how many. It ends when they have ended."""
        batch = self.memory.lease.batch
        if batch is None:
            raise InvalidCall("add_members(): this task is no member of a batch. Use gather(), or enqueue_many().")
        if not self.memory.visit(name, Kind.MEMBERS):
            start_batch(self.memory, name, Kind.MEMBERS, batch, calls)
        count: int = self.memory.result(name)["count"]
        return count

    def batch_results(self, *, errors: str = "raise") -> Results:
        """In the callback of a batch, given as `then=`: the results of its members."""
        check_errors(errors)
        if not self.memory.visit(CALLBACK, Kind.BATCH):
            raise InvalidCall("batch_results(): this task is no callback. enqueue_many(calls, then=call(…)) makes one.")
        self._await_batch(UUID(self.memory.result(CALLBACK)["batch"]))
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
        if await sync_to_async(self.memory.visit)(name, Kind.STEP):
            return self.memory.result(name)
        made: Awaitable[Any] = func(*args, **kwargs)
        return await sync_to_async(self.memory.remember)(name, Kind.STEP, await made)

    async def asleep(self, name: str, duration: float | timedelta) -> None:
        """See sleep()."""
        await sync_to_async(self.sleep)(name, duration)

    async def await_for(self, name: str, *, timeout: float | timedelta | None = None) -> Received | None:
        """See wait_for()."""
        return await sync_to_async(self.wait_for)(name, timeout=timeout)

    async def agather(
        self, name: str, calls: Iterable[Any], *, errors: str = "raise", fail_fast: bool = False
    ) -> Results:
        """See gather(). Iterate over the results with `async for`."""
        return await sync_to_async(self.gather)(name, calls, errors=errors, fail_fast=fail_fast)

    async def acall(self, name: str, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See call()."""
        return await sync_to_async(self.call)(name, func, *args, **kwargs)

    async def aadd_members(self, name: str, calls: Iterable[Any]) -> int:
        """See add_members()."""
        return await sync_to_async(self.add_members)(name, calls)

    async def abatch_results(self, *, errors: str = "raise") -> Results:
        """See batch_results()."""
        return await sync_to_async(self.batch_results)(errors=errors)


def received_again(stored: list[Any] | None) -> Received | None:
    return None if stored is None else Received(stored[0], datetime.fromisoformat(stored[1]), stored[2])
