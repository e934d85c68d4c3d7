"""Events that reach Sentry, seen by a transport of our own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.integrations import logging as sentry_logging
from sentry_sdk.transport import Transport

from django_tasks_retry.compat import framework_logger
from django_tasks_retry.contrib.sentry import Reporting
from django_tasks_retry.middleware import SIGNAL_PROCESS
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.taskqueue import run_schedule_now, tick
from tests import tasks as plain
from tests.contrib import samples
from tests.contrib.samples import SENTRY


@dataclass
class Arrived:
    events: list[Any] = field(default_factory=list)
    transactions: list[Any] = field(default_factory=list)
    checkins: list[Any] = field(default_factory=list)

    def transaction(self, name: str) -> Any:
        [found] = [each for each in self.transactions if each["transaction"] == name]
        return found


class Keeping(Transport):
    arrived = Arrived()

    def capture_envelope(self, envelope: Any) -> None:
        for item in envelope.items:
            kept = {"event": "events", "transaction": "transactions", "check_in": "checkins"}.get(item.type or "")
            if kept:
                getattr(self.arrived, kept).append(item.payload.json)


@pytest.fixture
def arrived(configure, monkeypatch) -> Iterator[Arrived]:
    configure(MIDDLEWARE=[SENTRY])
    samples.RUNS.clear()
    ignored = sentry_logging._IGNORED_LOGGERS
    monkeypatch.setattr(sentry_logging, "_IGNORED_LOGGERS", set(ignored))
    Keeping.arrived = Arrived()
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=Keeping,
        traces_sample_rate=1.0,
        auto_session_tracking=False,
        default_integrations=False,
        integrations=[sentry_logging.LoggingIntegration()],
    )
    yield Keeping.arrived
    sentry_sdk.get_client().close()
    sentry_sdk.init()


def test_a_request_its_enqueue_and_its_attempt_are_one_trace(database, tasks, arrived):
    with sentry_sdk.start_transaction(op="http.server", name="/checkout"):
        task = Task.objects.enqueue(plain.add, [1, 2], queue="emails")
    tasks.run_due()
    request, run = arrived.transaction("/checkout"), arrived.transaction("tests.tasks.add")
    [sent] = [span for span in request["spans"] if span["op"] == "queue.publish"]
    shown = run["contexts"]["trace"]
    assert (shown["op"], shown["origin"], shown["status"]) == ("queue.process", "auto.queue.django_tasks_retry", "ok")
    assert shown["trace_id"] == request["contexts"]["trace"]["trace_id"]
    assert shown["parent_span_id"] == sent["span_id"]
    wanted = {"messaging.destination.name": "emails", "messaging.message.id": str(task.pk)}
    assert wanted.items() <= sent["data"].items()
    assert wanted.items() <= shown["data"].items()
    assert shown["data"]["messaging.message.retry.count"] == 0
    assert shown["data"]["messaging.message.receive.latency"] >= 0
    assert arrived.events == []


def test_a_bulk_enqueue_is_one_span(database, arrived):
    with sentry_sdk.start_transaction(op="http.server", name="/checkout"):
        Task.objects.enqueue_many([(plain.add, [1, 2])] * 3)
    [sent] = [span for span in arrived.transaction("/checkout")["spans"] if span["op"].startswith("queue")]
    assert sent["data"]["messaging.batch.message_count"] == 3


def test_the_span_of_sentrys_own_integration_is_used_and_not_doubled(database, arrived):
    with (
        sentry_sdk.start_transaction(op="http.server", name="/checkout"),
        sentry_sdk.start_span(op="queue.submit.django", name="add"),
    ):
        plain.add.enqueue(1, 2)
    [sent] = [span for span in arrived.transaction("/checkout")["spans"] if span["op"].startswith("queue")]
    assert sent["op"] == "queue.publish"
    assert sent["data"]["messaging.destination.name"] == "default"


def test_a_final_failure_is_reported_once_with_our_fingerprint(database, tasks, arrived):
    task = Task.objects.enqueue(plain.explode, max_attempts=2)
    Reporting().child_started("host:1/1")
    tasks.run_until_idle()
    task.refresh_from_db()
    [event] = arrived.events
    assert event["exception"]["values"][-1]["type"] == "ValueError"
    assert event["exception"]["values"][-1]["mechanism"] == {"type": "django_tasks_retry", "handled": False}
    assert event["fingerprint"] == ["django_tasks_retry", task.fingerprint]
    assert event["tags"] == {"queue": "default", "task": "tests.tasks.explode", "attempt": 2}
    assert event["contexts"]["task"]["id"] == str(task.pk)
    frames = event["exception"]["values"][-1]["stacktrace"]["frames"]
    assert frames[-1]["function"] == "explode"
    assert [each["contexts"]["trace"]["status"] for each in arrived.transactions] == ["internal_error"] * 2


@pytest.mark.fault("failure_reported_twice")
def test_in_a_worker_the_frameworks_own_line_is_no_second_event(database, tasks, arrived):
    """Outside of one it still is heard: what the supervisor records passes through no middleware."""
    Task.objects.enqueue(plain.explode, max_attempts=1)
    tasks.run_due()
    assert [event.get("logger") for event in arrived.events] == [None, framework_logger.name]


def test_failures_that_are_tried_again_are_reported_on_request(database, tasks, arrived, configure):
    configure(MIDDLEWARE=["tests.contrib.samples.ReportsRetries"])
    Reporting().child_started("host:1/1")
    Task.objects.enqueue(plain.explode, max_attempts=2)
    tasks.run_until_idle()
    assert [event["tags"]["attempt"] for event in arrived.events] == [1, 2]


def test_what_is_not_raised_is_reported_in_words(database, tasks, arrived):
    Reporting().child_started("host:1/1")
    Task.objects.enqueue(samples.return_object, max_attempts=1)
    tasks.run_due()
    [event] = arrived.events
    assert event["message"].startswith("RESULT_NOT_SERIALIZABLE: ")


def test_a_snoozed_attempt_is_no_failure(database, tasks, arrived):
    Task.objects.enqueue(samples.snooze_once)
    tasks.run_until_idle()
    assert arrived.events == []
    assert [each["contexts"]["trace"]["status"] for each in arrived.transactions] == ["ok", "ok"]


def test_an_attempt_leaves_nothing_in_the_scope_of_the_next(database, tasks, arrived):
    Reporting().child_started("host:1/1")
    sentry_sdk.add_breadcrumb(message="of the worker")
    for queue in ("emails", "bulk"):
        Task.objects.enqueue(plain.explode, queue=queue, max_attempts=1)
    tasks.run_due()
    assert {event["tags"]["queue"] for event in arrived.events} == {"emails", "bulk"}
    assert "of the worker" not in str(arrived.events)
    assert sentry_sdk.get_isolation_scope()._tags == {}


def test_occurrences_of_a_repeating_task_begin_traces_of_their_own(database, tasks, arrived):
    Task.objects.enqueue(plain.noop, interval=60)
    tasks.run_due()
    tasks.advance(seconds=61)
    tasks.run_due()
    traces = {each["contexts"]["trace"]["trace_id"] for each in arrived.transactions}
    assert len(traces) == 2


@pytest.mark.parametrize(("function", "status"), [(plain.noop, "ok"), (plain.explode, "error")])
def test_a_monitor_hears_when_the_task_begins_and_how_it_ends(database, tasks, arrived, configure, function, status):
    configure(MIDDLEWARE=["tests.contrib.samples.Monitored"])
    task = Task.objects.enqueue(function, max_attempts=2)
    tasks.run_until_idle()
    told = [(each["monitor_slug"], each["check_in_id"], each["status"]) for each in arrived.checkins]
    assert told == [("nightly", task.pk.hex, "in_progress"), ("nightly", task.pk.hex, status)]


@pytest.mark.fault("failure_reported_twice")
def test_where_the_supervisor_ended_a_task_the_frameworks_line_is_heard(arrived):
    Reporting().child_started(SIGNAL_PROCESS)
    assert framework_logger.name not in sentry_logging._IGNORED_LOGGERS
    Reporting().child_started("host:1/1")
    assert framework_logger.name in sentry_logging._IGNORED_LOGGERS


def test_a_run_of_a_schedule_checks_in_under_its_name(database, tasks, arrived):
    Schedule.objects.create(name="Nightly report", task=plain.noop, every=60)
    tasks.advance(seconds=61)
    tick()
    tasks.run_due()
    assert [(each["monitor_slug"], each["status"]) for each in arrived.checkins] == [
        ("nightly-report", "in_progress"),
        ("nightly-report", "ok"),
    ]


def test_a_run_beside_the_plan_checks_in_nowhere(database, tasks, arrived):
    Schedule.objects.create(name="nightly", task=plain.noop, every=60)
    run_schedule_now("nightly", by="me")
    tasks.run_due()
    assert arrived.checkins == []


def test_without_a_client_nothing_is_added_or_lost(database, tasks, configure):
    configure(MIDDLEWARE=[SENTRY])
    task = Task.objects.enqueue(plain.add, [1, 2])
    tasks.run_due()
    task.refresh_from_db()
    assert task.status == "SUCCESS"
