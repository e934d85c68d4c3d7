"""The harness as a part of a unittest TestCase."""

from __future__ import annotations

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
