"""Compare the first failure of a group with the last success before it: what changed since it last worked?

Every question is bounded: successes are searched among the tasks enqueued shortly before, arguments in samples.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..display.events import actor_names
from ..display.formatting import format_elapsed, format_moment, format_number, one_line
from ..display.redact import visible_reason
from ..models import OperatorEvent, Task, TaskEvent, TaskQuerySet, Worker
from ..rules.names import first_of, worker_of
from ..rules.transitions import EventKind
from ..selection.payload import COLUMNS, visible_arguments
from ..taskqueue import read_row, read_rows, statistics
from ..taskqueue.events import ASKED, PROPOSED
from ..utc import as_instant, in_project_time
from .contrast import About, Difference, Fact, differences, facts_of

SAMPLE = 200
MOST = 10


@dataclass(frozen=True, slots=True)
class End:
    """The first failure, or the last success: when, where, and what it ran on, as far as that is still known."""

    task: UUID
    at: datetime
    worker: str = ""
    host: str = ""
    release: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WhatChanged:
    func_path: str
    failure: End
    success: End | None
    migrations: list[tuple[str, datetime]] = field(default_factory=list)
    decisions: list[OperatorEvent] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    failures_sampled: int = 0
    successes_sampled: int = 0

    @property
    def packages(self) -> list[tuple[str, str, str]]:
        """Return name, version before and version after; empty if one side is not known."""
        before, after = (self.success.versions if self.success else {}), self.failure.versions
        if not (before and after):
            return []
        names = sorted(before.keys() | after.keys())
        changed = [(name, before.get(name, ""), after.get(name, "")) for name in names]
        return [(name, old, new) for name, old, new in changed if old != new][:MOST]


def what_changed(fingerprint: str, using: str, *, can_see_payload: bool) -> WhatChanged | None:
    """Return the comparison; None if no task of the group is stored. Arguments need the permission to see them."""
    tasks: TaskQuerySet = Task.objects.using(using)
    first = first_failing(tasks, fingerprint)
    if first is None:
        return None
    failure = end_of(first, EventKind.FAILED, using)
    last = last_success(tasks, first, failure.at)
    success = end_of(last, EventKind.COMPLETED, using) if last else None
    failed = failing_calls(tasks, fingerprint) if can_see_payload else []
    succeeded = succeeding_calls(tasks, first.func_path) if can_see_payload else []
    stored = OperatorEvent.objects.using(using).exclude(kind__in=(ASKED, PROPOSED)).order_by("-id")
    decided = read_rows(stored[:1000]) if success else []
    return WhatChanged(
        first.func_path,
        failure,
        success,
        migrations_between(success.at, failure.at, using) if success else [],
        [event for event in decided if success.at < event.ts <= failure.at][:MOST] if success else [],
        differences(failed, succeeded),
        len(failed),
        len(succeeded),
    )


def first_failing(tasks: TaskQuerySet, fingerprint: str) -> Task | None:
    """Find it by the index of failed tasks; if all are still retrying, by theirs."""
    some = tasks.filter(fingerprint=fingerprint).only("pk", "func_path", "finished_at", "updated_at")
    return some.failed().order_by("finished_at").first() or some.retrying().order_by("finished_at", "pk").first()


def last_success(tasks: TaskQuerySet, failing: Task, before: datetime) -> Task | None:
    """Find it by when it finished: priorities, lanes and retries run tasks in another order than they were enqueued."""
    end = first_of(int(before.timestamp() * 1000) + 1)
    floor = statistics.newest_before(statistics.LOOK_BACK, tasks.db, end) or UUID(int=0)
    earlier = tasks.successful().filter(pk__lt=end, pk__gte=floor, func_path=failing.func_path, finished_at__lt=before)
    return earlier.order_by("-finished_at").only("pk", "finished_at", "updated_at").first()


def end_of(task: Task, kind: EventKind, using: str) -> End:
    """Describe a task by its first failure, or its one completion."""
    event = TaskEvent.objects.using(using).filter(task_id=task.pk, kind=kind).order_by("id").only("ts", "actor").first()
    if event is None:
        return End(task.pk, task.finished_at or task.updated_at)
    worker = read_row(Worker.objects.using(using), worker_of(event.actor))
    if worker is None:
        return End(task.pk, event.ts, event.actor)
    return End(task.pk, event.ts, event.actor, worker.host, worker.release, worker.versions or {})


def migrations_between(start: datetime, end: datetime, using: str) -> list[tuple[str, datetime]]:
    """Applied in the database of the tasks, by the project's own record."""
    recorder = MigrationRecorder(connections[using])
    if not recorder.has_table():
        return []
    applied = recorder.migration_qs.filter(
        applied__gt=in_project_time(start), applied__lte=in_project_time(end)
    ).exclude(app=Task._meta.app_label)
    return [(f"{each.app}.{each.name}", as_instant(each.applied)) for each in applied.order_by("-applied")[:MOST]]


def failing_calls(tasks: TaskQuerySet, fingerprint: str) -> list[set[Fact]]:
    alike = tasks.filter(fingerprint=fingerprint)
    found = list(alike.failed().order_by("-finished_at").values_list("pk", flat=True)[:SAMPLE])
    return calls(tasks, found or alike.retrying().order_by("-finished_at", "-pk").values_list("pk", flat=True)[:SAMPLE])


def succeeding_calls(tasks: TaskQuerySet, func_path: str) -> list[set[Fact]]:
    floor = statistics.newest_before(statistics.LOOK_BACK, tasks.db) or UUID(int=0)
    newest = tasks.successful().filter(pk__gte=floor, func_path=func_path).order_by("-pk")
    return calls(tasks, newest.values_list("pk", flat=True)[:SAMPLE])


def calls(tasks: TaskQuerySet, ids: Iterable[UUID]) -> list[set[Fact]]:
    """Secrets are hidden before anything is compared."""
    some = read_rows(tasks.filter(pk__in=list(ids)).only(*COLUMNS), COLUMNS)
    return [facts_of(visible_arguments(task)) for task in some]


# In words: the same sentences in the console and in the shell


def sentences(changed: WhatChanged, *, can_see_payload: bool) -> list[str]:
    """Return the sentences, the most telling first."""
    return [
        ends(changed),
        *map(difference, changed.differences),
        *release(changed),
        *packages(changed),
        *migrations(changed),
        *decisions(changed, can_see_payload=can_see_payload),
        *nothing_else(changed),
    ]


def ends(changed: WhatChanged) -> str:
    values = {"first": format_moment(changed.failure.at)}
    if changed.success is None:
        return _("It first failed at %(first)s; no success of it is stored from shortly before.") % values
    values["last"] = format_moment(changed.success.at)
    return _("It first failed at %(first)s, and last worked at %(last)s.") % values


def difference(found: Difference) -> str:
    values = {"fact": fact(found), "failing": found.failing, "succeeding": found.succeeding}
    values |= {"failures": format_number(found.failures), "successes": format_number(found.successes)}
    text = _("%(fact)s: in %(failing)s of %(failures)s failures, and in %(succeeding)s of %(successes)s successes.")
    return text % values


def fact(found: Difference) -> str:
    values = {"path": one_line(found.path, 100), "value": one_line(found.value, 100)}
    match found.about:
        case About.PRESENCE:
            return _("%(path)s is given") % values
        case About.TYPE:
            return _("%(path)s is of type %(value)s") % values
        case _other:
            return _("%(path)s = %(value)s") % values


def release(changed: WhatChanged) -> Iterator[str]:
    before, after = changed.success, changed.failure
    if not after.release:
        yield _('The release of its worker is not known. Give the settings OPTIONS["RELEASE"] to compare releases.')
    elif before is None or not before.release:
        yield _("It failed in release %(after)s; the release before is not known any more.") % {
            "after": one_line(after.release, 100)
        }
    elif before.release != after.release:
        values = {"before": one_line(before.release, 100), "after": one_line(after.release, 100)}
        yield _("The release changed from %(before)s to %(after)s.") % values


def packages(changed: WhatChanged) -> Iterator[str]:
    nothing = _("not installed")
    for name, before, after in changed.packages:
        values = {"name": one_line(name, 60), "before": before or nothing, "after": after or nothing}
        yield _("%(name)s: %(before)s before, %(after)s since.") % values


def migrations(changed: WhatChanged) -> Iterator[str]:
    for name, applied in changed.migrations:
        values = {"name": one_line(name, 160), "before": format_elapsed(applied, changed.failure.at)}
        yield _("Migration %(name)s was applied %(before)s before the first failure.") % values


def decisions(changed: WhatChanged, *, can_see_payload: bool) -> Iterator[str]:
    names = actor_names({event.actor for event in changed.decisions})
    for event in changed.decisions:
        reason = visible_reason(event.reason, can_see_payload=can_see_payload)
        values = {
            "kind": one_line(event.kind, 24), "subject": one_line(event.subject, 100), "by": names[event.actor],
            "time": format_moment(event.ts), "reason": f" ({reason})" if reason else "",
        }  # fmt: skip
        yield _("%(kind)s: %(subject)s, by %(by)s at %(time)s%(reason)s.") % values


def nothing_else(changed: WhatChanged) -> Iterator[str]:
    changes = (changed.differences, changed.migrations, changed.decisions, changed.packages)
    if changed.success and changed.success.release == changed.failure.release and not any(changes):
        yield _("No change was recorded in between. Check the services that the task calls.")


def sampled(changed: WhatChanged) -> str:
    """Return how many calls were compared."""
    text = ngettext(
        "Arguments were compared in %(failures)s failure and %(successes)s successes, the newest of each.",
        "Arguments were compared in %(failures)s failures and %(successes)s successes, the newest of each.",
        changed.failures_sampled,
    )
    return text % {"failures": changed.failures_sampled, "successes": changed.successes_sampled}
