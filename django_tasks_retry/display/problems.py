"""Problems that keep tasks from running, each with what to do about it: for the Overview, the shell and *Why?*."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import guard, registry
from ..conf import OURS, configured_backends
from ..taskqueue.enqueue import discovery
from ..taskqueue.retention.drop import partition_problems
from ..taskqueue.statistics import summaries
from ..taskqueue.statistics.snapshot import late_schedules
from ..taskqueue.statistics.summaries import QueueFigures, unknown_functions
from .actors import describe_pauses
from .formatting import format_capped, format_number, format_relative, one_line
from .scope import Scope, Standing

MEANS_SOMETHING = re.compile(r"[^\w@%+=:,./-]", re.ASCII)
RUNWORKER = "python manage.py runworker"
MAX_UNKNOWN = 5
"""The number of unknown functions that are named."""

MAX_LATE = 5


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

    @property
    def resume_name(self) -> str:
        return one_line(self.resume, 64)


def find_problems(standing: Standing, *, can_see_payload: bool) -> Iterator[Problem]:
    """Find what keeps tasks from running. Without a worker, one line stands for all queues."""
    scope = standing.scope
    yield from setup_problems(scope.using)
    yield from schedule_problems(scope)
    yield from queue_problems(standing, can_see_payload=can_see_payload)
    yield from worker_problems(standing)
    yield from unknown_function_problems(standing)


def queue_problems(standing: Standing, *, can_see_payload: bool) -> Iterator[Problem]:
    pauses = describe_pauses([each.pause for each in standing.queues if each.pause], can_see_payload=can_see_payload)
    for queue in standing.queues:
        ready = {"queue": queue.name, "status": "ready"}
        values = {"queue": one_line(queue.name, 64), "due": format_capped(queue.due)}
        if queue.due and queue.is_paused:
            pause = pauses[queue.name]
            text = _("Queue %(queue)s: %(due)s waiting, paused by %(by)s (%(reason)s).") % (values | pause.values)
            yield Problem("paused", text, "", "task", ready, queue.name, resume=queue.name)
        if standing.workers:
            yield from problems_of_queue(queue, values, ready)


def problems_of_queue(queue: QueueFigures, values: Mapping[str, str], ready: Mapping[str, str]) -> Iterator[Problem]:
    if queue.due and not (queue.is_paused or queue.workers):
        text = _("Queue %(queue)s: %(due)s waiting, but no running worker. Start one:") % values
        yield Problem("unserved", text, runworker_command(queue.name), "task", ready, queue.name)
    if queue.full_at:
        text = _("Queue %(queue)s is full: %(count)s tasks wait, as many as OPTIONS['BACKLOG'] allows.")
        text %= {**values, "count": format_number(queue.full_at)}
        yield Problem("full", text, page="task", params={"queue": queue.name}, queue=queue.name)
    if queue.is_failing:
        text = _("Queue %(queue)s: at least half of the latest attempts failed.") % values
        yield Problem("failing", text, page="failuregroup", queue=queue.name)


def worker_problems(standing: Standing) -> Iterator[Problem]:
    expired = summaries.expired_leases(standing.scope.using)
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
    """Find functions that due tasks call and no running worker of their queue knows."""
    unknown = unknown_functions(standing.waiting, standing.workers)
    for path, queue in list(unknown.items())[:MAX_UNKNOWN]:
        params = {"task": path, "status": "ready"}
        yield Problem("unknown_function", unknown_function_text(path, queue), "", "task", params, queue)
    if len(unknown) > MAX_UNKNOWN:
        text = ngettext(
            "No running worker knows %s more function that tasks wait for.",
            "No running worker knows %s more functions that tasks wait for.",
            len(unknown) - MAX_UNKNOWN,
        )
        yield Problem("unknown_function", text % format_number(len(unknown) - MAX_UNKNOWN), page="worker")


def unknown_function_text(path: str, queue: str) -> str:
    """Name a function of due tasks that no worker of the queue knows, and the likely cause."""
    text = _("Queue %(queue)s: no running worker knows %(path)s.")
    return f"{text % {'path': one_line(path), 'queue': one_line(queue, 64)}} {unknown_task_advice(path)}"


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
    """Find late schedules. Those that wait behind their previous run are not late."""
    for schedule in late_schedules(scope.backend, scope.using).only("next_at").order_by("next_at")[:MAX_LATE]:
        ago = format_relative(schedule.next_at or scope.now, scope.now)
        text = _("Schedule %(name)s was due %(ago)s, and no worker has enqueued it. Its page says why.")
        yield Problem("late_schedule", text % {"name": one_line(schedule.name, 128), "ago": ago}, page="schedule")


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
    if discovery.will_be_found(task.func):
        return _("The workers run other code than this site: restart them.")
    app = discovery.app_not_installed(module)
    if app:
        return _("Add %(app)s to INSTALLED_APPS, and restart the workers.") % {"app": one_line(app, 80)}
    text = _("Workers do not import %(module)s: add it to TASK_MODULES in the OPTIONS of TASKS, and restart them.")
    return text % {"module": one_line(module, 120)}


def runworker_command(queue: str) -> str:
    """Return the command that starts a worker of this queue; safe to paste, whatever the queue is called."""
    word = shell_word(one_line(queue, 64))
    return f"python manage.py runworker --queues{'=' if queue.startswith('-') else ' '}{word}"


def shell_word(text: str) -> str:
    """The text as one word of a shell: whatever could mean something to it stands behind a backslash."""
    return MEANS_SOMETHING.sub(r"\\\g<0>", text)
