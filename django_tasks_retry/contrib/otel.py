"""OpenTelemetry: a trace from the request through the enqueue to the attempt. Uses the API only, no SDK."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from .. import __version__
from ..middleware import Attempt, EnqueuedTask, Middleware
from ..rules.failure import capture
from ..rules.redact import redact_text
from . import conventions

KEY = "_otel"
"""The key of a task's metadata under which the context of its enqueue travels."""


class Tracing(Middleware):
    """A span for each enqueue, of one task or of many, and one for each attempt.

    The first attempt belongs to the trace of its enqueue. Later attempts, attempts long after the enqueue, and further
    occurrences of a repeating task begin traces of their own, with a link to it: no trace lasts for days.
    """

    long_delay = 3600.0
    """Seconds after the enqueue from which on an attempt begins a trace of its own."""

    def __init__(self) -> None:
        self.tracer = trace.get_tracer("django_tasks_retry", __version__)

    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        attributes = conventions.of_calls(list(calls))
        name = " ".join(filter(None, ("send", attributes.get(conventions.DESTINATION))))
        with self.tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            if carrier:
                for call in calls:
                    call.metadata[KEY] = {**carrier, "id": str(call.id)}
            try:
                yield
            except Exception as error:
                record_error(span, capture(error).as_dict(), raised=True)
                raise

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        origin, links = self.origin_of(attempt)
        token = context.attach(origin)
        try:
            with self.tracer.start_as_current_span(
                f"process {attempt.func_path}",
                kind=SpanKind.CONSUMER,
                attributes=conventions.of_attempt(attempt),
                links=links,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                yield from self.record_end(span, attempt)
        finally:
            context.detach(token)

    def record_end(self, span: Span, attempt: Attempt) -> Iterator[None]:
        raised = False
        try:
            yield
        except BaseException:
            raised = True
            raise
        finally:
            span.set_attribute(conventions.OUTCOME, conventions.outcome_of(attempt))
            if attempt.ending and attempt.ending.error:
                record_error(span, attempt.ending.error, raised=raised)

    def origin_of(self, attempt: Attempt) -> tuple[Context, list[Link]]:
        """The context that the attempt continues, and what it links to instead."""
        carrier = attempt.metadata.get(KEY)
        if not isinstance(carrier, dict):
            return Context(), []
        origin = propagate.extract(carrier, context=Context())
        sender = trace.get_current_span(origin).get_span_context()
        if not sender.is_valid or self.continues(attempt, carrier):
            return origin, []
        return trace.set_span_in_context(trace.INVALID_SPAN, origin), [Link(sender)]

    def continues(self, attempt: Attempt, carrier: dict[str, Any]) -> bool:
        """Return whether it is the first attempt of the very task that was enqueued there, not long ago."""
        age = (attempt.claimed_at - attempt.created_at).total_seconds()
        return attempt.number == 1 and carrier.get("id") == str(attempt.id) and age <= self.long_delay


def record_error(span: Span, error: dict[str, Any], *, raised: bool) -> None:
    """Record a failure as `Span.record_exception` does, without secrets: that would write the message as raised."""
    message = redact_text(error["message"])
    span.set_attribute(conventions.ERROR_TYPE, error["exception"] or error["code"])
    span.set_status(Status(StatusCode.ERROR, message))
    if raised:
        attributes = {
            "exception.type": error["exception"],
            "exception.message": message,
            "exception.stacktrace": redact_text(error["traceback"]),
        }
        span.add_event("exception", attributes)
