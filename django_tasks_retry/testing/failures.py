"""What went wrong in the tasks that a test ran, for whoever reads why the test failed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..taskqueue import Lease
from ..worker.child.attempt import Attempt
from .calls import rendered

SHOWN = 5


class FailedAttempt(NamedTuple):
    lease: Lease
    error: dict[str, Any]

    def __str__(self) -> str:
        named = {"args": self.lease.args, "kwargs": self.lease.kwargs}
        call = rendered(self.lease.func_path, {name: value for name, value in named.items() if value})
        words = ": ".join(filter(None, (self.error["exception"] or self.error["code"], self.error["message"])))
        head = f"{call}, attempt {self.lease.spent} of {self.lease.max_attempts}, failed with {words}"
        return f"{head}\n{textwrap.indent(self.error['traceback'] or '', '    ')}".rstrip()


def failure_of(attempt: Attempt) -> FailedAttempt | None:
    error = attempt.receipt.error if attempt.receipt else None
    return FailedAttempt(attempt.lease, error) if error else None


def failure_report(failures: Sequence[FailedAttempt]) -> str:
    """The latest with their tracebacks; nothing where none failed."""
    left_out = len(failures) - SHOWN
    lines = [f"… {left_out} earlier failed attempts are left out"] if left_out > 0 else []
    return "\n".join([*lines, *map(str, failures[-SHOWN:])])
