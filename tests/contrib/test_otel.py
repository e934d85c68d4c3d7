"""The tree of spans, from a request to the last attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic

import pytest
from django.db import transaction
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, claim
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.pipeline import run_attempt, run_attempt_async
from tests import tasks as plain
from tests.contrib import samples
from tests.contrib.samples import EXPORTER, OTEL, TRACER


@pytest.fixture(autouse=True)
def traced(configure) -> Iterator[None]:
    configure(MIDDLEWARE=[OTEL])
    samples.RUNS.clear()
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def spans(name: str) -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def of(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def test_a_request_its_bulk_enqueue_and_first_attempts_are_one_trace_and_a_retry_links_to_it(database, tasks):
    with TRACER.start_as_current_span("GET /checkout"):
        Task.objects.enqueue_many([(samples.fail_once, []), (plain.add, [1, 2])])
    tasks.run_until_idle()
    [request], [sent], [added] = spans("GET /checkout"), spans("send default"), spans("process tests.tasks.add")
    first, second = spans("process tests.contrib.samples.fail_once")
    assert sent.parent == request.context
    assert sent.kind is SpanKind.PRODUCER
    assert sent.attributes["messaging.batch.message_count"] == 2
    assert first.parent.span_id == added.parent.span_id == sent.context.span_id
    assert {span.context.trace_id for span in (first, added)} == {request.context.trace_id}
    assert first.kind is SpanKind.CONSUMER
    assert second.parent is None
    assert second.context.trace_id != request.context.trace_id
    assert [of_link(link) for link in second.links] == [of(sent)]
    assert [span.attributes["django_tasks_retry.outcome"] for span in (first, second)] == ["retried", "completed"]
    assert len(EXPORTER.get_finished_spans()) == 5


def of_link(link) -> tuple[int, int]:
    return link.context.trace_id, link.context.span_id


def test_a_span_says_what_the_conventions_want_of_it(database, tasks):
    task = Task.objects.enqueue(plain.explode, ["boom"], queue="emails", max_attempts=1)
    tasks.run_due()
    [sent], [run] = spans("send emails"), spans("process tests.tasks.explode")
    wanted = {
        "messaging.system": "django_tasks_retry",
        "messaging.destination.name": "emails",
        "messaging.message.id": str(task.pk),
        "code.function.name": "tests.tasks.explode",
    }
    for span, operation in ((sent, "send"), (run, "process")):
        assert wanted.items() <= dict(span.attributes).items()
        assert span.attributes["messaging.operation.type"] == operation
    assert (run.attributes["django_tasks_retry.outcome"], run.attributes["error.type"]) == (
        "failed",
        "builtins.ValueError",
    )
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "boom")
    assert [event.name for event in run.events] == ["exception"]


def test_what_is_not_raised_is_still_an_error(database, tasks):
    Task.objects.enqueue(samples.return_object, max_attempts=1)
    tasks.run_due()
    [run] = spans("process tests.contrib.samples.return_object")
    assert run.status.status_code is StatusCode.ERROR
    assert run.events == ()


def test_a_snoozed_attempt_is_no_error(database, tasks):
    Task.objects.enqueue(samples.snooze_once)
    tasks.run_until_idle()
    first, second = spans("process tests.contrib.samples.snooze_once")
    assert first.status.status_code is StatusCode.UNSET
    assert [span.attributes["django_tasks_retry.outcome"] for span in (first, second)] == ["released", "completed"]


@pytest.mark.parametrize(("hours", "path", "continues"), [(0.9, OTEL, True), (1.1, OTEL, False)])
def test_an_attempt_long_after_its_enqueue_begins_a_trace(database, tasks, hours, path, continues):
    Task.objects.enqueue(plain.add, [1, 2])
    tasks.advance(hours=hours)
    tasks.run_due()
    [sent], [run] = spans("send default"), spans("process tests.tasks.add")
    assert (run.context.trace_id == sent.context.trace_id) is continues
    assert len(run.links) == (not continues)


def test_how_long_is_long_can_be_said(database, tasks, configure):
    configure(MIDDLEWARE=["tests.contrib.samples.Patient"])
    Task.objects.enqueue(plain.add, [1, 2])
    tasks.advance(hours=30)
    tasks.run_due()
    [sent], [run] = spans("send default"), spans("process tests.tasks.add")
    assert run.context.trace_id == sent.context.trace_id


def test_occurrences_of_a_repeating_task_begin_traces_with_a_link(database, tasks):
    Task.objects.enqueue(plain.noop, interval=60)
    tasks.run_due()
    tasks.advance(seconds=61)
    tasks.run_due()
    [sent], [first, second] = spans("send default"), spans("process tests.tasks.noop")
    assert first.context.trace_id == sent.context.trace_id
    assert second.parent is None
    assert [of_link(link) for link in second.links] == [of(sent)]


def test_a_retry_by_a_person_belongs_to_the_trace_of_the_person(database, tasks):
    task = Task.objects.enqueue(plain.add, [1, 2])
    tasks.run_due()
    task.refresh_from_db()
    EXPORTER.clear()
    with TRACER.start_as_current_span("POST /admin"):
        task.retry(by="me")
    tasks.run_due()
    [request], [run] = spans("POST /admin"), spans("process tests.tasks.add")
    assert run.context.trace_id == request.context.trace_id


@pytest.mark.parametrize("function", [samples.trace_id, samples.trace_id_async], ids=["thread", "coroutine"])
def test_the_function_runs_within_its_span(database, tasks, function):
    Task.objects.enqueue(function)
    [sent] = spans("send default")
    [lease] = claim(tasks.worker_id)
    attempt = Attempt(lease, monotonic())
    outcome = asyncio.run(run_attempt_async(attempt)) if function is samples.trace_id_async else run_attempt(attempt)
    assert outcome == Completed(lease, format(sent.context.trace_id, "032x"))


def test_what_a_task_enqueues_hangs_below_its_attempt(database, tasks):
    Task.objects.enqueue(samples.enqueue_another)
    tasks.run_due()
    outer, inner = spans("send default")
    [run] = spans("process tests.contrib.samples.enqueue_another")
    assert inner.parent == run.context
    assert inner.context.trace_id == outer.context.trace_id


def test_an_enqueue_that_fails_is_an_error_of_its_span(database):
    with transaction.atomic(using=database):
        transaction.set_rollback(True, using=database)
        with pytest.raises(transaction.TransactionManagementError):
            Task.objects.enqueue(plain.add, [1, 2])
    [sent] = spans("send default")
    assert sent.status.status_code is StatusCode.ERROR


def test_polls_that_find_nothing_make_no_span(database, tasks):
    for _ in range(100):
        assert claim(tasks.worker_id) == []
    assert EXPORTER.get_finished_spans() == ()


def test_metadata_that_somebody_forged_breaks_nothing(database, tasks):
    for forged in ("x", {"traceparent": 7}, {"traceparent": "00-zz"}, [1]):
        task = Task.objects.enqueue(plain.add, [1, 2])
        [lease] = claim(tasks.worker_id)
        assert lease.id == task.pk
        attempt = Attempt(lease._replace(metadata={"_otel": forged}), monotonic())
        run_attempt(attempt)
        assert attempt.report is not None
        assert attempt.report.error is None
