"""No secret leaves by any door, in whatever form: one redaction serves them all."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from time import monotonic

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import mail
from django.urls import reverse
from django.utils.log import AdminEmailHandler

from django_tasks_retry import retry, taskqueue
from django_tasks_retry.admin.base import log_action
from django_tasks_retry.compat import framework_logger, task
from django_tasks_retry.contrib.sentry import redact_event
from django_tasks_retry.display.events import log_of
from django_tasks_retry.metrics import scrape
from django_tasks_retry.models import FlowLimit, OperatorEvent, Queue, Task, TaskEvent
from django_tasks_retry.rules.redact import redact_text
from django_tasks_retry.taskqueue import claim, record
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.attempt_logs import AttemptLogHandler
from django_tasks_retry.worker.child.pipeline import run_attempt, send_signals
from django_tasks_retry.worker.logs import ATTEMPTS, JsonFormatter, TextFormatter, log_exception
from django_tasks_retry.worker.shared.outcomes import AttemptResult, OutcomePublisher
from tests.cli.conftest import tasks_command
from tests.contrib.samples import EXPORTER, OTEL
from tests.contrib.test_sentry import Arrived, arrived

__all__ = ["arrived"]

CORPUS = json.loads((Path(__file__).parent.parent / "admin" / "secrets.json").read_text(encoding="utf-8"))
FORMS = [*((text, "hunter2") for text in CORPUS["hidden"].values()), *CORPUS["by_form"].values()]
"""Texts with a secret each, and the secret."""


@task
@retry(max_attempts=1)
def leak(text: str) -> None:
    logging.getLogger("shop").warning("sending %s", text)
    raise ValueError(text)


@pytest.fixture
def failed(database) -> Callable[[], list[AttemptResult]]:
    """Fail one task for each form, as a child runs them."""

    def fail() -> list[AttemptResult]:
        Task.objects.enqueue_many([(leak, [text]) for text, _ in FORMS])
        results = []
        for lease in claim("w", limit=len(FORMS)):
            attempt = Attempt(lease, monotonic(), started=monotonic())
            run_attempt(attempt)
            [attempt.receipt] = record([attempt.report])
            results.append(AttemptResult(attempt.receipt, attempt=attempt))
        assert len(results) == len(FORMS) >= 20
        return results

    return fail


@pytest.fixture
def heard() -> Iterator[Callable[[str, logging.Handler], None]]:
    """Attach handlers to loggers until the test ends."""
    attached = []

    def attach(name: str, handler: logging.Handler) -> None:
        logging.getLogger(name).addHandler(handler)
        attached.append((logging.getLogger(name), handler))

    yield attach
    for logger, handler in attached:
        logger.removeHandler(handler)


def assert_no_secret(shown: str) -> None:
    assert shown
    leaked = [text for text, secret in FORMS if secret in shown]
    assert leaked == []


@pytest.mark.parametrize(("text", "secret"), CORPUS["by_form"].values(), ids=CORPUS["by_form"])
def test_a_secret_that_has_no_name_is_known_by_its_form(text, secret):
    assert secret in text
    for shown in (text, f"before {text} after", json.dumps({"body": text}), repr({"body": text})):
        assert secret not in redact_text(shown)


def test_mails_to_admins(failed, heard, settings):
    settings.ADMINS = [("Ann", "ann@example.com")]
    heard(framework_logger.name, AdminEmailHandler(include_html=True))
    for result in failed():
        send_signals(result.attempt)
    assert len(mail.outbox) == len(FORMS)
    for sent in mail.outbox:
        assert "ValueError" in sent.body
        assert_no_secret(sent.subject + sent.body + sent.alternatives[0][0])


def test_sentry(failed, arrived: Arrived):
    failed()
    assert len(arrived.events) == len(FORMS)
    assert_no_secret(json.dumps(arrived.events) + json.dumps(arrived.transactions))


def test_events_that_the_task_itself_sends_to_sentry():
    event = redact_event({"message": "password=hunter2", "release": "1.0", "level": "error"}, {})
    assert (event["release"], "hunter2" in event["message"]) == ("1.0", False)


def test_spans_of_opentelemetry(failed, configure):
    configure(MIDDLEWARE=[OTEL])
    EXPORTER.clear()
    failed()
    spans = [span for span in EXPORTER.get_finished_spans() if span.name.startswith("process")]
    EXPORTER.clear()
    assert len(spans) == len(FORMS)
    assert_no_secret("".join(span.to_json() for span in spans))


def test_the_span_of_an_enqueue_that_is_refused(database, configure):
    configure(MIDDLEWARE=[OTEL])
    EXPORTER.clear()
    with pytest.raises(ValueError, match="hunter2"), taskqueue_span():
        raise ValueError("password=hunter2")
    [span] = EXPORTER.get_finished_spans()
    EXPORTER.clear()
    assert span.status.description
    assert "hunter2" not in span.to_json()


def taskqueue_span():
    from tests.contrib.samples import Traced

    return Traced().enqueue([])


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_the_log_of_a_worker(failed, heard, formatter):
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    heard(ATTEMPTS, handler)
    publisher = OutcomePublisher(lambda *_: None, lambda result: None)
    for result in failed():
        publisher.publish(result)
        publisher.publish(result._replace(reason=result.receipt.error["message"]))
    logger = logging.getLogger(ATTEMPTS)
    for text, _ in FORMS:
        try:
            raise ValueError(text)
        except ValueError as error:
            log_exception(logger, "it failed")
            logger.exception("it failed: %s", error)
    assert stream.getvalue().count("failed") > len(FORMS)
    assert_no_secret(stream.getvalue())


def test_log_lines_that_are_stored_with_the_failure(failed, heard):
    heard("shop", AttemptLogHandler(5))
    failed()
    events = [event for event in TaskEvent.objects.all() if "log" in (event.data or {})]
    assert len(events) == len(FORMS)
    assert_no_secret("".join(event.data["log"] + log_of(event) for event in events))


def test_reasons_of_operators(database):
    for text, _ in FORMS:
        row = Task.objects.enqueue(leak, ["x"])
        taskqueue.cancel([row.pk], reason=text)
        taskqueue.retry([row.pk], reason=text)
        taskqueue.pause("default", reason=text)
        stored = [Queue.objects.get(name="default").reason, OperatorEvent.objects.latest("pk").reason]
        taskqueue.pause("a", kind="lane", reason=text)
        stored.append(FlowLimit.objects.among(["a"]).get().reason)
        assert_no_secret("".join(stored))
        taskqueue.resume("default", reason=text)
    assert_no_secret(json.dumps([event.data for event in TaskEvent.objects.all()]))
    assert_no_secret("".join(event.reason for event in OperatorEvent.objects.all()))


def test_the_log_of_django(database, rf):
    request = rf.post("/")
    request.user = User.objects.create_superuser("ann")
    for text, _ in FORMS:
        log_action(request, Queue, [("default", "default")], "Paused", text)
    assert LogEntry.objects.count() == len(FORMS)
    assert_no_secret("".join(entry.change_message for entry in LogEntry.objects.all()))


def test_the_command_line(failed):
    failed()
    for words in (["list"], ["failures"], ["list", "--json"], ["failures", "--json"], ["export"]):
        assert_no_secret(tasks_command(*words).out)
    for row in Task.objects.all():
        for words in (["show", row.pk], ["show", row.pk, "--json"]):
            assert_no_secret(tasks_command(*words).out)


def test_the_console(failed, client):
    client.force_login(User.objects.create_superuser("ann"))
    failed()
    for page in ("task_changelist", "failuregroup_changelist", "overview_changelist"):
        assert_no_secret(client.get(reverse(f"admin:django_tasks_retry_{page}")).content.decode())
    for row in Task.objects.all():
        page = client.get(reverse("admin:django_tasks_retry_task_change", args=[row.pk]))
        assert page.status_code == 200
        assert_no_secret(page.content.decode())


def test_metrics(failed):
    failed()
    assert_no_secret("".join(scrape("default")))
