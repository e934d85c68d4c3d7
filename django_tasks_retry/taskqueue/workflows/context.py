"""Methods of a task's context that outlive one attempt: remember, fan out, wait without a worker."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload
from uuid import UUID

from asgiref.sync import sync_to_async

from ...clock import now
from ...durations import as_seconds, in_seconds
from ...errors import InvalidCall, Suspend
from ...rules.backoff import MAX_DELAY
from ...rules.calls import Call, TaskOf, call
from ..database import database
from ..new_tasks import new_id
from ..renewal import one_commit
from .batches import start_batch
from .cancel import cancel
from .effects import Unknown, perform_effect
from .members import batch_key, open_members, signal_key, without_success
from .results import MemberFailed, Results, check_errors, results_of
from .steps import CALLBACK, UNTIL, StepKind, StepStore
from .wake import Received, received

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

    @overload
    def step(self, name: str, func: Callable[..., R], /, *args: Any, atomic: bool, **kwargs: Any) -> R: ...

    @overload
    def step(self, name: str, func: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def step(  # type: ignore[misc]
        self, name: str, func: Any, /, *args: Any, atomic: bool = False, **kwargs: Any
    ) -> Any:
        """Call the function once and keep its result: a later attempt is given that, and does not call it again.

        With `atomic` what it writes to this database and the memory of it are one commit: exactly once. Without, a
        crash between the two makes it run again.
        """
        if self.steps.enter(name, StepKind.STEP):
            return self.steps.result(name, func)
        if not atomic:
            return self.steps.save(name, StepKind.STEP, func(*args, **kwargs), func)
        with one_commit(self.steps.lease):
            return self.steps.save(name, StepKind.STEP, func(*args, **kwargs), func)

    def effect(
        self,
        name: str,
        func: Callable[..., R],
        /,
        *args: Any,
        key: str = "",
        resolve: Callable[[str], R | None] | None = None,
        unknown: Unknown = "ask",
        **kwargs: Any,
    ) -> R:
        """Call the outside: an intent is committed before, the outcome after. It is never repeated without a reason.

        After a crash, or if the call raised, `resolve(key)` says whether it happened: it returns the result, or None
        if it did not. Without it a person is asked; `unknown="repeat"` calls again, `"skip"` goes on with None.
        """
        doing = perform_effect(self.steps, name, partial(func, *args, **kwargs), key, resolve, unknown)
        made = advance(doing, None)
        while made is not None:
            made = advance(doing, made())
        result: R = self.steps.result(name)
        return result

    def sleep(self, name: str, duration: float | timedelta) -> None:
        """Go on after this time. No worker is held meanwhile."""
        until = self._deadline(name, StepKind.SLEEP, duration)
        left = (until - now(self._using)).total_seconds()
        if left > 0:
            raise Suspend(f"sleeps: {name}", left)

    def _deadline(self, name: str, kind: StepKind, duration: float | timedelta) -> datetime:
        """Counted from when the code first came here. A negative duration has passed: it means zero."""
        length = in_seconds(duration)
        seconds = as_seconds(0.0 if isinstance(length, int | float) and length < 0 else duration)
        if self.steps.enter(name, kind):
            return datetime.fromisoformat(self.steps.result(name))
        until = now(self._using) + timedelta(seconds=min(seconds, MAX_DELAY))
        return datetime.fromisoformat(self.steps.save(name, kind, until.isoformat()))

    def wait_for(self, name: str, *, timeout: float | timedelta | None = None) -> Received | None:
        """Wait for `signal(name, …)`, sent before or after; None if it did not come in time. Holds no worker."""
        if self.steps.enter(name, StepKind.SIGNAL):
            return received_again(self.steps.result(name))
        left = MAX_DELAY
        if timeout is not None:
            until = self._deadline(f"{name}{UNTIL}", StepKind.WAIT, timeout)
            left = (until - now(self._using)).total_seconds()
        found = received(name, self._using)
        if found is None and left > 0:
            raise Suspend(f"waits for signal {name}", left, signal_key(name))
        stored = found and [found.payload, found.ts.isoformat(), found.actor]
        return received_again(self.steps.save(name, StepKind.SIGNAL, stored))

    @overload
    def gather(
        self, name: str, calls: Iterable[Call[R]], *, errors: Literal["raise"] = "raise", fail_fast: bool = False
    ) -> Results[R]: ...

    @overload
    def gather(
        self, name: str, calls: Iterable[Call[R]], *, errors: Literal["return"], fail_fast: bool = False
    ) -> Results[R | MemberFailed]: ...

    def gather(
        self, name: str, calls: Iterable[Any], *, errors: str = "raise", fail_fast: bool = False
    ) -> Results[Any]:
        """Enqueue the calls as a batch and go on when all have ended, with their results. Holds no worker meanwhile.

        `errors="raise"` raises MembersFailed if some did not succeed; `"return"` puts a MemberFailed in the place of
        each. With `fail_fast` the first that fails ends the wait, and the others are cancelled.
        """
        check_errors(errors)
        if not self.steps.enter(name, StepKind.BATCH):
            start_batch(self.steps, name, StepKind.BATCH, new_id(self.steps.lease.backend), calls)
        batch = UUID(self.steps.result(name)["batch"])
        if fail_fast and without_success(batch, self._using).exists():
            self._cancel_rest(batch)
        self._await_batch(batch, fail_fast=fail_fast)
        return self._results(name, errors)

    def _results(self, name: str, errors: str) -> Results[Any]:
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

    @overload
    def call(self, name: str, func: Call[R], /) -> R: ...

    @overload
    def call(self, name: str, func: TaskOf[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def call(self, name: str, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Like step(), but the call is a task: with attempts, a timeout, a queue and a page of its own."""
        wanted = func if isinstance(func, Call) else call(func, *args, **kwargs)
        return self.gather(name, [wanted])[0]

    def add_members(self, name: str, calls: Iterable[Any]) -> int:
        """Enqueue more members of the batch that this task is a member of; how many. It ends when they have ended."""
        batch = self.steps.lease.batch
        if batch is None:
            raise InvalidCall("add_members(): this task is no member of a batch. Use gather(), or enqueue_many().")
        if not self.steps.enter(name, StepKind.MEMBERS):
            start_batch(self.steps, name, StepKind.MEMBERS, batch, calls)
        count: int = self.steps.result(name)["count"]
        return count

    def batch_results(self, *, errors: str = "raise") -> Results[Any]:
        """Return the results of the members, in the callback of a batch, given as `then=`."""
        check_errors(errors)
        if not self.steps.enter(CALLBACK, StepKind.BATCH):
            raise InvalidCall("batch_results(): this task is no callback. enqueue_many(calls, then=call(…)) makes one.")
        self._await_batch(UUID(self.steps.result(CALLBACK)["batch"]))
        return self._results(CALLBACK, errors)

    # The same for coroutines

    @overload
    async def astep(self, name: str, func: Callable[..., R], /, *args: Any, atomic: bool, **kwargs: Any) -> R: ...

    @overload
    async def astep(
        self, name: str, func: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def astep(self, name: str, func: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    async def astep(  # type: ignore[misc]
        self, name: str, func: Any, /, *args: Any, atomic: bool = False, **kwargs: Any
    ) -> Any:
        """See step(). The function may be a coroutine function, but not that of an atomic step."""
        if not inspect.iscoroutinefunction(func):
            return await sync_to_async(self.step)(name, func, *args, atomic=atomic, **kwargs)
        if atomic:
            raise InvalidCall(f"Step {name!r} is atomic: give it a plain function, for coroutines have no transaction.")
        if await sync_to_async(self.steps.enter)(name, StepKind.STEP):
            return await sync_to_async(self.steps.result)(name, func)
        made: Awaitable[Any] = func(*args, **kwargs)
        return await sync_to_async(self.steps.save)(name, StepKind.STEP, await made, func)

    async def aeffect(
        self,
        name: str,
        func: Callable[..., Any],
        /,
        *args: Any,
        key: str = "",
        resolve: Callable[[str], Any] | None = None,
        unknown: Unknown = "ask",
        **kwargs: Any,
    ) -> Any:
        """See effect(). Function and `resolve` may be coroutine functions."""
        doing = perform_effect(self.steps, name, partial(func, *args, **kwargs), key, resolve, unknown)
        made = await sync_to_async(advance)(doing, None)
        while made is not None:
            value = await (made() if inspect.iscoroutinefunction(made.func) else sync_to_async(made)())
            made = await sync_to_async(advance)(doing, value)
        return await sync_to_async(self.steps.result)(name)

    if TYPE_CHECKING:

        @overload
        async def agather(
            self, name: str, calls: Iterable[Call[R]], *, errors: Literal["raise"] = "raise", fail_fast: bool = False
        ) -> Results[R]: ...

        @overload
        async def agather(
            self, name: str, calls: Iterable[Call[R]], *, errors: Literal["return"], fail_fast: bool = False
        ) -> Results[R | MemberFailed]: ...

        async def agather(self, *args: Any, **kwargs: Any) -> Any: ...

        @overload
        async def acall(self, name: str, func: Call[R], /) -> R: ...

        @overload
        async def acall(self, name: str, func: TaskOf[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

        async def acall(self, name: str, *args: Any, **kwargs: Any) -> Any: ...  # type: ignore[misc]

    else:
        agather = in_thread(gather)
        acall = in_thread(call)
    asleep = in_thread(sleep)
    await_for = in_thread(wait_for)
    aadd_members = in_thread(add_members)
    abatch_results = in_thread(batch_results)


def advance(doing: Generator[partial[Any], Any, None], value: Any) -> partial[Any] | None:
    """Send it a value. Return the next call to make; None at its end."""
    try:
        return doing.send(value)
    except StopIteration:
        return None


def received_again(stored: list[Any] | None) -> Received | None:
    return None if stored is None else Received(stored[0], datetime.fromisoformat(stored[1]), stored[2])
