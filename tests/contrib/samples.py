"""Tasks and middleware of the tests: spans are kept in memory, events of Sentry in a list."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_tasks_retry import Snooze, retry
from django_tasks_retry.compat import task
from django_tasks_retry.contrib.otel import Tracing
from django_tasks_retry.contrib.sentry import Reporting
from django_tasks_retry.middleware import Attempt
from tests.tasks import noop

EXPORTER = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
TRACER = PROVIDER.get_tracer("tests")
OTEL, SENTRY = "tests.contrib.samples.Traced", "django_tasks_retry.contrib.sentry.Reporting"
RUNS: list[int] = []


class Traced(Tracing):
    def __init__(self) -> None:
        self.tracer = TRACER


class Patient(Traced):
    long_delay = 7 * 86400.0


class ReportsRetries(Reporting):
    report_retries = True


class Monitored(Reporting):
    def monitor_of(self, attempt: Attempt) -> str | None:
        return "nightly"


@task
def trace_id() -> str:
    return format(trace.get_current_span().get_span_context().trace_id, "032x")


@task
async def trace_id_async() -> str:
    return format(trace.get_current_span().get_span_context().trace_id, "032x")


@task
@retry(max_attempts=2, backoff=[5])
def fail_once() -> None:
    RUNS.append(1)
    if len(RUNS) == 1:
        raise ConnectionError("first")


@task
def snooze_once() -> None:
    RUNS.append(1)
    if len(RUNS) == 1:
        raise Snooze(5)


@task
def enqueue_another() -> None:
    noop.enqueue()


@task
def return_object() -> object:
    return object()
