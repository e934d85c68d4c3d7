"""Checks of a call before anything is written: does it fit its function, can it be stored, are its options in range."""

import inspect
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.utils import timezone

from ... import registry
from ...conf import check_queue
from ...conf import options as backend_options
from ...durations import MORE_THAN_ZERO, checked_seconds, in_seconds
from ...errors import InvalidCall, InvalidPayload, WrongArguments
from ...models import MAX_LENGTHS, Task
from ...rules.backoff import as_backoff, default_max_attempts, to_json
from ...rules.names import path_of
from ...rules.payload import Budget, canonical, check_size, checked_name, dump, encoded
from ...rules.policy import RetryPolicy, check_max_attempts, check_timeout
from ...utc import as_instant
from ..new_tasks import FIRST_YEAR, LAST_YEAR
from ..typed import TypedCall
from . import discovery
from .options import NO_ARGUMENTS, NOTHING, OPTIONS_ELSEWHERE, EnqueueOptions, as_option

logger = logging.getLogger("django_tasks_retry")
MOST_SHOWN = 200
UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


class Callee(NamedTuple):
    """The parameters of a function. Calls all by place, or all by name, need not be bound to be checked."""

    path: str
    least: float
    most: float
    needed: frozenset[str]
    named: frozenset[str]
    signature: inspect.Signature | None
    """The signature without the context; None if it cannot be known, and every call passes."""

    def surely_fits(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        if kwargs:
            return not args and self.needed <= kwargs.keys() <= self.named
        return self.least <= len(args) <= self.most

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if self.signature is None or self.surely_fits(args, kwargs):
            return
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as misfit:
            raise WrongArguments(self.explain(str(misfit))) from None

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of a call that fits, by parameter; the keywords alone if parameters cannot be known."""
        if self.signature is None:
            return kwargs
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def explain(self, misfit: str) -> str:
        call = f"{self.path}{shown(self.signature)}"
        return f"{call[:MOST_SHOWN]} cannot take this call: {misfit}.{self.hint(misfit)}"

    def hint(self, misfit: str) -> str:
        found = UNEXPECTED.search(misfit)
        if found is None or self.signature is None:
            return ""
        name = found[1]
        if OPTIONS_ELSEWHERE.get(name):
            return (
                f" {name} is no option of this queue: write Task.objects.enqueue(…, {as_option(name)}) "
                "or use using(run_after=…, queue_name=…, priority=…)."
            )
        close = get_close_matches(name, list(self.signature.parameters), n=1)
        return f" Did you mean {close[0]!r}?" if close else ""


def callee_of(function: Callable[..., Any], *, takes_context: bool) -> Callee:
    """Read the callable itself: a decorator may take other arguments than the function that it wraps."""
    path, parameters = path_of(function), parameters_of(function)
    if parameters is None:
        return Callee(path, 0, math.inf, frozenset(), frozenset(), None)
    if takes_context and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    by_place = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_name = [each for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needs_name = any(each.kind is each.KEYWORD_ONLY for each in filter(is_needed, by_name))
    takes_more = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    return Callee(
        path,
        least=math.inf if needs_name else sum(map(is_needed, by_place)),
        most=math.inf if takes_more else len(by_place),
        needed=frozenset(each.name for each in parameters if is_needed(each)),  # by place alone: bound, and refused
        named=frozenset(each.name for each in by_name),
        signature=inspect.Signature(parameters),
    )


def is_needed(parameter: inspect.Parameter) -> bool:
    variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not variable


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters; None if they cannot be trusted: `functools.wraps` copies a `__signature__`."""
    if getattr(function, "__signature__", None) is not None:
        return None
    try:
        return list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):  # not written in Python
        return None


def shown(signature: inspect.Signature | None) -> str:
    """Names and defaults; without types, which may be strings."""
    if signature is None:
        return "(…)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    try:
        return str(signature.replace(parameters=plain))
    except Exception:  # noqa: BLE001 - the repr() of a default
        return "(…)"


@cache
def known_callee(function: Callable[..., Any], *, takes_context: bool) -> Callee:
    """Read a function once. That no worker will find it is only a warning: workers of another project may."""
    callee = callee_of(function, takes_context=takes_context)
    if len(callee.path) > MAX_LENGTHS["func_path"]:
        raise InvalidCall(f"The path {callee.path[:60]}… is longer than {MAX_LENGTHS['func_path']} characters.")
    if not discovery.will_be_found(function):
        why, what = discovery.discovery_reason(function.__module__), discovery.discovery_advice(function.__module__)
        logger.warning("%s was enqueued, but workers will not find it: %s. %s", callee.path, why, what)
    return callee


def canonical_call(
    options: EnqueueOptions, backend: str, callee: Callee, typed: TypedCall | None
) -> tuple[list[Any], dict[str, Any]]:
    if options.kwargs is NOTHING and (options.args is NO_ARGUMENTS or options.args == []):
        return [], {}
    check_containers(options)
    budget = Budget(backend_options(backend).max_args_size, "The call's arguments")
    given: tuple[Iterable[Any], Mapping[str, Any]] = options.args, options.kwargs
    if typed is not None:
        positional = list(options.args)
        callee.check(positional, options.kwargs)
        given = typed.write(positional, options.kwargs)
    args = [canonical(value, ("args", i), budget) for i, value in enumerate(given[0])]
    kwargs = canonical(given[1], "kwargs", budget) if given[1] else {}
    budget.spend(len(args))
    if not budget.surely_holds():
        check_size(dump([args, kwargs]), budget.limit, budget.what)
    return args, kwargs


def check_containers(options: EnqueueOptions) -> None:
    if type(options.args) not in {list, tuple} and (
        isinstance(options.args, str | bytes | Mapping) or not isinstance(options.args, Iterable)
    ):
        raise InvalidPayload(f"args={options.args!r}: give a list or a tuple of arguments.")
    if options.kwargs is not NOTHING and type(options.kwargs) is not dict and not isinstance(options.kwargs, Mapping):
        raise InvalidPayload(f"kwargs={options.kwargs!r}: give a dictionary of arguments.")


def canonical_metadata(metadata: object, backend: str) -> dict[str, Any]:
    if not isinstance(metadata, Mapping):
        raise InvalidPayload(f"metadata={metadata!r}: give a dictionary.")
    if not metadata:
        return {}
    stored: dict[str, Any] = encoded(metadata, "metadata", backend_options(backend).max_args_size)[0]
    return stored


def effective_policy(options: EnqueueOptions, policy: RetryPolicy, backend: str) -> dict[str, Any]:
    """The call's own options, else the task's policy, else the backend's defaults."""
    defaults = backend_options(backend)
    backoff = policy.backoff if options.backoff is None else registry.check_backoff(as_backoff(options.backoff))
    if options.max_attempts is not None:
        check_max_attempts(options.max_attempts)
    budget = options.max_attempts or (
        policy.budget(defaults.max_attempts)
        if options.backoff is None
        else default_max_attempts(backoff, policy.max_attempts or defaults.max_attempts)
    )
    timeout = policy.timeout or defaults.timeout if options.timeout is None else in_seconds(options.timeout)
    check_timeout(timeout)
    return {"max_attempts": budget, "backoff": to_json(backoff), "timeout": timeout}


def checked_queue(queue: str, backend: str) -> str:
    return check_queue(checked_name(queue, "queue", MAX_LENGTHS["queue"]), backend)


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not -100 <= priority <= 100:
        raise InvalidCall(f"priority={priority!r}: give a whole number from -100 to 100; larger runs first.")
    return priority


def checked_delay(delay: timedelta) -> float:
    wrong = InvalidCall(f"eta={delay!r}: give a timedelta from zero to ten years, counted from now.")
    return checked_seconds(delay, wrong)


def checked_interval(interval: float | timedelta) -> float:
    wrong = InvalidCall(
        f"interval={interval!r}: give seconds between repetitions, from 0.001 to ten years; 0 for none."
    )
    seconds = round(checked_seconds(interval, wrong), 3)
    if interval and not seconds:
        raise wrong
    return seconds


def checked_key(key: str | None) -> str | None:
    return None if key is None else checked_name(key, "unique_key", MAX_LENGTHS["unique_key"])


def set_eta(task: Task, eta: Any) -> None:
    if isinstance(eta, timedelta):
        task.due_in = checked_delay(eta)
    else:
        task.eta = checked_instant("eta", eta)


def set_end(task: Task, name: str, end: Any) -> None:
    """Set `expires` or `deadline`, an instant or a delay; InvalidCall if the task could never start."""
    if task.interval:
        raise InvalidCall(
            f"{name}= and interval=: an occurrence that is cancelled would end the series. "
            "Use a schedule, whose `misfire_grace` gives up a slot that is past."
        )
    if isinstance(end, timedelta):
        wrong = InvalidCall(f"{name}={end!r}: give a timedelta of more than zero and at most ten years.")
        setattr(task, f"{name}_in", checked_seconds(end, wrong, least=MORE_THAN_ZERO))
    else:
        setattr(task, f"{name}_at", checked_instant(name, end))
    if is_over_before_due(task, name):
        raise InvalidCall(f"{name}={end!r}: it would expire before it is due. Give a later time than its eta.")


def is_over_before_due(task: Task, name: str) -> bool:
    """False if one is an instant and the other a delay: only the database can compare them."""
    eta, at, after = task.eta, getattr(task, f"{name}_at"), getattr(task, f"{name}_in")
    if at is not None and eta is not None:
        return bool(at <= eta)
    return bool(after and eta is None and after <= task.due_in)


def checked_instant(name: str, value: Any) -> datetime:
    if not isinstance(value, datetime) or (settings.USE_TZ and timezone.is_naive(value)):
        wanted = "an aware" if settings.USE_TZ else "a"
        raise InvalidCall(
            f"{name}={value!r}: give {wanted} datetime (USE_TZ is {settings.USE_TZ}), such as "
            "timezone.now() + timedelta(minutes=5), or a timedelta."
        )
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise InvalidCall(f"{name}={value!r}: give a year from {FIRST_YEAR} to {LAST_YEAR}.")
    return as_instant(value)
