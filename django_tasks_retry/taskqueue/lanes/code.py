"""What is wrong with lanes that stand in code."""

from __future__ import annotations

from collections.abc import Iterator

from ... import registry
from ...rules.lanes.declarations import Declaration, declaration_of
from ...rules.lanes.templates import MAX_LANE, RESERVED, wrong_with
from ...rules.names import path_of
from ..producer.signature import callee_of


def lane_problems() -> Iterator[tuple[str, str]]:
    """Where it stands, and what is wrong."""
    said: dict[str, tuple[str, Declaration]] = {}
    for task in registry.registered():
        declared = declaration_of(task.func)
        if declared is None:
            continue
        path, template = path_of(task.func), declared.template
        callee = callee_of(task.func, takes_context=task.takes_context)
        names = None if callee.signature is None else frozenset(callee.signature.parameters)
        if why := wrong_with(template, names) or badly_named(template):
            yield path, f"the lane {template!r} cannot be filled in: {why}"
        elif template in said and said[template][1] != declared:
            yield path, f"the lane {template!r} has other limits than {said[template][0]} gives it"
        else:
            said[template] = path, declared


def badly_named(template: str) -> str:
    if template.startswith(RESERVED):
        return f"{' and '.join(RESERVED)} begin the names of whole queues and functions"
    return f"it is longer than {MAX_LANE} characters" if len(template) > MAX_LANE else ""
