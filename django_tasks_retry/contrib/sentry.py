"""Sentry: a scope and a transaction for each attempt, the trace of its enqueue, and its failure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sentry_sdk
from django.utils.text import slugify
from sentry_sdk.consts import OP
from sentry_sdk.crons import capture_checkin
from sentry_sdk.crons.consts import MonitorStatus
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.tracing import TransactionSource
from sentry_sdk.utils import event_from_exception

from ..compat import framework_logger
from ..middleware import SIGNAL_PROCESS, Attempt, Ending, EnqueuedTask, Middleware
from ..rules.redact import redact_structure
from . import conventions

KEY = "_sentry"
LONGEST_SLUG = 50
ORIGIN = "auto.queue.django_tasks_retry"
MECHANISM = {"type": "django_tasks_retry", "handled": False}
BY_OTHERS = OP.QUEUE_SUBMIT_DJANGO
"""The span of Sentry's own integration around `.enqueue()`: turned into ours instead of sent twice."""


class Reporting(Middleware):
    """Reports failures for good, once, grouped as the console groups them, and fills Sentry's page of queues."""

    report_retries = False
    """Whether failures that are followed by another attempt are reported, too."""

    def child_started(self, worker_id: str) -> None:
        # The framework logs each final failure as an error, which would be reported a second time. Where the supervisor
        # ended a task, that line is the only report.
        if worker_id != SIGNAL_PROCESS:
            ignore_logger(framework_logger.name)

    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        with publishing() as span:
            for name, value in conventions.of_calls(list(calls)).items():
                span.set_data(name, value)
            headers = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
            if headers["sentry-trace"]:
                for call in calls:
                    call.metadata[KEY] = {**headers, "id": str(call.id)}
            yield

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.add_event_processor(redact_event)
            scope.set_tags({"queue": attempt.queue, "task": attempt.func_path, "attempt": attempt.spent})
            scope.set_context("task", {"id": str(attempt.id), "run": str(attempt.run_id), "worker": attempt.worker_id})
            transaction = sentry_sdk.continue_trace(
                headers_of(attempt),
                op=OP.QUEUE_PROCESS,
                name=attempt.func_path,
                source=TransactionSource.TASK,
                origin=ORIGIN,
            )
            with sentry_sdk.start_transaction(transaction) as span:
                yield from self.record_end(span, attempt)

    def record_end(self, span: Any, attempt: Attempt) -> Iterator[None]:
        for name, value in conventions.of_attempt(attempt).items():
            span.set_data(name, value)
        span.set_data(conventions.LATENCY, attempt.wait_seconds * 1000)
        span.set_data(conventions.RETRY_COUNT, attempt.spent - 1)
        self.check_in(attempt)
        raised: BaseException | None = None
        try:
            yield
        except BaseException as error:  # goes on to whom it concerns; here it would mark a snoozed task as an error
            raised = error
        span.set_data(conventions.OUTCOME, conventions.outcome_of(attempt))
        if attempt.ending is not None:
            span.set_status("internal_error" if attempt.ending.is_failure else "ok")
            self.conclude(attempt, attempt.ending, raised)

    def conclude(self, attempt: Attempt, ending: Ending, raised: BaseException | None) -> None:
        if ending.is_failure and (ending.is_final or self.report_retries):
            self.report(ending, raised)
        if ending.is_final:
            self.check_in(attempt)

    def report(self, ending: Ending, raised: BaseException | None) -> None:
        """Report a failure. If the function raised nothing, as for wrong arguments, only the recorded text is sent."""
        error = ending.error or {}
        if raised is None:
            event: dict[str, Any] = {"message": f"{error['code']}: {error['message']}", "level": "error"}
            hint: dict[str, Any] = {}
        else:
            options = sentry_sdk.get_client().options
            event, hint = event_from_exception(raised, client_options=options, mechanism=MECHANISM)  # type: ignore[assignment]
        event["fingerprint"] = ["django_tasks_retry", str(ending.fingerprint)]
        sentry_sdk.capture_event(event, hint=hint)  # type: ignore[arg-type]

    # Check-ins of schedules

    def monitor_of(self, attempt: Attempt) -> str | None:
        """The slug of the cron monitor that waits for this task: its schedule's name, if it fills a slot of one."""
        return slugify(attempt.schedule)[:LONGEST_SLUG] or None if attempt.schedule and attempt.slot else None

    def check_in(self, attempt: Attempt) -> None:
        """Check in when the first attempt begins and when the last one ends, under the id of the task."""
        slug, ending = self.monitor_of(attempt), attempt.ending
        if slug is None or (ending is None and attempt.number > 1):
            return
        status = MonitorStatus.IN_PROGRESS
        if ending is not None:
            status = MonitorStatus.ERROR if ending.is_failure else MonitorStatus.OK
        capture_checkin(monitor_slug=slug, check_in_id=attempt.id.hex, status=status)


@contextmanager
def publishing() -> Iterator[Any]:
    """Yield the span of an enqueue: Sentry's own, if its integration has opened one."""
    current = sentry_sdk.get_current_span()
    if current is not None and current.op == BY_OTHERS:
        current.op = OP.QUEUE_PUBLISH
        yield current
        return
    with sentry_sdk.start_span(op=OP.QUEUE_PUBLISH, name="enqueue", origin=ORIGIN) as span:
        yield span


def redact_event(event: Any, hint: Any) -> Any:
    """Redact what an event quotes, in whatever was reported while the attempt ran: by us, or by the task itself."""
    quoting = event.keys() & {"message", "logentry", "exception", "breadcrumbs", "extra"}
    event.update({key: redact_structure("", event[key]) for key in quoting})
    for raised in event.get("exception", {}).get("values", []):
        for frame in (raised.get("stacktrace") or {}).get("frames", []):
            if str(frame.get("module")).startswith("django_tasks_retry."):
                frame.pop("vars", None)  # our own variables show the whole row, in the form of Python's repr()
    return event


def headers_of(attempt: Attempt) -> dict[str, Any]:
    """Return the headers of this task's own enqueue: repetitions begin traces of their own."""
    headers = attempt.metadata.get(KEY)
    if not isinstance(headers, dict) or headers.get("id") != str(attempt.id):
        return {}
    return {name: headers[name] for name in ("sentry-trace", "baggage") if headers.get(name)}
