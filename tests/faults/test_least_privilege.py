"""Tests of the worker once more, with a login that has the rights of `manage.py tasksql roles` and no others."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from django_tasks_retry.models import Schedule, Task
from tests.worker import routes
from tests.worker.conftest import Start, starter
from tests.worker.harness import wait_for
from tests.worker.test_bad_exits import test_after_every_bad_exit_the_next_task_runs_and_the_books_are_right  # noqa: F401
from tests.worker.test_repeating import test_five_occurrences_without_drift  # noqa: F401
from tests.worker.test_schedules import EVERY_SECOND
from tests.worker.test_shutdown import test_a_running_task_finishes_before_the_worker_stops  # noqa: F401
from tests.worker.trouble import ALIAS, Server


@pytest.fixture
def start(server: Server, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place(), routes.least_privilege)


def test_schedules_of_the_settings_are_written_and_stopped_again(start, effects):
    def ran(name: str) -> bool:
        return Task.objects.filter(schedule=name).successful().exists()

    old = start(schedules={"leaving": EVERY_SECOND})
    wait_for(lambda: ran("leaving"), "the old release runs its own")
    start(schedules={"coming": EVERY_SECOND})
    wait_for(lambda: ran("coming"), "the new one runs its own")
    old.signal(signal.SIGTERM)
    assert old.exit_code() == 0
    wait_for(lambda: Schedule.objects.get(pk="leaving").vanished_at is not None, "it is stopped")
