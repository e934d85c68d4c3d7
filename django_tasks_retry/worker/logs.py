"""A worker's log: on standard error, for people or for machines, without waiting for its reader."""

import json
import logging
import select
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from textwrap import dedent
from time import monotonic

from django.conf import settings
from django.utils.log import AdminEmailHandler, RequireDebugTrue

from ..compat import framework_logger
from ..rules.failure import general
from ..rules.redact import redact_text

logger = logging.getLogger("django_tasks_retry")
LEVELS = {"DEBUG": "DEBUG", "INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR", "CRITICAL": "CRIT"}
PIECE = 1024
"""Characters, of four bytes at the most: less than the 4,096 bytes that a pipe has room for when it is writable."""


def printable(text: str) -> str:
    """Return the text on one line, so that a task's error cannot forge a line of the log."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def indented(text: str) -> str:
    """Indent lines, so that none looks like a line of the worker's own."""
    return "\n".join(f"    {printable(line)}" for line in text.splitlines())


def log_exception(to: logging.Logger, message: str, *args: object, level: int = logging.ERROR) -> None:
    """Log the traceback as part of the message: a formatter would write the exception's text line by line."""
    to.log(level, f"{message}\n%s", *args, indented(redact_text(traceback.format_exc())))


def message_of(record: logging.LogRecord) -> str:
    """Return the message without secrets. Lines of attempts, one for each task, were redacted when they were made."""
    return record.getMessage() if hasattr(record, "facts") else redact_text(record.getMessage())


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        first, _, rest = message_of(record).partition("\n")
        lines = [f"{stamp} {LEVELS.get(record.levelname, record.levelname):<5} {printable(first)}"]
        if rest:
            lines.append(indented(rest) if not rest.startswith("    ") else "\n".join(map(printable, rest.split("\n"))))
        if record.exc_text:
            lines.append(record.exc_text if record.exc_text.startswith("    ") else indented(record.exc_text))
        elif record.exc_info:
            lines.append(indented(redact_text(self.formatException(record.exc_info))))
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One object per line; the keys of an attempt are stable."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "ts": datetime.fromtimestamp(record.created).astimezone().isoformat(),
            "level": record.levelname,
            "message": message_of(record),
            **getattr(record, "facts", {}),
        }
        if record.exc_text:
            facts["traceback"] = dedent(record.exc_text)
        elif record.exc_info:
            facts["traceback"] = redact_text("".join(traceback.format_exception(*record.exc_info)))
        return json.dumps(facts, default=str)


class NonBlockingStreamHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Drops lines, and says how many, while the pipe is not read: a worker's work does not wait for its log."""

    dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.dropped and self.takes_more():
                dropped, self.dropped = self.dropped, 0
                self.emit(logger.makeRecord(logger.name, logging.WARNING, "", 0, NOT_READ, (dropped,), None))
            self.write(self.format(record) + self.terminator)
        except Exception:
            self.handleError(record)

    def write(self, text: str) -> None:
        """Write in pieces: a pipe that takes anything at all takes this much without making us wait."""
        for start in range(0, len(text), PIECE):
            if not self.takes_more():
                self.dropped += 1
                return
            self.stream.write(text[start : start + PIECE])
            self.flush()

    def takes_more(self) -> bool:
        try:
            return bool(select.select([], [self.stream], [], 0)[1])
        except (OSError, TypeError, ValueError):  # closed, or no file at all: let the stream speak for itself
            return True


ATTEMPTS = "django_tasks_retry.attempts"
NOT_READ = "%d lines were left out of this log, which was not read"


def set_up(log_format: str | None, verbosity: int, mail_interval: float | None = None) -> None:
    """Log as the project's LOGGING says; to standard error if it says nothing, or a format is asked for."""
    if logger.level == logging.NOTSET or verbosity != 1:
        logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
    logging.raiseExceptions = False
    limit_mails([*handlers_of(framework_logger), *handlers_of(logging.getLogger(ATTEMPTS))], mail_interval)
    silence(framework_logger)
    report_failures_once()
    if logger.hasHandlers() and log_format is None:
        return
    handler = NonBlockingStreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logger.handlers[:] = [handler]
    logger.propagate = False


def silence(framework: logging.Logger) -> None:
    """Its lines about tasks say what ours say, so they are left to handlers of its own, to mails and to Sentry."""
    own, inherited = list(framework.handlers), list(handlers_of(framework))[len(framework.handlers) :]
    if not framework.hasHandlers():
        framework.addHandler(logging.NullHandler())
    if framework.level != logging.NOTSET:
        return
    if not any(takes_infos(handler) for handler in own):
        framework.setLevel(logging.WARNING)
    for handler in inherited:
        if not isinstance(handler, AdminEmailHandler):
            handler.addFilter(OtherThan(framework.name))


class OtherThan(logging.Filter):
    """Leaves out what one logger says."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name != self.name


def report_failures_once() -> None:
    """Sentry makes an event of each line at level ERROR. The framework's has the exception; our line is the second."""
    if "sentry_sdk" in sys.modules:
        import_module("sentry_sdk.integrations.logging").ignore_logger(ATTEMPTS)


def handlers_of(named: logging.Logger | None) -> Iterator[logging.Handler]:
    while named is not None:
        yield from named.handlers
        named = named.parent if named.propagate else None


def takes_infos(handler: logging.Handler) -> bool:
    """Unless it says that it does not, as Django's own do in production."""
    only_in_debug = any(isinstance(each, RequireDebugTrue) for each in handler.filters) and not settings.DEBUG
    return handler.level <= logging.INFO and not only_in_debug and not isinstance(handler, logging.NullHandler)


# Mails to ADMINS: the first of each failure, and no other for a while. Fifty thousand alike would hide the next.

MOST_REMEMBERED = 1000
LOOKED_AT = 100  # characters of a message: our own line has not many more


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
