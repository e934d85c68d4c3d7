"""Doctor: one verdict in one sentence, its causes by the number of tasks that they keep, and what to type."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as some

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.analysis import doctor
from django_tasks_retry.analysis.contrast import chance_of
from django_tasks_retry.display.scope import current_scope, read_standing
from django_tasks_retry.models import Task, TaskEvent, TaskStat, Worker
from django_tasks_retry.taskqueue import Stat, add_stats
from tests import tasks
from tests.admin.conftest import _shop, operator  # noqa: F401
from tests.admin.test_overview import serve
from tests.cli.conftest import tasks_command
from tests.steps import claim_one

SYNC, NOOP = "tests.tasks.sync", "tests.tasks.noop"


def verdict() -> doctor.Verdict:
    return doctor.diagnose(read_standing(current_scope()), can_see_payload=True)


def usual_days(using: str, **counts: int) -> None:
    """Attempts of the same hour of the last three days."""
    moment = clock.now(using).replace(second=0, microsecond=0)
    for day in (1, 2, 3):
        minute = moment - timedelta(days=day, minutes=10)
        TaskStat.objects.using(using).create(minute=minute, queue="default", func_path=NOOP, **counts)


def test_an_idle_queue_with_a_worker_is_well(database):
    serve()
    found = verdict()
    assert found.is_well
    assert found.sentence == "All is well: work starts, succeeds as usual, and the figures are fresh."
    assert tasks_command("doctor").code == 0


def test_without_a_worker_nothing_starts(database):
    Task.objects.enqueue_many([(tasks.noop,)] * 3)
    found = verdict()
    assert not found.is_well
    assert found.sentence.startswith(
        "Nothing starts: no worker is running. 3 of 3 due tasks wait: It is due, but no running"
    )
    assert found.causes[0].command == "python manage.py runworker --queues default"


def test_waits_are_grouped_by_the_lane_that_is_full(database, travel):
    add_stats([Stat("default", SYNC, completed=10, seconds=30.0)])
    Task.objects.enqueue_many([{"func": tasks.sync, "args": [7, n]} for n in range(14)])
    taskqueue.claim("w-1-1-a/1", limit=5)
    Task.objects.enqueue(tasks.noop, queue="emails")
    travel(2400)
    serve(known=(SYNC, NOOP))
    Worker.objects.update(queues=["default"])
    found = verdict()
    full, unserved, *_others = found.causes
    assert full.text.startswith(
        "12 of 13 due tasks wait: lane tenant-7 is full; its 2 running tasks have run for up to"
    )
    assert full.text.endswith("40 min, usually 3.0 s.")
    assert "1 of 13 due tasks wait: It is due, but no running worker serves the queue emails." in unserved.text
    assert unserved.command == "python manage.py runworker --queues emails"
    assert found.sentence.startswith("Work starts late: the oldest due task has waited for 40 min")
    assert found.sentence.endswith(full.text)


def test_a_pause_is_named_with_its_author_and_undone_by_the_command(database, travel):
    Task.objects.enqueue(tasks.noop)
    taskqueue.pause("default", by="ann", reason="INC-1")
    travel(300)
    serve()
    found = verdict()
    assert "1 of 1 due tasks wait: Queue default was paused by ann at" in found.causes[0].text
    command = found.causes[0].command.removeprefix("python manage.py tasks ")
    assert tasks_command(*command.split()).code == 0
    assert not any("was paused" in cause.text for cause in verdict().causes)


def test_a_wait_that_is_usual_at_this_hour_is_no_alarm(database, travel):
    Task.objects.enqueue(tasks.noop)
    travel(200)
    serve()
    usual_days(database, completed=30, waited_5m=30)
    assert verdict().answers[0].is_well
    TaskStat.objects.using(database).update(waited_5m=0, waited_1s=30)
    late = verdict().answers[0]
    assert not late.is_well
    assert "usually 1.0 s at most" in late.text


@pytest.mark.parametrize(("failed_before", "is_well"), [(30, True), (0, False)])
def test_failures_are_compared_with_the_same_hour_of_the_days_before(database, failed_before, is_well):
    serve()
    usual_days(database, completed=70, failed=failed_before)
    add_stats([Stat("default", NOOP, completed=70, failed=30)])
    answer = verdict().answers[1]
    assert answer.is_well == is_well
    assert answer.text.startswith("Work succeeds: 30 of 100" if is_well else "Work fails: 30 of 100")


def test_it_never_says_that_all_is_well_above_a_warning(database):
    """Also if nothing is late yet: the worst problem of the overview is named."""
    taskqueue.pause("reports", by="ann", reason="INC-2")
    Task.objects.enqueue(tasks.noop, queue="emails")
    serve()
    Worker.objects.update(queues=["default"])
    found = verdict()
    assert all(answer.is_well for answer in found.answers)
    assert not found.is_well
    assert found.sentence.startswith("Queue emails: 1 waiting, but no running worker.")


def test_figures_that_lack_what_has_ended_are_old(database, travel):
    Task.objects.enqueue(tasks.noop)
    taskqueue.complete_task(claim_one("w-1-1-a/1"), None)
    serve()
    assert verdict().answers[2].is_well
    travel(600)
    serve("w-2")
    assert not verdict().answers[2].is_well
    TaskStat.objects.using(database).create(minute=TaskEvent.objects.latest("ts").ts, queue="default", func_path=NOOP)
    assert verdict().answers[2].is_well


def test_console_shell_check_and_probe_say_the_same(database, operator, client, configure, travel):  # noqa: F811
    configure(METRICS_TOKEN="0123456789abcdef")
    Task.objects.enqueue(tasks.noop)
    sentence = verdict().sentence
    assert sentence in operator.get("/admin/django_tasks_retry/overview/").content.decode()
    answer = tasks_command("doctor", "--json")
    assert (answer.code, answer.record["verdict"], answer.record["answers"][0]["is_well"]) == (1, sentence, False)
    assert tasks_command("check", "--json").record["verdict"] == sentence
    assert sentence in tasks_command("doctor").out
    probe = client.get("/tasks/ready", headers={"authorization": "Bearer 0123456789abcdef"})
    assert sentence in probe.content.decode()
    assert sentence not in client.get("/tasks/ready").content.decode()


@given(some.integers(0, 12), some.integers(0, 12), some.integers(0, 40), some.integers(0, 40))
def test_the_chance_is_that_of_fishers_exact_test(failures, successes, failures_before, successes_before):
    now, before, failed = failures + successes, failures_before + successes_before, failures + failures_before
    ways = sum(comb(failed, n) * comb(now + before - failed, now - n) for n in range(failures, min(now, failed) + 1))
    exact = Fraction(ways, comb(now + before, now))
    assert chance_of(failures, now, failures_before, before) == pytest.approx(float(exact), abs=1e-9)
