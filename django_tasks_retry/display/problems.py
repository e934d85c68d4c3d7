"""Workers: whether each is alive, and which may take a task: those that serve its queue and know its function."""

from __future__ import annotations

import re
from datetime import datetime

from django.utils.translation import gettext as _

from .. import registry
from ..models import Worker
from ..taskqueue.enqueue import discovery
from ..taskqueue.workers import ALIVE_SECONDS
from .formatting import one_line

MEANS_SOMETHING = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


def knows_task(worker: Worker, func_path: str) -> bool:
    return func_path in worker.tasks


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


def worker_state(worker: Worker, now: datetime) -> tuple[str, str]:
    if worker.stopped_at:
        return "stopped", _("stopped")
    if (now - worker.heartbeat_at).total_seconds() > ALIVE_SECONDS:
        return "lost", _("not responding")
    if worker.stop_asked_at:
        return "stopping", _("finishing")
    return "alive", _("alive")
