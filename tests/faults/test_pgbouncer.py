"""Tests of the worker once more, through PgBouncer in transaction mode: no session state is relied upon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_tasks_retry.models import Task
from tests.worker import routes, tasks
from tests.worker.bouncer import program
from tests.worker.conftest import Start, starter
from tests.worker.harness import story, wait_until_finished
from tests.worker.test_atomic import test_writes_and_completion_commit_together  # noqa: F401
from tests.worker.test_bad_exits import test_after_every_bad_exit_the_next_task_runs_and_the_books_are_right  # noqa: F401
from tests.worker.test_framework import test_signals_tell_of_each_start_and_of_the_end  # noqa: F401
from tests.worker.trouble import ALIAS, Server

pytestmark = pytest.mark.skipif(program() is None, reason="needs pgbouncer: apt-get install pgbouncer")


@pytest.fixture
def start(server: Server, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place(), routes.pgbouncer)


@pytest.mark.fault("pgbouncer")
def test_a_crowd_of_tasks_shares_a_few_connections(start, effects):
    worker = start("--processes", "3", "--threads", "4")
    worker.wait_for_line("wake-ups do not arrive")
    enqueued = Task.objects.enqueue_many(
        [one for n in range(40) for one in (tasks.canary, tasks.await_once, (tasks.use_database, [str(n)]))]
    )
    for task in enqueued:
        task = wait_until_finished(task)  # a busy machine may have released it, with a refund
        assert (task.status, task.attempts, story(task).count("completed")) == ("SUCCESS", 1, 1)
    assert "trouble" not in worker.output
