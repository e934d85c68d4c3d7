"""A stored call, bound to its function: with the types that its annotations promise, or why it cannot be called."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import Error

from ...errors import NewerFormat, PayloadUnavailable
from ...payloads import opened_call
from ...registry import AnyTask
from ...rules.failure import Code, capture
from ...rules.policy import policy_of
from ...taskqueue import Failed, Lease, Outcome, Released
from ...taskqueue.enqueue import Callee, callee_of
from ...taskqueue.typed import model_references, typed_call


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A task's function with everything it is called with."""

    task: AnyTask
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def is_atomic(self) -> bool:
        return policy_of(self.task.func).atomic

    def __call__(self) -> Any:
        return self.task.func(*self.args, **self.kwargs)


def bound(lease: Lease, task: AnyTask, context: tuple[Any, ...]) -> BoundCall | Outcome:
    """Bind the arguments, as the function's annotations promise them; classes of the project may read them."""
    typed = typed_call(task.func, takes_context=task.takes_context)
    try:
        args, kwargs = typed.read(lease.args, lease.kwargs) if typed else (lease.args, lease.kwargs)
        call = BoundCall(task, (*context, *args), kwargs)
        check_call(task, call.args, kwargs)
    except NewerFormat as newer:
        return Released(lease, str(newer), delay=1.0)
    except TypeError as misfit:
        return Failed(lease, capture(misfit, Code.BAD_ARGUMENTS))
    except Error:
        return Released(lease, "instances among its arguments could not be loaded", delay=1.0)
    except BaseException as error:
        return Failed(lease, error)
    return call


def opened_lease(lease: Lease) -> Lease | Outcome:
    """Return the lease with its arguments, which are encrypted or stored elsewhere."""
    try:
        args, kwargs = opened_call(lease)
    except NewerFormat as newer:
        return Released(lease, str(newer), delay=1.0)
    except PayloadUnavailable as lost:
        return Failed(lease, capture(lost, Code.UNREADABLE))
    except Exception as error:
        return Released(lease, f"its arguments could not be read from their storage: {error!r}", delay=1.0)
    except BaseException as error:
        return Failed(lease, error)
    return lease._replace(args=args, kwargs=kwargs)


def has_instances(lease: Lease, task: AnyTask) -> bool:
    typed = typed_call(task.func, takes_context=task.takes_context)
    return typed is not None and any(model_references([lease.args, lease.kwargs]))


def check_call(task: AnyTask, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError if the function cannot be called so."""
    callee = callee_by_place(task.func)
    if callee.signature is None or not callee.surely_fits(args, kwargs):
        signature_of(task.func).bind(*args, **kwargs)


@cache
def callee_by_place(function: Callable[..., Any]) -> Callee:
    """Return the callee, with the context as an argument like others."""
    return callee_of(function, takes_context=False)


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of the callable itself: a decorator may take other arguments than what it wraps."""
    return inspect.signature(function, follow_wrapped=False)
