"""Effects: calls to the outside, with an intent committed before the call and an outcome after it, under the fence.

An intent without an outcome is unknown: the worker died, or the call raised. It is never repeated without a reason.
"""

from collections.abc import Callable, Generator, Iterable
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from django.db import transaction

from ...errors import Abort, IllegalMove, InvalidCall, Suspend
from ...models import Step, Task
from ...rules.backoff import MAX_DELAY
from ...rules.payload import checked_name
from ..database import database
from ..events import actor_of, write_operator_event
from ..reading import read_rows
from .members import signal_key
from .steps import StepKind, StepStore
from .wake import received, signal

Unknown: TypeAlias = Literal["ask", "repeat", "skip"]
POLICIES = ("ask", "repeat", "skip")
LONGEST_NAME = 140
INTENT = ":intent-"
"""Stands between the name of an effect and the number of its intent, which are the name of the intent's step."""

ASKED = "effect:"
MOST = 200  # failed and retrying tasks that are searched for unknown effects; of those that wait for an answer, all are


def perform_effect(
    steps: StepStore, name: str, call: partial[Any], key: str, resolve: Callable[[str], Any] | None, unknown: str
) -> Generator[partial[Any], Any, None]:
    """Yield the calls to make, and be sent what they return. At the end the step of this name has the outcome."""
    if unknown not in POLICIES:
        raise InvalidCall(f"unknown={unknown!r}: give one of {', '.join(POLICIES)}.")
    checked_name(name, "name", LONGEST_NAME)
    if steps.enter(name, StepKind.EFFECT):
        return
    intents, because = sum(step.rpartition(INTENT)[0] == name for step in steps.recorded), ""
    key = key or f"{steps.lease.id}:{name}"
    if intents:
        answer = answer_to(steps, name, intents)
        if answer is None and resolve is not None:
            found = yield partial(resolve, key)
            answer = {"happened": found is not None, "result": found, "by": "resolve"}
        answer = answer or answer_by(unknown, steps, name, intents)
        if answer["happened"]:
            steps.save(name, StepKind.EFFECT, answer["result"])
            return
        because = str(answer["by"])
    steps.save(f"{name}{INTENT}{intents + 1}", StepKind.INTENT, {"key": key, "because": because})
    steps.save(name, StepKind.EFFECT, (yield call))


def answer_by(unknown: str, steps: StepStore, name: str, intents: int) -> dict[str, Any]:
    """Answer by the policy; if that is to ask, wait for a person."""
    if unknown == "ask":
        asked = signal_key(question(steps.lease.id, name, intents))
        raise Suspend(f"asks whether the effect {name} happened", MAX_DELAY, asked)
    return {"happened": unknown == "skip", "result": None, "by": f"unknown={unknown}"}


def question(task: UUID, name: str, intents: int) -> str:
    """Return the name of the signal that answers."""
    return f"{ASKED}{task}:{intents}:{name}"


def answer_to(steps: StepStore, name: str, intents: int) -> dict[str, Any] | None:
    found = received(question(steps.lease.id, name, intents), database(steps.lease.backend))
    if found is None:
        return None
    if not isinstance(found.payload, dict) or not isinstance(found.payload.get("happened"), bool):
        raise Abort(f"The signal for the effect {name} by {found.actor} does not say whether it happened.")
    return {"result": None, **found.payload, "by": found.actor}


# For people


class UnknownEffect(NamedTuple):
    task: Task
    name: str
    intents: int
    key: str
    since: datetime
    is_asked: bool  # whether the task waits for the answer of a person


def unknown_effects(using: str, tasks: Iterable[Task] | None = None) -> list[UnknownEffect]:
    """Return intents without an outcome, of these tasks or of all that do not run."""
    ids = suspects(using) if tasks is None else [task.pk for task in tasks]
    steps = Step.objects.using(using).filter(task_id__in=ids, kind__in=(StepKind.INTENT, StepKind.EFFECT))
    noted = read_rows(steps.order_by("pk"))
    if tasks is None:
        some = Task.objects.using(using).filter(pk__in={step.task_id for step in noted})
        tasks = read_rows(some.defer("args", "kwargs", "metadata", "last_error"))
    by_id = {task.pk: task for task in tasks}
    found: dict[tuple[UUID, str], UnknownEffect] = {}
    for step in noted:
        if step.kind == StepKind.EFFECT:
            found.pop((step.task_id, step.name), None)
            continue
        name, _, number = step.name.rpartition(INTENT)
        if step.task_id not in by_id or not (number.isascii() and number.isdigit()):
            continue  # deleted meanwhile, or none that a task of ours wrote
        task, result = by_id[step.task_id], step.result if isinstance(step.result, dict) else {}
        is_asked = task.waits_for == signal_key(question(task.pk, name, int(number)))
        found[task.pk, name] = UnknownEffect(task, name, int(number), str(result.get("key", "")), step.ts, is_asked)
    return list(found.values())


def suspects(using: str) -> list[UUID]:
    """Return the tasks that ask, and the newest of those that failed or will be tried again."""
    of = Task.objects.using(using)
    asking = of.suspended().filter(waits_for__startswith=signal_key(ASKED)).order_by("pk")
    others = (of.failed().order_by("-pk"), of.retrying().filter(waits_for=None).order_by("-pk"))
    return [*chain.from_iterable(some.values_list("pk", flat=True) for some in (asking, *(o[:MOST] for o in others)))]


def answer_effect(
    task: Task, name: str, *, happened: bool, result: Any = None, by: Any = None, reason: str = "", backend: str
) -> None:
    """Say whether an unknown effect of a waiting task happened, and with which result. The task goes on."""
    using = database(backend)
    found = next((each for each in unknown_effects(using, [task]) if each.name == name and each.is_asked), None)
    if found is None:
        raise IllegalMove(f"Task {task.pk} asks nobody about an effect {name!r}.")
    with transaction.atomic(using=using):
        payload = {"happened": happened, "result": result, "reason": reason}
        if not signal(question(task.pk, name, found.intents), payload, by=by, backend=backend):
            raise IllegalMove(f"The question of task {task.pk} about the effect {name!r} was answered before.")
        data = {"effect": name, "happened": happened}
        write_operator_event("effect.answered", str(task.pk), actor_of(by), reason, using, data)
