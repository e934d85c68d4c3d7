"""Alerts: one message per cause and hour, whoever looks; no secret in it; and a bad receiver costs nothing."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core import mail

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.analysis import alerts
from django_tasks_retry.analysis.alerts import SENT, is_first, send_alerts
from django_tasks_retry.conf import read_options
from django_tasks_retry.display.problems import Problem
from django_tasks_retry.display.scope import Scope, read_standing
from django_tasks_retry.errors import InvalidOptions
from django_tasks_retry.models import OperatorEvent, Task, TaskStat
from django_tasks_retry.worker.supervisor import own_processes as process_module
from django_tasks_retry.worker.supervisor.own_processes import AlertProcess, look
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.races.together import beside, together

ADDRESS = "ops@example.com"
MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
"""Django 6.1 warns of mails without it."""


@pytest.fixture(autouse=True)
def mailers(settings) -> None:
    settings.MAILERS = MAILERS


def serve(using: str) -> None:
    taskqueue.register_worker(
        "w-1", "default", host="h", pid=1, version="1", queues=["*"], exclude=[], tasks=["tests.tasks.noop"],
        processes=1, slots=4, threads=4,
    )  # fmt: skip


def tell(using: str) -> list[str]:
    found = send_alerts(read_standing(Scope("default", using, clock.now(using))))
    return [problem.kind for problem in found]


def fail(message: str) -> None:
    Task.objects.enqueue(tasks.noop, max_attempts=1)
    [lease] = taskqueue.claim("w-1/1")
    taskqueue.fail_task(lease, ValueError(message))


class Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))  # type: ignore[attr-defined]
        self.server.may_answer.wait(60)  # type: ignore[attr-defined]
        self.send_response(int(self.path.rpartition("/")[2]))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def webhook(*, answers: bool = True) -> Iterator[ThreadingHTTPServer]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.received, server.may_answer = [], threading.Event()
    if answers:
        server.may_answer.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()


def url_of(server: ThreadingHTTPServer, status: int = 200) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/hooks/s3cr3t-path/{status}"


def test_a_new_failure_is_mailed_once_and_never_what_it_quotes(database, configure, travel):
    configure(ALERTS=[ADDRESS])
    serve(database)
    fail("password=hunter2 of order 4711")
    assert [tell(database), tell(database)] == [["new_failure"], []]
    [sent] = mail.outbox
    assert sent.to == [ADDRESS]
    assert "New failure: ValueError in noop." in sent.body
    assert "hunter2" not in f"{sent.subject}{sent.body}"
    assert "4711" not in f"{sent.subject}{sent.body}"
    travel(3700)
    serve(database)
    assert tell(database) == []  # it is new no more


def test_a_cause_that_lasts_is_sent_again_after_an_hour(database, configure, travel):
    configure(ALERTS=[ADDRESS])
    Task.objects.enqueue(tasks.noop)
    sent = [tell(database)]
    for seconds in (3500, 200):
        travel(seconds)
        sent.append(tell(database))
    assert sent == [["no_workers"], [], ["no_workers"]]
    assert "Nothing starts: no worker is running." in mail.outbox[0].body


def test_each_cause_is_found_and_all_are_one_message(database, configure):
    configure(ALERTS=[ADDRESS])
    serve(database)
    moment = clock.now(database)
    TaskStat.objects.using(database).bulk_create(
        TaskStat(minute=moment.replace(second=0, microsecond=0) - timedelta(minutes=minutes), queue="default",
                 func_path="shop.charge_card", **counts)
        for minutes, counts in [(100, {"completed": 3000}), (0, {"retried": 200}), (1, {"retried": 200})]
    )  # fmt: skip
    Task.objects.enqueue(tasks.noop)
    Task.objects.using(database).update(eta=moment - timedelta(minutes=30))
    for name, minutes in (("lately", 5), ("long ago", 300)):
        slot = (moment - timedelta(minutes=minutes)).isoformat()
        OperatorEvent.objects.using(database).create(
            kind="schedule.missed", subject=name, ts=moment, actor="worker", data={"last": slot, "count": 1}
        )
    assert tell(database) == ["failing_function", "missed_slots", "late"]
    [sent] = mail.outbox
    assert sent.subject.endswith("(and 2 more)")
    assert "Schedule lately missed its slot" in sent.body
    assert "default: Work starts late" in sent.body
    assert "long ago" not in sent.body


def test_a_paused_queue_and_an_idle_site_alert_nobody(database, configure):
    configure(ALERTS=[ADDRESS])
    serve(database)
    Task.objects.enqueue(tasks.noop)
    Task.objects.using(database).update(eta=clock.now(database) - timedelta(minutes=30))
    taskqueue.pause("default", by="ann")
    assert tell(database) == []
    assert mail.outbox == []


def test_of_two_that_look_at_once_one_sends(committed, configure):
    configure(ALERTS=[ADDRESS])
    Task.objects.enqueue(tasks.noop)
    assert sorted(together(*[lambda: tell(committed)] * 4)) == [[], [], [], ["no_workers"]]
    assert len(mail.outbox) == 1
    assert OperatorEvent.objects.using(committed).filter(kind=SENT).count() == 1


def test_a_second_one_waits_until_the_first_has_written(committed):
    if committed != "postgresql":
        pytest.skip("SQLite has one writer")
    cause = Problem("late", "It is late.")
    first, second, waited = beside(committed, *[lambda: is_first(cause, committed)] * 2)
    assert (first, second, waited) == (True, False, True)


def test_a_webhook_gets_the_text_as_json_with_secrets_hidden(database, configure):
    serve(database)
    OperatorEvent.objects.using(database).create(
        kind="schedule.missed", subject="token=abc123secret456", ts=clock.now(database), actor="worker",
        data={"last": clock.now(database).isoformat(), "count": 1},
    )  # fmt: skip
    with webhook() as server:
        configure(ALERTS=[url_of(server)])
        assert tell(database) == ["missed_slots"]
    [(_path, body)] = server.received
    assert body["kinds"] == ["missed_slots"]
    assert "missed its slot" in body["text"]
    assert "abc123secret456" not in json.dumps(body)
    assert "abc123secret456" not in OperatorEvent.objects.using(database).get(kind=SENT).reason


def test_a_receiver_that_refuses_is_logged_once_without_its_path_and_the_others_are_told(database, configure, caplog):
    Task.objects.enqueue(tasks.noop)
    with webhook() as server:
        configure(ALERTS=[ADDRESS, url_of(server, 500)])
        assert [tell(database), tell(database)] == [["no_workers"], []]
    [logged] = [record.getMessage() for record in caplog.records if record.name.endswith("analysis.alerts")]
    assert "an alert could not be sent to 127.0.0.1 (HTTPError: HTTP Error 500" in logged
    assert "s3cr3t" not in logged
    assert len(mail.outbox) == 1


def test_a_receiver_that_keeps_silent_is_given_up(database, configure, caplog, monkeypatch):
    monkeypatch.setattr(alerts, "SECONDS", 0.1)
    Task.objects.enqueue(tasks.noop)
    with webhook(answers=False) as server:
        configure(ALERTS=[url_of(server), ADDRESS])
        assert tell(database) == ["no_workers"]
    assert "TimeoutError" in caplog.text
    assert len(mail.outbox) == 1


def test_the_worker_goes_on_while_a_receiver_hangs_and_ends_the_process(committed, configure, caplog, monkeypatch):
    monkeypatch.setattr(process_module, "ALERT_SECONDS", 0.0)
    Task.objects.enqueue(tasks.noop)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(ALERTS=[f"http://127.0.0.1:{silent.getsockname()[1]}/"])
        process = AlertProcess("default", lambda: None)
        process.tick()
        assert process.pid is None  # not elected
        process.is_elected = True
        process.tick()
        assert process.pid is not None
        silent.settimeout(60)
        connection, _address = silent.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(4) == b"POST"
            process.tick()
            assert os.waitpid(process.pid, os.WNOHANG) == (0, 0)
            process.kill_at = 0.0
            process.tick()
            _pid, status = os.waitpid(process.pid, 0)
        process.note_exit(status)
    assert process.pid is None
    assert "alerts may not have been sent" in caplog.text
    assert tell(committed) == []  # nobody else sends it, too


def test_without_receivers_no_process_is_forked(database):
    process = AlertProcess("default", lambda: None)
    process.is_elected, process.interval.next = True, 0.0
    process.tick()
    assert process.pid is None


def test_a_database_that_is_away_costs_a_look(configure, monkeypatch):
    def away(*_: Any) -> None:
        raise process_module.Error

    monkeypatch.setattr(process_module, "read_standing", away)
    monkeypatch.setattr(process_module, "now", lambda _using: None)
    configure(ALERTS=[ADDRESS])
    look("default")


def test_cron_tells_of_a_dead_fleet_and_shares_the_hour_with_workers(database, configure):
    Task.objects.enqueue(tasks.noop)
    refused = tasks_command("check", "--alert")
    assert (refused.code, mail.outbox) == (2, [])
    assert "OPTIONS['ALERTS']" in refused.err
    configure(ALERTS=[ADDRESS])
    assert tasks_command("check", "--alert").code == 1
    assert tasks_command("check", "--alert").code == 1
    assert len(mail.outbox) == 1
    assert tell(database) == []


def test_old_alerts_are_forgotten_with_other_events_of_rules(database, configure, travel):
    configure(ALERTS=[ADDRESS])
    tell(database)
    travel(91 * 86400)
    taskqueue.forget_skipped()
    assert not OperatorEvent.objects.using(database).filter(kind=SENT).exists()


@pytest.mark.parametrize(
    "value",
    [
        "ops@example.com",
        ["ops"],
        ["ftp://s3cr3t@host"],
        ["a@b\nBcc: c@d"],
        [None],
        ["https://"],
        ["https://u:s3cr3t@host/"],
        ["https://[x"],
        5,
    ],
)
def test_receivers_that_nobody_could_reach_are_refused_without_repeating_them(value):
    with pytest.raises(InvalidOptions, match="give a list of mail addresses") as refused:
        read_options({"ALERTS": value}, "default")
    assert "s3cr3t" not in str(refused.value)


def test_options_do_not_print_webhooks():
    chosen = read_options({"ALERTS": ["https://hooks.example.com/s3cr3t", ADDRESS]}, "default")
    assert "s3cr3t" not in repr(chosen)
