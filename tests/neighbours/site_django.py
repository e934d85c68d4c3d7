"""A backend of django.tasks, whichever NEIGHBOUR_APP says: setup, enqueue <name>, work, state."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
import misdeeds
from django.conf import settings

APP, BACKEND, COMMAND = json.loads(os.environ["NEIGHBOUR_APP"])
if not settings.configured:
    settings.configure(
        SECRET_KEY="neighbours",
        USE_TZ=True,
        INSTALLED_APPS=["django.contrib.contenttypes", APP],
        DATABASES={"default": json.loads(os.environ["NEIGHBOUR_PLACE"])},
        TASKS={"default": {"BACKEND": BACKEND, "QUEUES": ["default"]}},
    )
    django.setup()
try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


def make(name: str) -> Any:
    def function() -> Any:
        return misdeeds.do(name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "site_django"
    return task(function)


if __name__ != "__main__":
    for each in misdeeds.MISDEEDS:
        if each != "gone" or misdeeds.KNOWS_GONE:
            globals()[each] = make(each)


def state() -> list[tuple[str, str]]:
    """Each task's name and status."""
    return [(path.rpartition(".")[2], str(status)) for path, status in ROWS[APP]()]


def rows_of(app: str, model: str, *columns: str) -> Any:
    from django.apps import apps

    return apps.get_model(app, model).objects.values_list(*columns)


def rows_of_steady_queue() -> list[tuple[str, str]]:
    """A status is which of its tables has a row for the task."""
    states = ("claimed", "failed", "ready")
    columns = [f"{state}_execution__id" for state in states]
    return [
        (path, next((state for state, row in zip(states, found, strict=True) if row), "finished"))
        for path, *found in rows_of("steady_queue", "Job", "class_name", *columns)
    ]


ROWS = {
    "django_tasks_retry": lambda: rows_of("django_tasks_retry", "Task", "func_path", "status"),
    "django_tasks_db": lambda: rows_of("django_tasks_database", "DBTaskResult", "task_path", "status"),
    "steady_queue": rows_of_steady_queue,
}


def main() -> None:
    import site_django as site
    from django.core.management import call_command

    verb, name = misdeeds.arguments()
    if verb == "setup":
        call_command("migrate", verbosity=0)
    elif verb == "enqueue":
        getattr(site, name).enqueue()
    elif verb == "work":
        call_command(*COMMAND)
    else:
        sys.stdout.write(json.dumps(site.state()))


if __name__ == "__main__":
    main()
