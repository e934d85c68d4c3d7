"""django-tasks-retry or django-tasks-db, whichever NEIGHBOUR_APP says: setup, enqueue <name>, work, state."""

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
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **json.loads(os.environ["NEIGHBOUR_PLACE"])}},
        TASKS={"default": {"BACKEND": BACKEND, "QUEUES": []}},
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
    from django.apps import apps

    if APP == "django_tasks_retry":
        rows = apps.get_model(APP, "Task").objects.values_list("func_path", "status")
    else:
        rows = apps.get_model("django_tasks_database", "DBTaskResult").objects.values_list("task_path", "status")
    return [(path.rpartition(".")[2], str(status)) for path, status in rows]


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
