"""Enqueue: a call becomes a PENDING row, in the caller's transaction."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from ... import registry
from ...conf import check_backend, check_queue, options
from ...durations import as_seconds
from ...errors import InvalidCall, InvalidPayload, UnknownOption
from ...models import MAX_LENGTHS, Task
from ...rules.backoff import MAX_DELAY, BackoffLike, as_backoff, default_max_attempts, to_json
from ...rules.calls import Call
from ...rules.lanes.declarations import Declaration, declaration_of
from ...rules.lanes.templates import checked_name, filled
from ...rules.payload import Budget, canonical, check_size, checked_text, dump
from ...rules.policy import RetryPolicy, check_max_attempts, check_timeout, policy_of, read_timeout
from ..ids import new_id, rising_ids
from ..lease import current_lease
from . import discovery
from .announce import tell_enqueued
from .around import canonical_metadata
from .backlog import store
from .bulk import home_of, store_each
from .expiry import checked_instant, set_expiry
from .new_tasks import BLANK, CHUNK, filled_in
from .signature import Callee, callee_of, unknown_option
from .unique import set_conflict

logger = logging.getLogger("django_tasks_retry")


NO_ARGUMENTS: tuple[Any, ...] = ()
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Request(NamedTuple):
    """What a user asks for. None means: as the task's policy says, else the backend's default."""

    func: Callable[..., Any]
    args: Iterable[Any] = NO_ARGUMENTS
    kwargs: Mapping[str, Any] = NOTHING
    eta: datetime | timedelta | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    backoff: BackoffLike | None = None
    timeout: float | timedelta | None = None
    interval: float | timedelta = 0
    unique_key: str | None = None
    metadata: Mapping[str, Any] = NOTHING
    backend: str | None = None
    lane: str | None = None
    expires: datetime | timedelta | None = None
    on_conflict: str | None = None
    debounce: float | timedelta | None = None
    debounce_max: float | timedelta | None = None

    @classmethod
    def with_options(cls, func: Callable[..., Any], **options: Any) -> Request:
        """A request, or an error that says what an unknown option is called here."""
        for name in options:
            if name not in cls._fields:
                raise UnknownOption(unknown_option(name, cls._fields[3:], func))
        return cls(func, **options)

    @classmethod
    def read(cls, item: Any) -> Request:
        """A request from what `enqueue_many` takes."""
        if type(item) is tuple:
            return cls(*item)
        match item:
            case Request():
                return item
            case Call(func, args, kwargs, options):
                return cls.with_options(func, args=args, kwargs=kwargs, **options)
            case dict() | Mapping():
                return cls.with_options(**item)
            case (func, *rest):
                return cls(func, *rest)
            case _:
                return cls(item)


def enqueue(request: Request) -> Task:
    """Store one call and return it; or raise, and store nothing."""
    return enqueue_many([request])[0]


def enqueue_many(requests: Iterable[Any]) -> list[Task]:
    """Enqueue all or nothing what `Request.read` reads. A task whose unique key is taken comes back as its holder.

    Of a long list, chunks are written before the last is checked. Other iterables may ask the database themselves.
    """
    if isinstance(requests, list | tuple) and len(requests) > CHUNK:
        starts = range(0, len(requests), CHUNK)
        return told(store_each(prepare_chunk(requests[start : start + CHUNK]) for start in starts))
    tasks = prepare_all(requests)
    return told(store(tasks, home_of(tasks))) if tasks else []


def enqueue_stream(requests: Iterable[Any]) -> int:
    """Enqueue all or nothing, and keep none of them in memory. Returns how many were asked for."""
    rest, count = iter(requests), 0
    first: list[Task] = []
    with ExitStack() as whole:
        while tasks := prepare_chunk(islice(rest, CHUNK)):
            using = home_of([*first, *tasks])
            if not first:
                whole.enter_context(transaction.atomic(using=using))
                first = tasks[:1]
            told(store(tasks, using))
            count += len(tasks)
    return count


def told(stored: list[Task]) -> list[Task]:
    tell_enqueued(task for task in stored if not task.is_finished)
    return stored


class Common(NamedTuple):
    """What calls of one function with the same options have in common: checked once for all of them."""

    first: Request
    """Kept, so that no other object takes the identity of one of its options."""
    callee: Callee
    run_after: Any
    backend: str
    columns: dict[str, Any]
    """Of a new task, all of them."""
    lane: Declaration | None
    brought: dict[str, Any]
    """Options that few calls have, and that the task was made with."""


def common_to(request: Request) -> Common:
    registered = registry.resolve(request.func)
    backend = check_backend(request.backend or registered.backend)
    callee = known_callee(registered.func, takes_context=registered.takes_context)
    columns = {
        "func_path": callee.path,
        "queue": checked_queue(registered.queue_name if request.queue is None else request.queue, backend),
        "priority": checked_priority(registered.priority if request.priority is None else request.priority),
        "backend": backend,
        "interval": checked_interval(request.interval),
        **effective_policy(request, policy_of(registered.func), backend),
    }
    return Common(
        request, callee, registered.run_after, backend, BLANK | columns, declaration_of(registered.func),
        brought_by(registered),
    )  # fmt: skip


what_is_shared = attrgetter("func", "queue", "priority", "max_attempts", "timeout", "interval", "backend")


def shared_with(request: Request, common: dict[tuple[int, ...], Common]) -> Common:
    """What was checked for an earlier call with the very same options. A backoff may be a list, which may change."""
    if request.backoff is not None:
        return common_to(request)
    key = tuple(map(id, what_is_shared(request)))
    shared = common.get(key)
    if shared is None:
        shared = common[key] = common_to(request)
    return shared


def prepare_all(requests: Iterable[Any]) -> list[Task]:
    common: dict[tuple[int, ...], Common] = {}
    read = map(Request.read, requests)
    return [prepare(request, common, task_id) for request, task_id in zip(read, rising_ids(), strict=False)]


def prepare_chunk(requests: Iterable[Any]) -> list[Task]:
    """The same of many, with the garbage collector at rest: it would look at the new tasks again and again.

    Not for longer than a chunk: an iterable may be code of the project, whose garbage it is to collect.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return prepare_all(requests)
    finally:
        if was_enabled:
            gc.enable()


def prepare(request: Request, common: dict[tuple[int, ...], Common] | None = None, task_id: UUID | None = None) -> Task:
    """Check everything that can be wrong with a call before anything is written."""
    shared = common_to(request) if common is None else shared_with(request, common)
    args, kwargs = canonical_call(request, shared.backend)
    shared.callee.check(args, kwargs)
    parent = current_lease.get()
    task_id = task_id or new_id()
    task = filled_in(
        shared.columns,
        id=task_id,
        args=args,
        kwargs=kwargs,
        unique_key=None if request.unique_key is None else checked_key(request.unique_key),
        lane=lane_of(request.lane, shared, args, kwargs),
        metadata={} if request.metadata is NOTHING else canonical_metadata(request.metadata, shared.backend),
        run_id=parent.run_id if parent else task_id,
        parent_id=parent.id if parent else None,
    )
    eta: Any = shared.run_after if request.eta is None else request.eta
    if eta is not None:
        set_eta(task, eta)
    if shared.brought or request[FIRST_RARE:] != NOTHING_RARE:
        apply_rare(task, shared.brought | rare_wishes(request))
    return task


def set_eta(task: Task, eta: Any) -> None:
    if isinstance(eta, timedelta):
        task.due_in = checked_delay(eta)
    else:
        task.eta = checked_eta(eta)


def lane_of(wished: str | None, shared: Common, args: list[Any], kwargs: dict[str, Any]) -> str:
    """The lane of this call: as the request says (nothing: none), else as its function's `@lane`."""
    if wished == "" or (wished is None and shared.lane is None):
        return ""
    if wished is None and shared.lane is not None:
        wished = filled(shared.lane.template, shared.callee.arguments(args, kwargs))
    return checked_text(checked_name(wished or ""), "lane")


FIRST_RARE = Request._fields.index("expires")
RARE = Request._fields[FIRST_RARE:]
NOTHING_RARE = (None,) * len(RARE)


def rare_wishes(request: Request) -> dict[str, Any]:
    return {name: value for name, value in zip(RARE, request[FIRST_RARE:], strict=True) if value is not None}


def brought_by(registered: Any) -> dict[str, Any]:
    return {name: value for name in (*RARE, "unique_key") if (value := getattr(registered, name, None)) is not None}


def apply_rare(task: Task, wishes: dict[str, Any]) -> None:
    """Options that few calls have, after all others."""
    brought_key, expires = wishes.pop("unique_key", None), wishes.pop("expires", None)
    task.unique_key = task.unique_key or checked_key(brought_key)
    if expires is not None:
        set_expiry(task, expires)
    if wishes:
        set_conflict(task, **wishes)


def effective_policy(request: Request, policy: RetryPolicy, backend: str) -> dict[str, Any]:
    """The request's own wishes, else the task's policy, else the backend's defaults."""
    defaults = options(backend)
    backoff = policy.backoff if request.backoff is None else registry.check_backoff(as_backoff(request.backoff))
    if request.max_attempts is not None:
        check_max_attempts(request.max_attempts)
    budget = request.max_attempts or (
        policy.budget(defaults.max_attempts)
        if request.backoff is None
        else default_max_attempts(backoff, policy.max_attempts or defaults.max_attempts)
    )
    timeout = policy.timeout or defaults.timeout if request.timeout is None else read_timeout(request.timeout)
    check_timeout(timeout)
    return {"max_attempts": budget, "backoff": to_json(backoff), "timeout": timeout}


def canonical_call(request: Request, backend: str) -> tuple[list[Any], dict[str, Any]]:
    if request.kwargs is NOTHING and (request.args is NO_ARGUMENTS or request.args == []):
        return [], {}
    check_containers(request)
    budget = Budget(options(backend).max_args_size, "The call's arguments")
    args = [canonical(value, ("args", i), budget) for i, value in enumerate(request.args)]
    kwargs = canonical(request.kwargs, "kwargs", budget) if request.kwargs else {}
    budget.spend(len(args))
    if not budget.surely_holds():
        check_size(dump([args, kwargs]), budget.limit, budget.what)
    return args, kwargs


def check_containers(request: Request) -> None:
    if type(request.args) not in {list, tuple} and (
        isinstance(request.args, str | bytes | Mapping) or not isinstance(request.args, Iterable)
    ):
        raise InvalidPayload(f"args={request.args!r}: give a list or a tuple of arguments.")
    if type(request.kwargs) is not dict and not isinstance(request.kwargs, Mapping):
        raise InvalidPayload(f"kwargs={request.kwargs!r}: give a dictionary of arguments.")


def checked_queue(queue: str, backend: str) -> str:
    if not isinstance(queue, str) or not 1 <= len(queue) <= MAX_LENGTHS["queue"]:
        raise InvalidCall(f"queue={queue!r}: give a text of 1 to {MAX_LENGTHS['queue']} characters.")
    return checked_text(check_queue(queue, backend), "queue")


@cache
def known_callee(function: Callable[..., Any], *, takes_context: bool) -> Callee:
    """What is known of a function, found out once. That no worker will find it is no error: another project's may."""
    callee = callee_of(function, takes_context=takes_context)
    if len(callee.path) > MAX_LENGTHS["func_path"]:
        raise InvalidCall(f"The path {callee.path[:60]}… is longer than {MAX_LENGTHS['func_path']} characters.")
    if not discovery.will_be_found(function):
        why, what = discovery.reason(function.__module__), discovery.advice(function.__module__)
        logger.warning("%s was enqueued, but workers will not find it: %s. %s", callee.path, why, what)
    return callee


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not -100 <= priority <= 100:
        raise InvalidCall(f"priority={priority!r}: give a whole number from -100 to 100; larger runs first.")
    return priority


def checked_eta(eta: datetime) -> datetime:
    return checked_instant("eta", eta)


def checked_delay(delay: timedelta) -> float:
    if not timedelta(0) <= delay <= timedelta(seconds=MAX_DELAY):
        raise InvalidCall(f"eta={delay!r}: give a timedelta from zero to ten years, counted from now.")
    return delay.total_seconds()


def checked_interval(interval: float | timedelta) -> float:
    try:
        seconds = round(as_seconds(interval), 3)
    except (TypeError, ValueError):
        seconds = -1.0
    if (interval and not seconds) or not 0 <= seconds <= MAX_DELAY:
        raise InvalidCall(
            f"interval={interval!r}: give seconds between repetitions, from 0.001 to ten years; 0 for none."
        )
    return seconds


def checked_key(key: str | None) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_LENGTHS["unique_key"]:
        raise InvalidCall(f"unique_key={key!r}: give a text of 1 to {MAX_LENGTHS['unique_key']} characters.")
    return checked_text(key, "unique_key")
