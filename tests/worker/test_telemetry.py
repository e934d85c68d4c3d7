"""Reports to Sentry and OpenTelemetry are sent before a process ends, also if the collector is slow."""

from __future__ import annotations

import gzip
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from django_tasks_retry.models import Task, TaskEvent

from . import tasks
from .harness import wait_for

REPORTING, TRACING = "django_tasks_retry.contrib.sentry.Reporting", "django_tasks_retry.contrib.otel.Tracing"
FAILURES = 10


class Collector(ThreadingHTTPServer):
    """Answers after half a second, as a collector far away does, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.events: list[bytes] = []

    @property
    def dsn(self) -> str:
        return f"http://key@127.0.0.1:{self.server_port}/1"


class Answer(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.5)
        self.server.events.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def watched(start, collector: Collector, *arguments: str):
    return start(*arguments, variables={"WORKER_COLLECTOR": collector.dsn}, middleware=[REPORTING, TRACING])


def told(collector: Collector) -> int:
    return sum(b'"ValueError"' in event for event in collector.events)


@pytest.mark.long
@pytest.mark.fault("telemetry_of_the_last_moments")
def test_a_child_that_ends_sends_all_to_a_slow_collector(start, effects, collector):
    Task.objects.enqueue_many([tasks.raise_value_error] * FAILURES)
    assert watched(start, collector, "--drain").exit_code() == 0
    assert told(collector) == FAILURES
    assert effects.count("span process tests.worker.tasks.exits.raise_value_error") == FAILURES


@pytest.mark.long
@pytest.mark.fault("telemetry_of_the_last_moments")
def test_a_neighbour_that_ends_the_process_takes_nothing_along(start, effects, collector):
    Task.objects.enqueue_many([tasks.raise_value_error] * FAILURES)
    worker = watched(start, collector, "--processes", "1")
    failed = TaskEvent.objects.filter(kind="task.failed", data__terminal=True)
    wait_for(lambda: failed.count() == FAILURES, "all failed")
    task = Task.objects.enqueue(tasks.exit_at_once)
    wait_for(lambda: Task.objects.get(pk=task.pk).status == "FAILED", "the process ended")
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert told(collector) == FAILURES
    assert effects.count("span process tests.worker.tasks.exits.raise_value_error") == FAILURES
