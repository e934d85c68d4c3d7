"""Problems that keep tasks from running, each with what to do about it: for the Overview, the shell and *Why?*."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Min
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import guard, registry
from ..conf import OURS, configured_backends
from ..models import FlowLimit, Task, Worker
from ..taskqueue import ALIVE_SECONDS, read_rows, statistics
from ..taskqueue.enqueue import app_not_installed, will_be_found
from ..taskqueue.lanes import summarize_limits
from ..taskqueue.retention import partition_problems
from ..taskqueue.statistics import QueueFigures, failing_functions, late_schedules, read_budgets, unknown_functions
from ..taskqueue.workflows import unknown_effects
from .events import describe_pauses
from .explain_schedule import RUNWORKER, missed_slots
from .formatting import (
    format_capped,
    format_duration,
    format_elapsed,
    format_moment,
    format_number,
    format_relative,
    one_line,
    shell_word,
    task_name,
)
from .scope import Scope, Standing

MAX_UNKNOWN = 5  # the number of unknown functions that are named
MAX_LATE = 5
MAX_LANES = 20
MAX_LOST = 5
STUCK = timedelta(minutes=10)  # a task that has run for longer than this may keep its lane from going on
BEFORE_FAILING, AFTER_FAILING = timedelta(minutes=15), timedelta(minutes=2)
"""How long before and after the first failing minute a release may have begun that is named as the cause."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, the command that solves it, the page that shows more, and the queue to resume."""

    kind: str
    text: str
    command: str = ""
    page: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    resume: str = ""
    subject: str = ""  # the schedule, worker, lane or function that it is about

    @property
    def key(self) -> tuple[str, ...]:
        """Tell problems apart, whatever their numbers are now."""
        return self.kind, self.queue, self.subject, *self.params.values()

    @property
    def resume_name(self) -> str:
        return one_line(self.resume, 64)

    @property
    def short_subject(self) -> str:
        return task_name(self.subject, 64)

    @property
    def pause_label(self) -> str:
        """Return the label of the function to pause; empty if that does not help."""
        return f"function:{self.subject}" if self.kind == "failing_function" else ""


def find_problems(standing: Standing, *, can_see_payload: bool) -> Iterator[Problem]:
    """Find what keeps tasks from running. Without a worker, one line stands for all queues."""
    scope = standing.scope
    yield from setup_problems(scope.using)
    yield from function_problems(standing)
    yield from schedule_problems(scope)
    yield from queue_problems(standing, can_see_payload=can_see_payload)
    yield from lane_problems(scope, can_see_payload=can_see_payload)
    yield from objective_problems(standing)
    yield from worker_problems(standing)
    yield from lost_worker_problems(scope) if standing.workers else ()
    yield from unknown_function_problems(standing)
    for each in unknown_effects(scope.using)[:MAX_LOST]:
        text = _("Task %(task)s does not know whether its effect %(name)s happened (key %(key)s).")
        key = one_line(each.key) if can_see_payload else "…"
        text %= {"task": each.task.pk, "name": one_line(each.name), "key": key}
        yield Problem("unknown_effect", text, page="task", params={"q": str(each.task.pk)}, subject=each.name)


def function_problems(standing: Standing) -> Iterator[Problem]:
    """Find functions that fail, also while all their tasks are still to be retried."""
    for found in failing_functions(standing.scope.now, standing.scope.using):
        path, release = found.func_path, release_begun_at(found.since, standing.scope)
        text = _(
            "%(name)s fails since %(time)s: %(failures)s of %(attempts)s attempts, before %(before)s of %(all_before)s."
        )
        if release:
            text = _(
                "%(name)s fails since release %(release)s, %(time)s: %(failures)s of %(attempts)s attempts, before "
                "%(before)s of %(all_before)s."
            )
        values = {
            "name": task_name(path),
            "time": format_moment(found.since),
            "release": release,
            "failures": format_number(found.now.failures),
            "attempts": format_number(found.now.attempts),
            "before": format_number(found.before.failures),
            "all_before": format_number(found.before.attempts),
        }
        yield Problem("failing_function", text % values, page="taskfunction", params={"function": path}, subject=path)


def objective_problems(standing: Standing) -> Iterator[Problem]:
    """Find objectives whose budget would not last for two days."""
    for budget in read_budgets(standing.scope.backend, ("5m", "1h"), standing.waiting):
        if not budget.is_burning:
            continue
        label = budget.objective.label
        text = _("%(name)s: %(late)s of %(attempts)s attempts started later than %(time)s, within an hour.")
        text %= {
            "name": one_line(label, 200),
            "late": format_number(round(budget.late["1h"])),
            "attempts": format_number(round(budget.attempts["1h"])),
            "time": format_duration(budget.objective.seconds),
        }
        yield Problem("objective", text, f"python manage.py tasks objectives {shell_word(label)}", subject=label)


def release_begun_at(moment: datetime, scope: Scope) -> str:
    """Return the release whose first worker started shortly before, if workers of another one ran before."""
    known = Worker.objects.using(scope.using).filter(backend=scope.backend)
    started = dict(known.order_by().values_list("release").annotate(Min("started_at")))
    begun = [
        release
        for release, first in started.items()
        if release and moment - BEFORE_FAILING <= first < moment + AFTER_FAILING and first > min(started.values())
    ]
    return one_line(max(begun, key=started.__getitem__), 100) if begun else ""


def lane_problems(scope: Scope, *, can_see_payload: bool) -> Iterator[Problem]:
    """Find lanes in which tasks wait for somebody: paused or tripped ones, and those that slow tasks keep full."""
    slow = slow_lanes(scope)
    states = FlowLimit.objects.using(scope.using)
    stopped = states.filter(paused_at__isnull=False).order_by("-paused_at")[:MAX_LANES]
    rows = {row.pk: row for some in (stopped, states.among(slow)) for row in read_rows(some)}
    pauses = describe_pauses(rows.values(), can_see_payload=can_see_payload)
    for lane in summarize_limits(list(rows.values()), scope.backend) if rows else ():
        if not lane.waiting or not (lane.is_paused or lane.is_full):
            continue
        values = {"lane": one_line(lane.label, 100), "count": format_capped(lane.waiting)}
        if lane.is_paused:
            values |= pauses[lane.state.name].values
            text = _("%(lane)s is paused by %(by)s (%(reason)s): %(count)s waiting.")
            yield Problem("paused_lane", text % values, page="flowlimit", params={"q": lane.label}, subject=lane.label)
        else:
            values["time"] = format_elapsed(slow[lane.label], scope.now)
            text = _("Lane %(lane)s is full: a task has been running in it for %(time)s, and %(count)s wait.")
            params = {"q": f'status:running lane:"{lane.label}"'}
            yield Problem("stuck_lane", text % values, page="task", params=params, subject=lane.label)


def slow_lanes(scope: Scope) -> dict[str, datetime]:
    """Return lanes with a task that has been running for long, and since when."""
    slow = Task.objects.using(scope.using).running().filter(lane__gt="", last_attempt_at__lt=scope.now - STUCK)
    rows = slow.order_by("locked_by").values_list("lane").annotate(Min("last_attempt_at"))
    return dict(rows.order_by()[:MAX_LANES])


def lost_worker_problems(scope: Scope) -> Iterator[Problem]:
    """Find workers that ended without a word within an hour, or still hold tasks."""
    silent = Worker.objects.using(scope.using).filter(backend=scope.backend, stopped_at=None)
    silent = silent.filter(heartbeat_at__lt=scope.now - timedelta(seconds=ALIVE_SECONDS)).order_by("-heartbeat_at")
    for worker in silent.only("id", "heartbeat_at")[:MAX_LOST]:
        leased = Task.objects.using(scope.using).running().filter(locked_by__startswith=f"{worker.pk}/")
        held = statistics.count_or_estimate(leased.order_by("locked_by"))
        if not held and worker.heartbeat_at < scope.now - timedelta(hours=1):
            continue
        values = {"worker": one_line(worker.pk, 128), "time": format_moment(worker.heartbeat_at)}
        text = ngettext(
            "Worker %(worker)s does not respond since %(time)s. It holds %(count)s task.",
            "Worker %(worker)s does not respond since %(time)s. It holds %(count)s tasks.",
            held,
        ) % {**values, "count": format_capped(held)}
        params = {"q": f'status:running worker:"{worker.pk}"'} if held else {}
        kind, page = ("lost_worker", "task") if held else ("gone_worker", "worker")
        yield Problem(kind, text, page=page, params=params, subject=worker.pk)


def queue_problems(standing: Standing, *, can_see_payload: bool) -> Iterator[Problem]:
    pauses = describe_pauses([each.pause for each in standing.queues if each.pause], can_see_payload=can_see_payload)
    for queue in standing.queues:
        if queue.due and queue.is_paused:
            values = {"queue": one_line(queue.name, 64), "due": format_capped(queue.due), **pauses[queue.name].values}
            text = _("Queue %(queue)s: %(due)s waiting, paused by %(by)s (%(reason)s).") % values
            params = {"queue": queue.name, "status": "ready"}
            yield Problem("paused", text, "", "task", params, queue.name, resume=queue.name)
        if standing.workers:
            yield from problems_of_queue(queue)


def problems_of_queue(queue: QueueFigures) -> Iterator[Problem]:
    values = {"queue": one_line(queue.name, 64), "due": format_capped(queue.due)}
    if queue.due and not (queue.is_paused or queue.workers):
        text = _("Queue %(queue)s: %(due)s waiting, but no running worker. Start one:") % values
        params = {"queue": queue.name, "status": "ready"}
        yield Problem("unserved", text, runworker_command(queue.name), "task", params, queue.name)
    if queue.full_at:
        text = _("Queue %(queue)s is full: %(count)s tasks wait, as many as OPTIONS['BACKLOG'] allows.")
        text %= {**values, "count": format_number(queue.full_at)}
        yield Problem("full", text, page="task", params={"queue": queue.name}, queue=queue.name)
    if queue.is_failing:
        text = _("Queue %(queue)s: at least half of the latest attempts failed.") % values
        yield Problem("failing", text, page="failuregroup", queue=queue.name)


def worker_problems(standing: Standing) -> Iterator[Problem]:
    expired = statistics.expired_leases(standing.scope.using)
    lost = ngettext(
        "%s task lost its worker and has not been recovered.",
        "%s tasks lost their worker and have not been recovered.",
        expired,
    ) % format_capped(expired)
    due = sum(queue.due for queue in standing.queues if not queue.is_paused)
    if not standing.workers and (due or expired):
        text = ngettext(
            "No worker is running: %(due)s task is waiting.", "No worker is running: %(due)s tasks are waiting.", due
        )
        sentences = [text % {"due": format_capped(due)}, *([lost] if expired else []), _("Start one:")]
        yield Problem("unserved", " ".join(sentences), RUNWORKER, "worker")
    for worker in standing.workers:
        if not worker.tasks:
            text = _("Worker %(worker)s knows no task at all, so it runs none.") % {"worker": one_line(worker.pk, 128)}
            yield Problem("no_tasks", f"{text} {no_tasks_advice()}", page="worker")
    if standing.workers and expired:
        text = f"{lost} {_('A running worker recovers such tasks within seconds:')}"
        yield Problem("expired_leases", text, RUNWORKER)


def unknown_function_problems(standing: Standing) -> Iterator[Problem]:
    """Find functions that due tasks call and no running worker of their queue knows, each with the likely cause."""
    unknown = unknown_functions(standing.waiting, standing.workers)
    for path, queue in list(unknown.items())[:MAX_UNKNOWN]:
        text = _("Queue %(queue)s: no running worker knows %(path)s.")
        text = f"{text % {'path': one_line(path), 'queue': one_line(queue, 64)}} {unknown_task_advice(path)}"
        yield Problem("unknown_function", text, "", "task", {"task": path, "status": "ready"}, queue)
    more = len(unknown) - MAX_UNKNOWN
    if more > 0:
        text = ngettext(
            "No running worker knows %s more function that tasks wait for.",
            "No running worker knows %s more functions that tasks wait for.",
            more,
        )
        yield Problem("unknown_function", text % format_number(more), page="worker")


def setup_problems(using: str) -> Iterator[Problem]:
    if not configured_backends():
        text = _("No backend of TASKS is RetryBackend: nothing is enqueued here, and no worker starts. Add one:")
        yield Problem("setup", text, f'TASKS = {{"default": {{"BACKEND": "{OURS}"}}}}')
    if guard.missing(using):
        text = _("The database does not enforce the task contract, so no worker starts. Install what is missing:")
        yield Problem("setup", text, "python manage.py migrate")
    for problem in partition_problems(using):
        yield Problem("partitions", _("History is kept in partitions. %(problem)s") % {"problem": problem})
    for module, why in registry.unimportable().items():
        text = _("%(module)s cannot be imported, so workers do not know the tasks in it (%(why)s).")
        yield Problem("unimportable", text % {"module": one_line(module, 120), "why": one_line(why, 200)})


def schedule_problems(scope: Scope) -> Iterator[Problem]:
    """Find late schedules and missed slots. Those that wait behind their previous run are not late."""
    for schedule in late_schedules(scope.backend, scope.using).only("next_at").order_by("next_at")[:MAX_LATE]:
        ago = format_relative(schedule.next_at or scope.now, scope.now)
        text = _("Schedule %(name)s was due %(ago)s, and no worker has enqueued it. Its page says why.")
        text %= {"name": one_line(schedule.name, 128), "ago": ago}
        yield Problem("late_schedule", text, page="schedule", subject=schedule.name)
    for name, missed in list(missed_slots(scope).items())[:MAX_LATE]:
        values = {"name": one_line(name, 128), "count": format_number(missed.count), "time": format_moment(missed.last)}
        text = ngettext(
            "Schedule %(name)s missed its slot of %(time)s: no worker enqueued it in time.",
            "Schedule %(name)s missed %(count)s slots in 24 hours, the last at %(time)s: no worker enqueued them.",
            missed.count,
        )
        yield Problem("missed_slots", text % values, page="schedule", subject=name)


def no_tasks_advice(func_path: str = "") -> str:
    """Advise on a worker without tasks: most likely the app is missing, or the module that workers import."""
    app = one_line(func_path.partition(".")[0] or _("your app"), 80)
    text = _("Add %(app)s to INSTALLED_APPS, define its tasks in its tasks.py, and restart the worker.")
    return text % {"app": app}


def unknown_task_advice(func_path: str) -> str:
    """Advise on a function that no running worker knows: it depends on whether this process knows it."""
    task = registry.find(func_path)
    if task is None:
        return _("Deploy the code that defines it, or cancel its tasks.")
    module = task.func.__module__
    if will_be_found(task.func):
        return _("The workers run other code than this site: restart them.")
    app = app_not_installed(module)
    if app:
        return _("Add %(app)s to INSTALLED_APPS, and restart the workers.") % {"app": one_line(app, 80)}
    text = _("Workers do not import %(module)s: add it to TASK_MODULES in the OPTIONS of TASKS, and restart them.")
    return text % {"module": one_line(module, 120)}


def runworker_command(queue: str) -> str:
    """Return the command that starts a worker of this queue; safe to paste, whatever the queue is called."""
    word = shell_word(one_line(queue, 64))
    return f"python manage.py runworker --queues{'=' if queue.startswith('-') else ' '}{word}"
