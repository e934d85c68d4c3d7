"""Tests of the worker once more, with a login that has the rights of `manage.py tasksql roles` and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worker import routes
from tests.worker.conftest import Start, starter
from tests.worker.test_bad_exits import test_after_every_bad_exit_the_next_task_runs_and_the_books_are_right  # noqa: F401
from tests.worker.test_repeating import test_five_occurrences_without_drift  # noqa: F401
from tests.worker.test_shutdown import test_a_running_task_finishes_before_the_worker_stops  # noqa: F401
from tests.worker.trouble import ALIAS, Server


@pytest.fixture
def start(server: Server, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place(), routes.least_privilege)
