"""Output of a worker, which also works if nobody reads it."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connections
from django.utils.log import RequireDebugTrue

from django_tasks_retry import guard
from django_tasks_retry.models import Task
from django_tasks_retry.worker import logs
from django_tasks_retry.worker.shared.outcomes import span

from . import tasks
from .harness import ROOT, status_of, wait_for

KEYS = {"ts", "level", "message", "event", "task_id", "task", "queue", "attempt", "max_attempts", "wait_ms", "run_ms"}


def test_lines_for_people(start, effects, committed):
    task = Task.objects.enqueue(tasks.fail_twice)
    worker = start("--drain", "--queues", "default", "--threads", "3", "--name", "mine")
    assert worker.exit_code() == 0
    first, *rest = worker.output.splitlines()
    stamp = r"^\d\d:\d\d:\d\d"
    vendor = connections[committed].vendor
    assert re.search(
        rf"{stamp} INFO  django_tasks_retry \S+ · worker mine-\S+ · {vendor} .* · queues default · .*3 threads", first
    )
    line = rf"{stamp} WARN  retry     fail_twice {str(task.pk)[:18]} queue=default attempt=%d/3 · wait=\S+ run=\S+ · "
    for attempt in (1, 2):
        assert any(
            re.search(line % attempt + r"ValueError: not yet\\nFORGED LINE · next attempt at 20", said) for said in rest
        )
    assert re.search(rf"{stamp} INFO  done      fail_twice .* attempt=3/3", worker.output, re.MULTILINE)
    assert "stopped · 1 done, 2 retried, 0 failed, 0 released in" in rest[-1]
    assert not re.search("^FORGED", worker.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.012, "12ms"), (3.04, "3.0s"), (59.9, "59.9s"), (75.0, "1m15s"), (80136.3, "22h15m")]
)
def test_long_times_are_minutes_and_hours(seconds, text):
    assert span(seconds) == text


def test_lines_for_machines_have_stable_keys(start, effects):
    Task.objects.enqueue_many([tasks.canary, tasks.system_exit, tasks.fail_twice])
    worker = start("--drain", "--log-format", "json")
    assert worker.exit_code() == 0
    said = [json.loads(line) for line in worker.output.splitlines()]
    attempts = {line["event"]: line for line in said if "event" in line}
    assert attempts["done"].keys() == KEYS
    assert attempts["failed"].keys() == KEYS | {"error", "traceback"}
    assert attempts["failed"]["traceback"].startswith("Traceback (most recent call last):")
    assert attempts["retry"].keys() == KEYS | {"error", "eta"}
    assert all({"ts", "level", "message"} <= line.keys() for line in said)


@pytest.mark.fault("duplicate_log_lines_and_mails")
def test_in_development_each_attempt_has_one_line_and_a_failure_its_traceback(start, effects):
    Task.objects.enqueue_many([tasks.canary, tasks.system_exit])
    worker = start("--drain", variables={"WORKER_DEBUG": "1"})
    assert worker.exit_code() == 0
    assert [len(re.findall(rf"\b{name} \w{{8}}-", worker.output)) for name in ("canary", "system_exit")] == [1, 1]
    assert worker.output.count("Traceback (most recent call last):") == 1
    assert re.search(r"ERROR failed    system_exit .*\n    Traceback .*\n(    .*\n)+    SystemExit: ", worker.output)
    assert "Task id=" not in worker.output


@pytest.mark.fault("duplicate_log_lines_and_mails")
def test_the_projects_own_handlers_get_the_lines_and_admins_one_mail_for_each_failure(start, effects, tmp_path):
    (tmp_path / "mails").mkdir()
    Task.objects.enqueue_many([tasks.canary, *[tasks.system_exit] * 3])
    worker = start("--drain", "--threads", "1", variables={"WORKER_LOG_FOLDER": str(tmp_path)})
    assert worker.exit_code() == 0
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert len(re.findall(r"^INFO django_tasks_retry\.attempts done      canary", log, re.MULTILINE)) == 1
    assert len(re.findall(r"^ERROR django_tasks_retry\.attempts failed    system_exit", log, re.MULTILINE)) == 3
    assert (log.count("    Traceback (most recent call last):"), log.count("Task id=")) == (3, 0)
    assert worker.output == ""
    [mails] = (tmp_path / "mails").iterdir()
    assert mails.read_text(encoding="utf-8").count("\nTo: admin@example.com") == 1


def handler(*filters, level=logging.NOTSET):
    made = logging.StreamHandler()
    made.setLevel(level)
    made.filters = list(filters)
    return made


HANDLERS = {
    "none": (None, logging.WARNING),
    "for infos": (logging.StreamHandler(), logging.NOTSET),
    "for errors": (handler(level=logging.ERROR), logging.WARNING),
    "for developers": (handler(RequireDebugTrue()), logging.WARNING),
    "of its own filter": (handler(logging.Filter("django")), logging.NOTSET),
}


@pytest.mark.parametrize("name", HANDLERS)
def test_the_frameworks_lines_are_made_only_where_somebody_takes_them(name):
    framework = logging.Logger("django.tasks")  # noqa: LOG001 - not the one that this process has
    given, level = HANDLERS[name]
    if given is not None:
        framework.addHandler(given)
    logs.silence(framework)
    assert (framework.level, framework.hasHandlers()) == (level, True)


@pytest.mark.fault("output_closed_or_full")
def test_a_worker_without_standard_streams_works(start, effects):
    task, poison = Task.objects.enqueue(tasks.canary), Task.objects.enqueue(tasks.exit_at_once)
    close_all = {"preexec_fn": lambda: [os.close(number) for number in (0, 1, 2)]}
    assert start("--drain", popen=close_all).exit_code() == 0
    assert [status_of(each) for each in (task, poison)] == ["SUCCESS", "FAILED"]


@pytest.mark.fault("output_closed_or_full")
def test_a_worker_whose_output_cannot_be_written_works(start, effects):
    task = Task.objects.enqueue(tasks.canary)
    with Path("/dev/full").open("wb") as full:
        assert start("--drain", popen={"stdout": full, "stderr": full}).exit_code() in (0, 120)
    assert status_of(task) == "SUCCESS"


def test_a_database_without_its_guard_is_refused(start, effects, committed):
    connection = connections[committed]
    table = "" if connection.vendor == "sqlite" else " ON django_tasks_retry_task"
    connection.cursor().execute(f"DROP TRIGGER dtr_guard_move{table}")
    try:
        worker = start("--drain")
        assert worker.exit_code() == 1
    finally:
        guard.install(committed)
    [said] = worker.output.splitlines()
    assert "does not enforce the task contract" in said


def test_a_heartbeat_file_tells_whether_the_worker_lives(start, effects, tmp_path):
    file = tmp_path / "heartbeat"
    worker = start("--heartbeat-file", str(file))
    wait_for(file.exists, "the heartbeat file")
    assert alive(str(file)) == 0
    began = file.stat().st_mtime
    wait_for(lambda: file.stat().st_mtime > began, "the next heartbeat")
    assert alive(str(file), "--max-age", "30") == 0
    worker.end()
    old = time.time() - 31
    os.utime(file, (old, old))
    assert alive(str(file), "--max-age", "30") == 1
    assert alive(str(tmp_path / "none")) == 1
    assert alive() == 2


@pytest.mark.fault("heartbeat_from_the_future")
def test_a_heartbeat_from_the_future_is_no_sign_of_life(start, effects, tmp_path):
    """The clock was set back after it; a worker that lives writes one that is no longer in the future."""
    file = tmp_path / "heartbeat"
    file.touch()
    ahead = time.time() + 3600
    os.utime(file, (ahead, ahead))
    assert alive(str(file)) == 1
    start("--heartbeat-file", str(file))
    wait_for(lambda: alive(str(file)) == 0, "a heartbeat of today")


def alive(*arguments: str) -> int:
    command = [sys.executable, "-m", "django_tasks_retry.healthcheck", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode
