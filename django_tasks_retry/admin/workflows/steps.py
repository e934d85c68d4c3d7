"""What a task remembers, as its page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from ...display.events import as_mapping
from ...display.explanations.waiting import BatchCounts, batch_counts
from ...display.formatting import one_line
from ...display.reading import read_rows
from ...display.redact import redacted_json
from ...models import Step, Task, TaskEvent
from ...taskqueue.workflows.memory import Kind

MAX_STEPS = 200
KINDS: dict[str, str | Promise] = {
    Kind.STEP: gettext_lazy("step"),
    Kind.SLEEP: gettext_lazy("sleep"),
    Kind.WAIT: gettext_lazy("deadline"),
    Kind.SIGNAL: gettext_lazy("signal"),
    Kind.BATCH: gettext_lazy("batch"),
    Kind.MEMBERS: gettext_lazy("members"),
}


@dataclass(frozen=True, slots=True)
class StepRow:
    ts: datetime
    name: str
    kind: str
    attempt: int
    result: str
    batch: UUID | None
    counts: BatchCounts | None
    is_left_behind: bool


def steps_of(task: Task, using: str) -> list[Step]:
    return read_rows(Step.objects.using(using).filter(task_id=task.pk).order_by("id")[:MAX_STEPS])


def step_rows(
    steps: list[Step], events: Sequence[TaskEvent], request: HttpRequest, using: str, *, can_see_payload: bool
) -> list[StepRow]:
    left = {name for event in events for name in as_mapping(event.data).get("left_behind") or ()}
    return [step_row(step, left, request, using, can_see_payload=can_see_payload) for step in steps]


def step_row(step: Step, left: set[str], request: HttpRequest, using: str, *, can_see_payload: bool) -> StepRow:
    batch = named_batch(step.result) if step.kind in (Kind.BATCH, Kind.MEMBERS) else None
    shown = can_see_payload and batch is None and step.result is not None
    return StepRow(
        step.ts,
        one_line(step.name, 220),
        str(KINDS.get(step.kind, one_line(step.kind))),
        step.attempt,
        redacted_json(step.result, request) if shown else "",
        batch,
        batch_counts(batch, using) if batch is not None else None,
        step.name in left,
    )


def named_batch(result: Any) -> UUID | None:
    try:
        return UUID(result["batch"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
