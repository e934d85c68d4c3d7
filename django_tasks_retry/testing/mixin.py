"""The harness as a part of a unittest TestCase."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from .harness import Tasks

if TYPE_CHECKING:
    from unittest import TestCase as Base
else:
    Base = object


class TaskTestMixin(Base):
    """Gives a TestCase `self.tasks`. Mix it into `django.test.TestCase` or `TransactionTestCase`."""

    @cached_property
    def tasks(self) -> Tasks:
        harness = Tasks()
        self.addCleanup(harness.close)
        return harness

    def _callTestMethod(self, method: Callable[[], object]) -> None:  # noqa: N802 - unittest's name
        """Where the test fails, the errors of its tasks are part of why."""
        try:
            super()._callTestMethod(method)  # type: ignore[misc]
        except Exception as error:
            if "tasks" in vars(self) and (report := self.tasks.failure_report()):
                error.add_note(f"Tasks that failed in this test:\n{report}")
            raise
