"""Mails to ADMINS: the first of each failure, and no other for a while. Fifty thousand alike would hide the next."""

from __future__ import annotations

import logging
from time import monotonic

from django.utils.log import AdminEmailHandler

from ..compat import framework_logger
from ..rules.fingerprint import general

MOST_REMEMBERED = 1000
LOOKED_AT = 100
"""Characters of a message: our own line has not many more."""


class FirstOfEachFailure(logging.Filter):
    """Lets the first record about a failure pass, and the next one after the interval. Other records always pass.

    The framework's record and ours tell of the same failure, so that a handler which gets both mails once.
    """

    def __init__(self, interval: float) -> None:
        super().__init__()
        self.interval = interval
        self.sent: dict[tuple[str, str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        failure = failure_of(record)
        if failure is None:
            return True
        now = monotonic()
        before = self.sent.get(failure)
        if before is not None and now - before < self.interval:
            return False
        if len(self.sent) >= MOST_REMEMBERED:
            del self.sent[min(self.sent, key=self.sent.__getitem__)]
        self.sent[failure] = now
        return True


def failure_of(record: logging.LogRecord) -> tuple[str, str, str] | None:
    """Function, exception, and its message but for ids and numbers; None for what tells of no failed task."""
    facts = getattr(record, "facts", None)
    if facts is not None:
        name, _, message = str(facts.get("error", "")).partition(": ")
        return (facts["task"], name, general(message[:LOOKED_AT])) if facts.get("event") == "failed" else None
    error = record.exc_info[1] if record.exc_info else None
    match record.args:
        case (_, path, _) if record.name == framework_logger.name and error is not None:
            return str(path), type(error).__name__, general(str(error)[:LOOKED_AT])
    return None


def limit_mails(handlers: list[logging.Handler], interval: float | None) -> None:
    """Put the filter on every handler that mails admins."""
    if interval is not None:
        for handler in handlers:
            if isinstance(handler, AdminEmailHandler):
                handler.addFilter(FirstOfEachFailure(interval))
