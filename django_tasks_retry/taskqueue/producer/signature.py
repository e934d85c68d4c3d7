"""Whether a call fits its function, as far as the function itself can tell."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from ...errors import WrongArguments
from ...rules.names import path_of

MOST_SHOWN = 200
UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")

OPTIONS_ELSEWHERE = {
    "countdown": "eta=timedelta(seconds=…)",
    "delay": "eta=timedelta(seconds=…)",
    "headers": "metadata",
    "max_retries": "max_attempts",
    "queue_name": "queue",
    "retries": "max_attempts",
    "routing_key": "queue",
    "run_after": "eta",
    "run_at": "eta",
    "schedule": "eta",
    "soft_time_limit": "timeout",
    "task_id": "unique_key",
    "time_limit": "timeout",
}
"""What other queues call options of `Task.objects.enqueue()`."""


class Callee(NamedTuple):
    """What a function takes. Calls all by place, or all by name, need not be bound to be answered."""

    path: str
    least: float
    most: float
    needed: frozenset[str]
    named: frozenset[str]
    signature: inspect.Signature | None
    """Without the context; None where it cannot be known, and everything is let through."""

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
        """A call that fits, by the names of the parameters; by name alone where those cannot be known."""
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


def as_option(name: str) -> str:
    option = OPTIONS_ELSEWHERE[name]
    return option if "=" in option else f"{option}=…"


def callee_of(function: Callable[..., Any], *, takes_context: bool) -> Callee:
    """Of the callable itself: a decorator may take other arguments than the function that it wraps."""
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
    """None where they cannot be trusted: `functools.wraps` copies a `__signature__` that is another function's."""
    if getattr(function, "__signature__", None) is not None:
        return None
    try:
        return list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):  # not written in Python
        return None


def shown(signature: inspect.Signature | None) -> str:
    """Names and defaults; without types, which may be texts."""
    if signature is None:
        return "(…)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    try:
        return str(signature.replace(parameters=plain))
    except Exception:  # noqa: BLE001 - the repr() of a default
        return "(…)"


def unknown_option(name: str, known: Sequence[str], function: Any) -> str:
    """What to write instead of an option that `Task.objects.enqueue()` does not have."""
    if name in parameters_named(function):
        return f"{name}= is an argument of the function: give it as kwargs={{{name!r}: …}}."
    if OPTIONS_ELSEWHERE.get(name):
        return f"Unknown option {name}=. Did you mean {as_option(name)}?"
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]}=?" if close else f"The options are {', '.join(known)}."
    return f"Unknown option {name}=. {hint}"


def parameters_named(function: Any) -> set[str]:
    try:
        return set(inspect.signature(getattr(function, "func", function)).parameters)
    except (TypeError, ValueError):
        return set()
