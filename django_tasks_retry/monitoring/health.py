"""Is the queue in working order? Each answer is a sentence about what is wrong; none means ready."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pkgutil import iter_modules

from django.db import Error, connections
from django.db.migrations.recorder import MigrationRecorder

from .. import guard, migrations
from ..clock import Now
from ..conf import queues
from ..errors import GuardMissing
from ..models import Queue, Worker
from ..rules.queues import serves
from ..taskqueue import database
from ..taskqueue.operator.summaries import depths

APP = "django_tasks_retry"


def problems(backend: str, within: float) -> list[str]:
    """What keeps tasks of this backend from being run. Workers must have been heard of `within` so many seconds."""
    using = database(backend)
    try:
        return [*wrong_schema(using)] or [*unserved_queues(backend, using, within)]
    except Error as error:
        return [f"the database {using!r} does not answer: {type(error).__name__}"]


def wrong_schema(using: str) -> Iterator[str]:
    wanted = {name for _, name, is_package in iter_modules(migrations.__path__) if not is_package}
    applied = {name for app, name in MigrationRecorder(connections[using]).applied_migrations() if app == APP}
    if missing := sorted(wanted - applied):
        yield f"migrations are not applied: {', '.join(missing)}"
        return
    try:
        guard.ensure(using)
    except GuardMissing as error:
        yield str(error)


def unserved_queues(backend: str, using: str, within: float) -> Iterator[str]:
    """Queues that no worker alive serves: those of the settings, else those with due tasks. Paused ones are excused."""
    heard = Worker.objects.using(using).filter(
        backend=backend, stopped_at__isnull=True, heartbeat_at__gte=Now() - timedelta(seconds=within)
    )
    workers = list(heard.only("queues", "exclude"))
    wanted = set(queues(backend)) or {lane.queue for lane in depths(using) if lane.due}
    paused = set(Queue.objects.using(using).paused().values_list("name", flat=True))
    for queue in sorted(wanted - paused):
        if not any(serves(queue, worker.queues, worker.exclude) for worker in workers):
            yield f"no worker heard of within {within:g} s serves the queue {queue!r}"
    if not wanted and not workers:
        yield f"no worker was heard of within {within:g} s"
