"""When a worker ends by itself, and what it takes on."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from django_tasks_retry.management.commands.runworker import Command
from django_tasks_retry.models import Task

from . import tasks
from .harness import place_of, status_of, story, wait_for, wait_until_finished


def statuses(enqueued) -> list[str]:
    return [status_of(task) for task in enqueued]


def test_drain_works_off_what_is_due_and_ends(start, effects):
    due = Task.objects.enqueue_many([(tasks.canary, [str(n)]) for n in range(30)] + [(tasks.ause_database, ["x"])])
    later = Task.objects.enqueue(tasks.canary, eta=timedelta(hours=1))
    worker = start("--drain", "--processes", "2", "--threads", "3")
    assert worker.exit_code() == 0
    assert set(statuses(due)) == {"SUCCESS"}
    assert (status_of(later), len(effects.lines())) == ("PENDING", 30)
    worker.wait_for_line("stopped · 31 done, 0 retried, 0 failed, 0 released")


def test_once_runs_one_task(start, effects):
    enqueued = Task.objects.enqueue_many([tasks.canary] * 3)
    assert start("--once").exit_code() == 0
    assert sorted(statuses(enqueued)) == ["PENDING", "PENDING", "SUCCESS"]


def test_once_runs_one_task_even_if_it_kills_its_process(start, effects):
    task = Task.objects.enqueue(tasks.poison)
    assert start("--once").exit_code() == 0
    assert (effects.count("poison"), story(task)) == (1, ["running", "lease_lost"])


def test_max_tasks_counts_attempts_of_all_processes(start, effects):
    enqueued = Task.objects.enqueue_many([tasks.canary] * 12)
    assert start("--max-tasks", "7", "--processes", "3").exit_code() == 0
    assert statuses(enqueued).count("SUCCESS") == 7


def test_max_time_lets_running_tasks_finish(start, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start("--max-time", "1s")
    effects.wait_for("begin a")
    worker.wait_for_line("--max-time is over: stopping · 1 running")
    tasks.gate("a").touch()
    assert worker.exit_code() == 0
    assert status_of(task) == "SUCCESS"


@pytest.mark.fault("out_of_memory")
def test_a_process_that_outgrows_its_memory_is_replaced_and_finishes_first(start, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start("--max-memory", "150M")
    effects.wait_for("begin a")
    [old] = worker.children()
    big = Task.objects.enqueue(tasks.grow, [200])
    assert wait_until_finished(big).status == "SUCCESS"
    wait_for(lambda: set(worker.children()) - {old}, "another child beside the old one")
    canary = wait_until_finished(Task.objects.enqueue(tasks.say_pid))
    assert canary.outcome.result != old
    tasks.gate("a").touch()
    wait_for(lambda: old not in worker.children(), "the end of the old child")
    assert story(wait_until_finished(task)) == ["running", "completed"]


def test_a_memory_limit_below_what_a_process_needs_does_not_stop_the_work(start, effects):
    enqueued = Task.objects.enqueue_many([tasks.canary] * 3)
    assert start("--max-memory", "1M", "--drain").exit_code() == 0
    assert statuses(enqueued) == ["SUCCESS"] * 3


def test_queues_and_excluded_queues_are_patterns(start, effects):
    queues = ["default", "emails", "reports", "bulk"]
    by_queue = {queue: Task.objects.enqueue(tasks.canary, [queue], queue=queue) for queue in queues}
    assert start("--drain", "--queues", "b*,e*,def*", "--exclude", "*mails").exit_code() == 0
    assert {queue: status_of(task) for queue, task in by_queue.items()} == {
        "default": "SUCCESS",
        "emails": "PENDING",
        "reports": "PENDING",
        "bulk": "SUCCESS",
    }


BAD_VALUES = {
    ("--grace", "30x"): "'30x' is not a duration. Write for example 500ms, 30s, 5m, 6h or 7d.",
    ("--poll", "0"): "'0' is not a duration",
    ("--threads", "0"): "'0' is not a whole number from 1 on.",
    ("--processes", "many"): "'many' is not a whole number from 1 on.",
    ("--max-memory", "lots"): "'lots' is not a size. Write for example 512M or 2G.",
    ("--queues", "a b"): "'a b' is not a list of queues. Write for example emails,bulk*.",
    ("--log-format", "xml"): "invalid choice: 'xml'",
    ("--unheard-of",): "unrecognized arguments: --unheard-of",
}


@pytest.mark.parametrize("arguments", BAD_VALUES, ids=" ".join)
def test_bad_values_get_one_line(arguments, capsys):
    command = Command()
    command._called_from_command_line = True
    with pytest.raises(SystemExit) as ended:
        command.create_parser("manage.py", "runworker").parse_args(arguments)
    [said] = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert BAD_VALUES[arguments] in said


BAD_PLACES = {
    ("--backend", "defalt"): "TASKS has no backend 'defalt'. Tasks are kept by 'default'. Did you mean 'default'?",
    ("--heartbeat-file", "/nowhere/file"): "/nowhere/file cannot be written: No such file or directory.",
}


@pytest.mark.parametrize("arguments", BAD_PLACES, ids=" ".join)
def test_a_worker_that_cannot_start_says_why_in_one_line(start, effects, arguments):
    worker = start(*arguments)
    assert worker.exit_code() == 1
    [said] = worker.output.splitlines()
    assert BAD_PLACES[arguments] in said


def test_a_worker_without_a_database_says_so_in_one_line(start, effects, committed):
    place = {**place_of(committed), "NAME": "/nowhere/db.sqlite3", "PORT": "1"}
    worker = start("--drain", variables={"WORKER_PLACE": json.dumps(place)})
    assert worker.exit_code() == 1
    [said] = worker.output.splitlines()
    assert "The database cannot be used: " in said
