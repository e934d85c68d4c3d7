"""Helpers for users' tests: run due tasks inside an ordinary TestCase, travel in time, ask what was enqueued.

With pytest, ask for the fixture `tasks`. With unittest, mix in `TaskTestMixin` and use `self.tasks`.
"""

from .crash import CrashReport, IdempotencyReport
from .harness import Tasks, TaskTestMixin

__all__ = ["CrashReport", "IdempotencyReport", "TaskTestMixin", "Tasks"]
