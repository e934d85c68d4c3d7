"""What keeps the whole queue from working, whatever stands in it."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from ... import guard, registry
from ...conf import OURS, configured_backends
from ...display.formatting import one_line
from ...taskqueue.partitions.summaries import partition_problems
from .queue_summary import Problem


def setup_problems(using: str) -> Iterator[Problem]:
    if not configured_backends():
        yield Problem(
            _("No backend of TASKS is RetryBackend: nothing is enqueued here, and no worker starts. Add one:"),
            f'TASKS = {{"default": {{"BACKEND": "{OURS}"}}}}',
        )
    if guard.missing(using):
        yield Problem(
            _("The database does not enforce the task contract, so no worker starts. Install what is missing:"),
            "python manage.py migrate",
        )
    for problem in partition_problems(using):
        text = _("History is kept in partitions. %(problem)s Workers that own the tables mend it; by hand:")
        yield Problem(text % {"problem": problem}, "python manage.py tasks partition")
    for module, why in registry.unimportable().items():
        text = _("%(module)s cannot be imported, so workers do not know the tasks in it (%(why)s).")
        yield Problem(text % {"module": one_line(module, 120), "why": one_line(why, 200)})
