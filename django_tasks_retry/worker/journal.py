"""What a worker says: one line per attempt, for people or for machines."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils.log import RequireDebugTrue

from ..compat import framework_logger
from ..rules.status import Status
from ..taskqueue import Failed, Released
from .attempt import Attempt

logger = logging.getLogger("django_tasks_retry")
STANDARD = {"DEBUG": "DEBUG", "INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR", "CRITICAL": "CRIT"}


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        line = f"{stamp} {STANDARD.get(record.levelname, record.levelname):<5} {printable(record.getMessage())}"
        return f"{line}\n{indented(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One object per line; the keys of an attempt are stable."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "ts": datetime.fromtimestamp(record.created).astimezone().isoformat(),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(facts, default=str)


def printable(text: str) -> str:
    """No line of ours can be forged by what a task writes into its error."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def indented(traceback: str) -> str:
    """A traceback ends with words that a task may have chosen: none of them begins a line."""
    return "\n".join(f"    {printable(line)}" for line in traceback.splitlines())


def set_up(log_format: str | None, verbosity: int) -> None:
    """Write to standard error, unless the project has configured the logger itself and asked for no format."""
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
    logging.raiseExceptions = False
    quiet(framework_logger)
    if logger.handlers and log_format is None:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logger.handlers[:] = [handler]
    logger.propagate = False


def quiet(framework: logging.Logger) -> None:
    """Its lines about tasks say what ours say. Where nobody takes them they are not made, nor sent to our stream."""
    if not framework.hasHandlers():
        framework.addHandler(logging.NullHandler())
    if framework.level == logging.NOTSET and not any(takes_infos(handler) for handler in handlers_of(framework)):
        framework.setLevel(logging.WARNING)


def handlers_of(named: logging.Logger | None) -> Iterator[logging.Handler]:
    while named is not None:
        yield from named.handlers
        named = named.parent if named.propagate else None


def takes_infos(handler: logging.Handler) -> bool:
    """Unless it says that it does not, as Django's own do in production."""
    only_in_debug = any(isinstance(each, RequireDebugTrue) for each in handler.filters) and not settings.DEBUG
    return handler.level <= logging.INFO and not only_in_debug and not isinstance(handler, logging.NullHandler)


def record(attempt: Attempt) -> str:
    """Log an attempt that was answered. Returns the word for the tally."""
    word, level, detail = verdict(attempt)
    if logger.isEnabledFor(level):
        lease = attempt.lease
        facts = {
            "event": word,
            "task_id": str(lease.id),
            "task": lease.func_path,
            "queue": lease.queue,
            "attempt": lease.attempts,
            "max_attempts": lease.max_attempts,
            "wait_ms": round(attempt.wait_time * 1000),
            "run_ms": round(attempt.run_time * 1000),
            **detail,
        }
        logger.log(level, "%s", sentence(word, attempt, detail), extra={"facts": facts})
    return word


def verdict(attempt: Attempt) -> tuple[str, int, dict[str, Any]]:
    receipt, outcome = attempt.receipt, attempt.outcome
    if receipt is None or receipt.lost is not None:
        reason = receipt.lost.value if receipt and receipt.lost else "refused"
        return ("cancelled" if reason == "CANCELLED" else "lost"), logging.WARNING, {"reason": reason}
    error = brief(receipt.error)
    if receipt.status is Status.FAILED:
        return "failed", logging.ERROR, {"error": error}
    if receipt.status is Status.PENDING and isinstance(outcome, Failed) and receipt.error:
        return "retry", logging.WARNING, {"error": error, "eta": receipt.eta and receipt.eta.isoformat()}
    if receipt.status is Status.PENDING:
        reason = outcome.reason if isinstance(outcome, Released) else "snoozed"
        return "released", logging.INFO, {"reason": reason, "eta": receipt.eta and receipt.eta.isoformat()}
    return "done", logging.INFO, {}


def brief(error: dict[str, Any] | None) -> str:
    if error is None:
        return ""
    name = error["exception"].rpartition(".")[2]
    return f"{name}: {error['message']}"[:200] if error["message"] else name


def sentence(word: str, attempt: Attempt, detail: dict[str, Any]) -> str:
    lease = attempt.lease
    name = lease.func_path.rpartition(".")[2]
    parts = [
        f"{word:<9} {name} {str(lease.id)[-12:]} queue={lease.queue} attempt={lease.attempts}/{lease.max_attempts}",
        f"wait={span(attempt.wait_time)} run={span(attempt.run_time)}",
    ]
    if "error" in detail:
        parts.append(detail["error"])
    if word == "retry":
        parts.append(f"next attempt at {detail['eta']}")
    if "reason" in detail:
        parts.append(str(detail["reason"]))
    return " · ".join(parts)


def span(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"
