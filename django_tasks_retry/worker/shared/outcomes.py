"""The one exit of attempts: each process that records an end publishes it here, to log, statistics and signals.

A child records what its functions did; a supervisor speaks for children that are stuck or dead; any supervisor takes
back what expired. Each hands the queue's answer to `OutcomePublisher.publish`.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeAlias

from ...errors import LostReason
from ...rules.names import short_id, short_name
from ...rules.redact import redact_text
from ...rules.status import Status
from ...taskqueue import Lease, Receipt, Stat, add_stats, log_once
from ...taskqueue.lanes import has_breaker
from ...taskqueue.statistics import OUTCOMES
from ..logs import ATTEMPTS, indented, printable
from .database import DatabaseCaller, Rejected, Unavailable
from .interval import Interval

logger = logging.getLogger(ATTEMPTS)  # logs one line for each attempt that was recorded, by a child or by a supervisor
MOST_ERROR_TEXT = 200


class AttemptResult(NamedTuple):
    """The queue's answer about one attempt, with what else is known of it."""

    receipt: Receipt
    reason: str = ""  # the reason of its release or loss
    run_seconds: float = 0.0
    attempt: Any = None  # the attempt itself, in the process that ran it

    @property
    def lease(self) -> Lease:
        return self.receipt.lease


Note: TypeAlias = Callable[[tuple[str, str, str], str, float, float], None]
"""Counts one attempt: queue, function and lane, the outcome, how long it ran and waited."""


class OutcomePublisher:
    def __init__(self, note: Note, send_finished: Callable[[AttemptResult], None]) -> None:
        self.note, self.send_finished = note, send_finished

    def publish(self, result: AttemptResult) -> None:
        """Write the log line, count it, and send signals if the task has ended for good."""
        word, level, detail = describe(result)
        log(result, word, level, detail)
        lease = result.lease
        lane = lease.lane if lease.lane and has_breaker(lease.lane, lease.backend) else ""
        key = (lease.queue, lease.func_path, lane)
        self.note(key, COUNTED.get(word, word), result.run_seconds, lease.wait_seconds)
        if result.receipt.final_status is not None:
            self.send_finished(result)


COUNTED = {"done": "completed", "retry": "retried"}  # the counts of Stat whose names differ from the word of the log


def describe(result: AttemptResult) -> tuple[str, int, dict[str, Any]]:
    """Return the word for how it ended, the level of its log line, and details."""
    receipt = result.receipt
    reason = {"reason": redact_text(result.reason)} if result.reason else {}
    if receipt.lost is not None:
        # The process that ended the lease has published the attempt, so this report is dropped.
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
    if receipt.releases:
        reason = {"reason": f"{result.reason} · released {receipt.releases} times in a row"}
    return "released", logging.WARNING if receipt.releases else logging.INFO, reason | eta


def brief(error: dict[str, Any] | None) -> str:
    if error is None:
        return ""
    name = short_name(error["exception"]) or error["code"]
    return f"{name}: {redact_text(error['message'])}"[:MOST_ERROR_TEXT] if error["message"] else name


def log(result: AttemptResult, word: str, level: int, detail: dict[str, Any]) -> None:
    if not logger.isEnabledFor(level):
        return
    lease = result.lease
    facts = {
        "event": word,
        "task_id": str(lease.id),
        "task": lease.func_path,
        "queue": lease.queue,
        "attempt": lease.spent,
        "max_attempts": lease.max_attempts,
        "wait_ms": round(result.lease.wait_seconds * 1000),
        "run_ms": round(result.run_seconds * 1000),
        **detail,
    }
    text = (sentence(result, word, detail),)
    record = logger.makeRecord(logger.name, level, __file__, 0, "%s", text, None, extra={"facts": facts})
    # As formatters append it: indented, so that no line of it can pass for one of the log's own.
    record.exc_text = indented(traceback_of(result, level)) or None
    logger.handle(record)


def traceback_of(result: AttemptResult, level: int) -> str:
    """Return the traceback of a final failure; at DEBUG also of one that is retried."""
    error = result.receipt.error
    if error is None or not (level >= logging.ERROR or logger.isEnabledFor(logging.DEBUG)):
        return ""
    return redact_text(str(error["traceback"] or ""))


def sentence(result: AttemptResult, word: str, detail: dict[str, Any]) -> str:
    lease = result.lease
    name, task_id = short_name(lease.func_path), short_id(lease.id)
    parts = [
        f"{word:<9} {name} {task_id} queue={lease.queue} attempt={lease.spent}/{lease.max_attempts}",
        f"wait={span(result.lease.wait_seconds)} run={span(result.run_seconds)}",
        detail.get("error", ""),
        f"next attempt at {detail['eta']}" if word == "retry" else "",
        str(detail.get("reason", "")),
    ]
    return printable(" · ".join(part for part in parts if part))


def span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"
    minutes = int(seconds) // 60
    return f"{minutes}m{int(seconds) % 60:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


# Statistics on their way: a child sends them to its supervisor, which adds them to the database every few seconds.

stats_logger = logging.getLogger(__name__)
ADD_SECONDS = 10.0
ADD_AGAIN_SECONDS = 0.1
AT_ONCE_SECONDS = 0.5  # the supervisor has leases to renew meanwhile
SLICE = 500
"""Counts that one call adds. All those of 10,000 queues took 8.75 s at load 14, and calls are given up after 5 s."""
ALWAYS_SHOWN = ("completed", "retried", "failed", "released")
LOST = "counts of %d attempts are lost: the database did not take them within %.0f s (%d queues and functions)"
REFUSED = "the database refuses the counts of queue %s and function %s, which are left out; check their statistics rows"


class Counts:
    """One Stat for each queue, function and lane."""

    def __init__(self) -> None:
        self.stats: dict[tuple[str, str, str], Stat] = {}

    def of(self, key: tuple[str, str, str]) -> Stat:
        stat = self.stats.get(key)
        if stat is None:
            stat = self.stats[key] = Stat(*key[:2], lane=key[2])
        return stat

    def note(self, key: tuple[str, str, str], outcome: str, ran: float, waited: float) -> None:
        self.of(key).note(outcome, ran, waited)

    def add(self, stat: Stat) -> None:
        self.of(stat.key).add(stat)

    def take(self) -> list[Stat]:
        """Return what was added since the last time."""
        taken, self.stats = list(self.stats.values()), {}
        return taken

    def first(self, limit: int) -> list[Stat]:
        return list(islice(self.stats.values(), limit))

    def remove(self, stats: Iterable[Stat]) -> None:
        for stat in stats:
            del self.stats[stat.key]


class StatsWriter:
    """Adds to the database what the supervisor and its children counted."""

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend, self.database = backend, database
        self.counts, self.total = Counts(), Stat("", "")
        self.adding = Interval(ADD_SECONDS, at_once=False)
        self.limit = SLICE

    def note(self, key: tuple[str, str, str], outcome: str, ran: float, waited: float) -> None:
        """Count an attempt that this process has recorded."""
        self.count(Stat.of_attempt(key, outcome, ran, waited))

    def count(self, stat: Stat) -> None:
        self.total.add(stat)
        if stat.attempts:
            self.counts.add(stat)

    def tick(self) -> None:
        if self.adding.is_due() and self.add():
            self.adding.soon(ADD_AGAIN_SECONDS)

    def add(self, seconds: float = AT_ONCE_SECONDS) -> bool:
        """Add counts slice by slice. Those that cannot be added now are kept. Return whether to go on soon."""
        deadline = monotonic() + seconds
        while self.counts.stats and self.database.is_available:
            try:
                self.add_slice(self.counts.first(self.limit))
            except Unavailable as error:
                return isinstance(error, Rejected)
            if monotonic() >= deadline:
                return bool(self.counts.stats)
        return False

    def add_slice(self, stats: list[Stat]) -> None:
        """Add these in one transaction. After a failure the next slice is half as large: one row may be the cause."""
        try:
            self.database.call(lambda: add_stats(stats, backend=self.backend))
        except Unavailable as error:
            self.limit = max(1, len(stats) // 2)
            if isinstance(error, Rejected) and len(stats) == 1:
                self.counts.remove(stats)
                log_once(REFUSED, *stats[0].key[:2])
            raise
        self.counts.remove(stats)
        self.limit = min(SLICE, self.limit * 2)

    def finish(self, seconds: float) -> None:
        """Add what is left, within these seconds, and log what is lost."""
        deadline = monotonic() + seconds
        while self.counts.stats and (left := deadline - monotonic()) > 0:
            self.add(left)
            if self.counts.stats:
                sleep(min(left, ADD_AGAIN_SECONDS))
        if lost := self.counts.take():
            stats_logger.warning(LOST, sum(stat.attempts for stat in lost), seconds, len(lost))

    def summary(self) -> str:
        counts = {name: getattr(self.total, name) for name in OUTCOMES}
        shown = {name: count for name, count in counts.items() if count or name in ALWAYS_SHOWN}
        return ", ".join(f"{count} {'done' if name == 'completed' else name}" for name, count in shown.items())
