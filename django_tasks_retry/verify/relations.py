"""Promises between tasks: followers, gathered batches and their counts. Read by keys, for a page of tasks at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.db.models.fields.json import KeyTextTransform

from ..models import Step, Task
from ..models.querysets import TaskQuerySet
from .history import Breach, StepRow, TaskHistory
from .rules import ARRIVAL_SECONDS


def broken_relations(lives: Sequence[TaskHistory], using: str, kept_since: float) -> Iterator[Breach]:
    """Check one page. Members of batches that began before `kept_since` may have been pruned."""
    yield from early_followers(lives, using)
    for life in lives:
        for step in life.steps:
            # A retry is given copies of the steps that were recorded before it.
            if step.kind == "batch" and step.batch and (step.attempt > 0 or life.row.retry_of is None):
                yield from early_ends(life, step, using)
                yield from wrong_count(life, step, using, may_be_pruned=step.at < kept_since)


def early_followers(lives: Sequence[TaskHistory], using: str) -> Iterator[Breach]:
    followers = [life for life in lives if life.row.follows and life.first("running")]
    ahead = Task.objects.using(using).filter(pk__in={life.row.follows for life in followers})
    ends = dict(ahead.values_list("pk", "finished_at")) if followers else {}
    for life in followers:
        claim, pruned = life.first("running"), life.row.follows not in ends
        ended = ends.get(life.row.follows)
        if claim and not pruned and (ended is None or claim.at < ended.timestamp() - ARRIVAL_SECONDS):
            yield Breach("follows", life.task, f"began before {life.row.follows} had ended, which it follows")


def early_ends(life: TaskHistory, step: StepRow, using: str) -> Iterator[Breach]:
    """Compare with members that were enqueued before the last attempt began; a retry of a member came later."""
    went_on = went_on_at(life, step)
    claims = [event.at for event in life.events if event.kind == "running" and event.at <= (went_on or 0)]
    if went_on is None or not claims:
        return
    members = members_of(step.batch, using).filter(retry_of=None, created_at__lt=moment(claims[-1]))
    late = Q(finished_at=None) | Q(finished_at__gt=moment(went_on + ARRIVAL_SECONDS))
    for member in members.filter(late).values_list("pk", flat=True)[:1]:
        yield Breach("gather", life.task, f"went on after {step.name!r} before its member {member} had ended")


def went_on_at(life: TaskHistory, step: StepRow) -> float | None:
    """Return when the task went on with the results of the batch; None if nothing tells.

    A task that gathers may fail at any time, so only its success tells. A callback starts when its batch has ended,
    unless a person wanted it earlier.
    """
    if step.attempt > 0:
        completed = life.first("completed")
        return completed.at if completed else None
    wanted = any(event.kind == "rescheduled" and event.actor != "queue" for event in life.events)
    claim = life.first("running")
    return None if wanted or claim is None else claim.at


def wrong_count(life: TaskHistory, step: StepRow, using: str, *, may_be_pruned: bool) -> Iterator[Breach]:
    counted, stored = count_in_steps(step, using), originals(step.batch, using).count()
    # More may be added between the two readings, so the first is repeated.
    if counted == stored or (stored < counted and may_be_pruned) or counted != count_in_steps(step, using):
        return
    yield Breach("batches", life.task, f"step {step.name!r} and its members count {counted} members; {stored} exist")


def count_in_steps(step: StepRow, using: str) -> int:
    """Add up the members that the step began with, and those that members added."""
    added = Step.objects.using(using).filter(task__batch=step.batch, kind="members", attempt__gt=0)
    counts = added.values_list(KeyTextTransform("count", "result"), flat=True)
    return step.count + sum(map(as_count, counts.iterator()))


def members_of(batch: UUID | None, using: str) -> TaskQuerySet:
    members: TaskQuerySet = Task.objects.using(using).filter(batch=batch)
    return members


def originals(batch: UUID | None, using: str) -> TaskQuerySet:
    """Return the members without their retries."""
    earlier = Task.objects.filter(pk=OuterRef("retry_of"), batch=batch)
    return members_of(batch, using).filter(Q(retry_of=None) | ~Exists(earlier))


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def as_count(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0


def as_batch(text: object) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None
