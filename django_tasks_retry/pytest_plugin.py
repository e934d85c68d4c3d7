"""The pytest plugin: the fixture `tasks`, and the errors of tasks beside those of tests. Imports nothing of Django."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .testing import Tasks

FIXTURE = "tasks"


@pytest.fixture
def tasks(db: None) -> Iterator[Tasks]:
    """Runs, moves and asks about tasks inside this test. See `django_tasks_retry.testing.Tasks`."""
    from .testing import Tasks

    harness = Tasks()
    yield harness
    harness.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Show the errors of the tasks that a failed test ran."""
    report = (yield).get_result()
    report_failures = getattr(getattr(item, "funcargs", {}).get(FIXTURE), "failure_report", None)
    if report.failed and call.when == "call" and report_failures is not None:
        failures = report_failures()
        if failures:
            report.sections.append(("tasks that failed in this test", failures))
