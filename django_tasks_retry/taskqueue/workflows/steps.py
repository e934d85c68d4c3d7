"""The steps of a task: named results, written under the fence of the attempt."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery

from ...clock import now
from ...conf import options
from ...errors import InvalidCall, InvalidPayload, UnstorableResult
from ...models import MAX_NAME, Step
from ...payloads import hidden, hides, opened
from ...rules.payload import checked_name, dump, encoded
from ..database import database
from ..engines import engine_for
from ..lease import Lease
from ..renewal import open_transactions, outlasts, raise_lost
from ..typed import read_returned, write_returned

CALLBACK = "then"  # the step that names the batch of a callback
UNTIL = ":until"  # suffix of the step that holds the deadline of a wait for a signal


class StepKind(StrEnum):
    STEP = "step"
    SLEEP = "sleep"
    WAIT = "wait"
    SIGNAL = "signal"
    BATCH = "batch"
    MEMBERS = "members"
    INTENT = "intent"
    EFFECT = "effect"


HIDDEN = (StepKind.WAIT, StepKind.INTENT)  # steps that stand beside another, which has the name that the code gives


@dataclass(slots=True)
class StepStore:
    """The recorded steps of a task, and those that this attempt has entered."""

    lease: Lease
    transactions: int = 0  # atomic blocks that were open when the attempt began
    entered: set[str] = field(default_factory=set)
    loaded: dict[str, tuple[str, Any]] | None = None

    @property
    def recorded(self) -> dict[str, tuple[str, Any]]:
        """Kind and result by name. Read once: nobody else can add to them while this lease holds."""
        if self.loaded is None:
            rows = engine_for(database(self.lease.backend)).fetch("steps", {"id": self.lease.id.hex})
            self.loaded = {name: (kind, None if text is None else json.loads(text)) for name, kind, text in rows}
        return self.loaded

    def enter(self, name: str, kind: StepKind) -> bool:
        """Return whether the step is recorded. Each name may come once in an attempt."""
        checked_name(name.removesuffix(UNTIL) if kind is StepKind.WAIT else name, "name", MAX_NAME)
        self.check_transaction(name)
        if name in self.entered:
            raise InvalidCall(
                f"Step {name!r} comes twice in one attempt, so its result would be taken for the other's. "
                "Give each a name of its own; in a loop, number them."
            )
        self.entered.add(name)
        known = self.recorded.get(name)
        if known is not None and known[0] != kind:
            raise InvalidCall(
                f"Step {name!r} was recorded as a {known[0]} and is a {kind} in the code now. "
                "Give it another name, and it runs anew."
            )
        return known is not None

    def check_transaction(self, name: str) -> None:
        if open_transactions(self.lease.backend) > self.transactions:
            raise InvalidCall(
                f"Step {name!r} stands in a transaction, which would roll it back or keep its task locked. Do without "
                "@retry(atomic=True) and transaction.atomic(), and use step(…, atomic=True) for what commits together."
            )

    @property
    def unused(self) -> list[str]:
        """Names of recorded steps that this attempt did not enter."""
        given = {CALLBACK, *self.entered}
        loaded = (self.loaded or {}).items()
        return [name for name, (kind, _) in loaded if name not in given and kind not in HIDDEN]

    def result(self, name: str, function: Callable[..., Any] | None = None) -> Any:
        return read_returned(function, opened(self.recorded[name][1], self.lease.backend, self.lease.id))

    def save(self, name: str, kind: StepKind, result: Any, function: Callable[..., Any] | None = None) -> Any:
        """Record the result and return it as it will be read; LeaseLost if this attempt may not write."""
        self.recorded[name] = (kind, save_step(self.lease, name, kind, result, function))
        return self.result(name, function)


def save_step(lease: Lease, name: str, kind: StepKind, result: Any, function: Callable[..., Any] | None) -> Any:
    stored, text = storable(lease, name, result, function)
    if kind in {StepKind.STEP, StepKind.EFFECT} and stored is not None and hides(lease.backend):
        form = hidden(text, lease.backend, lease.id)
        text = text if form is None else dump(form)
    remember = partial(engine_for(database(lease.backend)).remember, lease, name, kind, text)
    if remember() is None and not (outlasts(lease) and remember()):
        raise_lost(lease)
    return stored


def storable(lease: Lease, name: str, result: Any, function: Callable[..., Any] | None) -> tuple[Any, str]:
    """Return a result as JSON and as its text."""
    what = f"The result of step {name!r}"
    try:
        return encoded(write_returned(function, result, what), what, options(lease.backend).max_result_size)
    except InvalidPayload as unfit:
        raise UnstorableResult(str(unfit)) from unfit


NOT_COPIED = Q(kind=StepKind.WAIT) | Q(kind=StepKind.SIGNAL, result__isnull=True)
"""A retry waits anew for a signal that did not come in time."""


def insert_steps(steps: Iterable[tuple[UUID, str, str, Any]], using: str) -> None:
    """Give new tasks steps before their first attempt."""
    moment = now(using)
    Step.objects.using(using).bulk_create(
        Step(task_id=task_id, name=name, kind=kind, attempt=0, actor="queue", ts=moment, result=result)
        for task_id, name, kind, result in steps
    )


def copy_steps(retries: Mapping[UUID, UUID], using: str, *, resume: bool, before: str = "") -> None:
    """Copy steps to retries: all, or those before the named one, if they resume; else only the batch of a callback."""
    steps = Step.objects.using(using).filter(task_id__in=list(retries)).exclude(NOT_COPIED).order_by("pk")
    if not resume:
        steps = steps.filter(name=CALLBACK, kind=StepKind.BATCH, attempt=0)
    if resume and before:
        named = Step.objects.using(using).filter(task_id=OuterRef("task_id"), name=before)
        steps = steps.filter(pk__lt=Subquery(named.values("pk")[:1]))
    rows = steps.values_list("task_id", "name", "kind", "result")
    insert_steps([(retries[task_id], name, kind, result) for task_id, name, kind, result in rows], using)
