"""The one exit: whoever records the end of an attempt tells the log, the statistics and the signals here.

A child records what its functions did; a supervisor speaks for children that are stuck or dead; any supervisor takes
back what expired. Each hands the queue's answer to `OutcomeRecorder.recorded`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ...errors import LostReason
from ...rules.names import short_id, short_name
from ...rules.status import Status
from ...taskqueue import Lease, Receipt
from ...taskqueue.lanes.limits import has_breaker
from ..logs import ATTEMPTS, indented, printable

logger = logging.getLogger(ATTEMPTS)
"""One line for each attempt that was recorded, whoever recorded it."""
MOST_ERROR_TEXT = 200


class Recorded(NamedTuple):
    """The queue's answer about one attempt, with what else is known of it."""

    receipt: Receipt
    reason: str = ""
    """Why it was released or lost."""
    run_seconds: float = 0.0

    @property
    def lease(self) -> Lease:
        return self.receipt.lease


class Stats(Protocol):
    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float, lane: str = "") -> None: ...


class OutcomeRecorder:
    def __init__(self, stats: Stats, send_finished: Callable[[Any], None]) -> None:
        self.stats, self.send_finished = stats, send_finished

    def recorded(self, recorded: Recorded, finished: Any) -> None:
        """`finished` is what the sender of `task_finished` needs, where the task has ended for good."""
        word, level, detail = verdict(recorded)
        log(recorded, word, level, detail)
        lease = recorded.lease
        lane = lease.lane if lease.lane and has_breaker(lease.lane, lease.backend) else ""
        self.stats.count(lease.queue, lease.func_path, word, recorded.run_seconds, lease.wait_seconds, lane)
        if recorded.receipt.final_status is not None:
            self.send_finished(finished)


def verdict(recorded: Recorded) -> tuple[str, int, dict[str, Any]]:
    """The word for what happened, how loud to say it, and the details."""
    receipt = recorded.receipt
    reason = {"reason": recorded.reason} if recorded.reason else {}
    if receipt.lost is not None:
        # Whoever ended the lease has told of the attempt: this report about it is dropped.
        word = "cancelled" if receipt.lost is LostReason.CANCELLED else "dropped"
        return word, logging.WARNING, {"reason": receipt.lost.value}
    if receipt.status is Status.FAILED:
        return "failed", logging.ERROR, {"error": brief(receipt.error)} | reason
    if receipt.status is Status.SUCCESS:
        return "done", logging.INFO, {}
    eta = {"eta": receipt.eta and receipt.eta.isoformat()}
    if receipt.error is not None:
        return "retry", logging.WARNING, {"error": brief(receipt.error)} | eta | reason
    if receipt.cause:
        return "lost", logging.WARNING, eta | reason
    return "released", logging.INFO, reason | eta


def brief(error: dict[str, Any] | None) -> str:
    if error is None:
        return ""
    name = short_name(error["exception"]) or error["code"]
    return f"{name}: {error['message']}"[:MOST_ERROR_TEXT] if error["message"] else name


def log(recorded: Recorded, word: str, level: int, detail: dict[str, Any]) -> None:
    if not logger.isEnabledFor(level):
        return
    lease = recorded.lease
    facts = {
        "event": word,
        "task_id": str(lease.id),
        "task": lease.func_path,
        "queue": lease.queue,
        "attempt": lease.spent,
        "max_attempts": lease.max_attempts,
        "wait_ms": round(recorded.lease.wait_seconds * 1000),
        "run_ms": round(recorded.run_seconds * 1000),
        **detail,
    }
    said = (sentence(recorded, word, detail),)
    record = logger.makeRecord(logger.name, level, __file__, 0, "%s", said, None, extra={"facts": facts})
    # As formatters append it: indented, so that no line of it can pass for one of the log's own.
    record.exc_text = indented(traceback_of(recorded, level)) or None
    logger.handle(record)


def traceback_of(recorded: Recorded, level: int) -> str:
    """Of a failure that is final; of those that are retried only for who asks for everything."""
    error = recorded.receipt.error
    if error is None or not (level >= logging.ERROR or logger.isEnabledFor(logging.DEBUG)):
        return ""
    return str(error["traceback"] or "")


def sentence(recorded: Recorded, word: str, detail: dict[str, Any]) -> str:
    lease = recorded.lease
    name, task_id = short_name(lease.func_path), short_id(lease.id)
    parts = [
        f"{word:<9} {name} {task_id} queue={lease.queue} attempt={lease.spent}/{lease.max_attempts}",
        f"wait={span(recorded.lease.wait_seconds)} run={span(recorded.run_seconds)}",
        detail.get("error", ""),
        f"next attempt at {detail['eta']}" if word == "retry" else "",
        str(detail.get("reason", "")),
    ]
    return printable(" · ".join(part for part in parts if part))


def span(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"
