"""The last lines that an attempt logged, kept in memory until it ends, for the event of its failure.

Lines of threads that a task starts by itself are not its own: they do not inherit its context.
"""

import logging
from collections import deque
from datetime import UTC, datetime
from traceback import format_exception_only
from uuid import UUID

from ...compat import framework_logger
from ...errors import TaskCancelled, TaskTimeout
from ...rules.payload import storable
from ...rules.redact import redact_text
from ...taskqueue import Lease, Report, current_lease

MOST_BYTES = 16 * 1024
LONGEST_LINE = 2000
MOST_TAILS = 1000


class Tail:
    """The last lines, within their number and size."""

    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0
        self.lines: deque[str] = deque()

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.size += len(line.encode()) + 1
        while len(self.lines) > self.most or self.size > MOST_BYTES:
            self.size -= len(self.lines.popleft().encode()) + 1


tails: dict[tuple[UUID, int], Tail] = {}
"""The lines of attempts that run in this process; and of some that ended, whose coroutines go on."""


class AttemptLogHandler(logging.Handler):
    """A handler of the root logger, in a child: sees what the project's own settings let through."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.most_lines = lines

    def handle(self, record: logging.LogRecord) -> bool:
        """Keep the line without the lock of a handler: a task's message may be slow to format, or interrupted."""
        lease = current_lease.get()
        if lease is not None and record.name != framework_logger.name:
            tail_of(lease, self.most_lines).add(line_of(record))
        return True


def tail_of(lease: Lease, lines: int) -> Tail:
    key = (lease.id, lease.attempts)
    if key not in tails:
        while len(tails) >= MOST_TAILS:
            tails.pop(next(iter(tails)), None)
        tails[key] = Tail(lines)
    return tails[key]


def line_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
    line = f"{moment} {record.levelname} {record.name}: {message_of(record)}"
    return line if len(line) <= LONGEST_LINE and line.isascii() and line.isprintable() else shortened(line)


def shortened(line: str) -> str:
    """Return the line as it can be stored, within the bytes of a line."""
    raw = storable(line[:LONGEST_LINE]).encode()
    return raw.decode() if len(raw) <= LONGEST_LINE else raw[:LONGEST_LINE].decode(errors="ignore") + "…"


def message_of(record: logging.LogRecord) -> str:
    try:
        error = record.exc_info[1] if record.exc_info else None
        parts = [record.getMessage(), *(format_exception_only(error) if error is not None else ())]
        return " · ".join(part.strip() for part in parts)
    except (TaskTimeout, TaskCancelled):
        raise  # meant for the function
    except Exception as error:
        return f"(a message that cannot be formatted: {type(error).__name__})"


def keep_lines(lines: int) -> None:
    """Keep the last lines of attempts, from now on, in this process."""
    if lines:
        logging.getLogger().addHandler(AttemptLogHandler(lines))


def take(lease: Lease) -> str:
    """Return what the attempt logged, and forget it."""
    tail = tails.pop((lease.id, lease.attempts), None) if tails else None
    return "\n".join(tail.lines) if tail else ""


def with_log(report: Report, log: str) -> Report:
    """Return the report of a failure with the lines that led to it, without secrets."""
    if not log or report.error is None:
        return report
    first, *rest = report.data
    return report._replace(data=({**first, "log": redact_text(log)}, *rest))
