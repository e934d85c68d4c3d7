"""Which failures count as alike, and the statistics behind the charts."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.display.events import place_in_project
from django_tasks_retry.models import BacklogStat, OperatorEvent, Task, TaskStat
from django_tasks_retry.rules.failure import fingerprint, frames_of, general, innermost_project_frame
from django_tasks_retry.taskqueue import Stat
from django_tasks_retry.taskqueue.statistics.failure_groups import describe_groups, group_heads
from tests import tasks

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/venv/lib/python3.11/site-packages/django_tasks_retry/worker/attempt.py", line 30, in call
    return task.call()
  File "/srv/app/shop/tasks.py", line 12, in send_receipt
    deliver(email)
    ~~~~~~~^^^^^^^
  File "/srv/app/shop/mail.py", line 88, in deliver
    smtp.send(message)
  File "/usr/lib/python3.11/smtplib.py", line 398, in send
    raise SMTPServerDisconnected("please run connect() first")
smtplib.SMTPServerDisconnected: please run connect() first
"""


def of(message: str = "boom", traceback: str = TRACEBACK, exception: str = "builtins.ValueError") -> str:
    return fingerprint(exception, "EXCEPTION", message, traceback)


def test_frames_know_whose_they_are():
    frames = frames_of(TRACEBACK)
    assert [frame.function for frame in frames] == ["call", "send_receipt", "deliver", "send"]
    assert [frame.is_project for frame in frames] == [False, True, True, False]
    assert frames[1].source == "deliver(email)"
    found = innermost_project_frame(frames)
    assert found is not None
    assert (found.short_file, found.line) == ("shop/mail.py", 88)


def test_the_place_of_a_failure_is_the_projects_own_or_none():
    """A line of a library, where wrong arguments are found out, tells nobody where to look."""
    assert place_in_project(TRACEBACK) == "shop/mail.py:88 deliver"
    library = "\n".join(line for line in TRACEBACK.splitlines() if "/srv/app" not in line)
    assert frames_of(library)
    assert place_in_project(library) == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 4711 not found", "order 12 not found"),
        ("no user 'ann'", "no user 'bob'"),
        ("task 0199a3f2-77aa-7000-8000-000000000001 gone", "task 0199a3f2-1111-7000-8000-00000000000f gone"),
        ("object at 0x7f3a2b", "object at 0x55ffee"),
        ("mail to ann@example.com failed", "mail to bob.b@example.org failed"),
        ("after 1.5 seconds", "after 27,3 seconds"),
        ("two   blanks\n", "two blanks"),
    ],
)
def test_ids_and_numbers_do_not_tell_failures_apart(one, other):
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("missing a required argument: 'order_id'", "missing a required argument: 'email'", "'order_id'"),
        ("f() got an unexpected keyword argument 'a'", "f() got an unexpected keyword argument 'b'", "'a'"),
        ("f() missing 2 required positional arguments: 'a' and 'b'", "f() missing 2 …", "'a' and 'b'"),
        ("'NoneType' object has no attribute 'name'", "'NoneType' object has no attribute 'pk'", "attribute 'name'"),
        ("No module named 'shop.mail'", "No module named 'shop.post'", "'shop.mail'"),
        ('column "total" does not exist', 'column "sum" does not exist', '"total"'),
    ],
)
@pytest.mark.fault("failures_grouped_too_widely")
def test_the_names_of_a_program_tell_failures_apart(one, other, said, on):
    assert of(one) != of(other)
    assert said in general(one)


def test_exception_place_and_words_tell_failures_apart():
    elsewhere = TRACEBACK.replace("in deliver", "in deliver_later")
    different = {of(), of("bang"), of(traceback=elsewhere), of(exception="builtins.KeyError"), of(traceback="")}
    assert len(different) == 5


def test_a_new_line_number_or_host_is_the_same_place():
    assert of(traceback=TRACEBACK.replace("line 88", "line 91")) == of()
    assert of(traceback=TRACEBACK.replace("/srv/app", "/home/deploy/release-7")) == of()


@given(st.text(), st.text(), st.text())
def test_any_text_has_a_fingerprint(exception, message, traceback):
    assert re.fullmatch(r"[0-9a-f]{16}", fingerprint(exception, "EXCEPTION", message, traceback))
    assert general(general(message)) is not None


def test_a_message_is_read_in_time_that_grows_with_its_length():
    """Only its beginning is read, so that a flood costs what a sentence does."""
    assert of("a" * 10_000_000) == of("a" * 400)


def test_the_row_keeps_the_fingerprint_of_its_last_failure(database, travel):
    task = Task.objects.enqueue(tasks.noop, max_attempts=3)
    seen = []
    for message in ("one", "two", "two"):
        [lease] = taskqueue.claim("w")
        taskqueue.fail_task(lease, ValueError(message))
        task.refresh_from_db()
        seen.append(task.fingerprint)
        travel(100)
    assert seen[0] != seen[1] == seen[2]
    assert task.status == "FAILED"


def test_a_task_that_succeeds_at_once_has_no_fingerprint(database):
    task = Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("w")
    taskqueue.complete_task(lease)
    task.refresh_from_db()
    assert task.fingerprint is None


def test_lost_workers_are_alike(database, travel):
    Task.objects.enqueue_many([{"func": tasks.noop, "max_attempts": 1}, {"func": tasks.explode, "max_attempts": 1}])
    taskqueue.claim("w", limit=2)
    travel(100)
    taskqueue.recover()
    [group] = describe_groups(group_heads(database), database)
    assert (group.failed, group.code) == (2, "LEASE_LOST")


def test_statistics_add_up_within_a_minute(database, travel):
    travel(60 - clock.now(database).second)  # a whole minute lies ahead, however busy the machine is
    taskqueue.add_stats([Stat("default", "f", completed=1, seconds=0.5), Stat("emails", "f", failed=2)])
    taskqueue.add_stats([Stat("default", "f", completed=2, retried=1, seconds=0.25)])
    row = TaskStat.objects.get(queue="default")
    assert (row.completed, row.retried, row.failed, row.seconds) == (3, 1, 0, 0.75)
    assert (row.minute.second, row.minute.microsecond) == (0, 0)
    travel(61)
    taskqueue.add_stats([Stat("default", "f", completed=1)])
    assert TaskStat.objects.filter(queue="default").count() == 2


def test_statistics_of_many_functions_are_written_in_pieces(database):
    taskqueue.add_stats([Stat("default", f"f{n}", completed=n) for n in range(257)])
    assert TaskStat.objects.count() == 257


def test_nothing_to_add_writes_nothing(database):
    taskqueue.add_stats([])
    assert not TaskStat.objects.exists()


def test_old_statistics_are_forgotten(database, travel):
    taskqueue.add_stats([Stat("default", "f", completed=1)])
    travel(timedelta(days=7).total_seconds())
    taskqueue.forget_stats()
    assert TaskStat.objects.exists()
    travel(timedelta(days=2).total_seconds())
    taskqueue.forget_stats()
    assert not TaskStat.objects.exists()


def test_every_decision_about_a_queue_is_kept(database):
    taskqueue.pause("emails", by="ann", reason="outage")
    assert taskqueue.resume("emails", by="bob", reason="mended")
    assert not taskqueue.resume("emails", by="bob")
    kept = OperatorEvent.objects.values_list("kind", "subject", "actor", "reason")
    assert list(kept) == [("queue.paused", "emails", "ann", "outage"), ("queue.resumed", "emails", "bob", "mended")]


def test_a_worker_is_asked_to_stop_once(database):
    taskqueue.register_worker(
        "w-1", "default", host="h", pid=1, version="1", queues=["*"], tasks=[], processes=1, slots=1
    )
    assert taskqueue.ask_to_stop("w-1", by="ann", reason="deploy")
    assert not taskqueue.ask_to_stop("w-1", by="bob")
    assert not taskqueue.ask_to_stop("w-2", by="bob")
    assert taskqueue.heartbeat("w-1", "default")[0].stop_asked_at is not None
    assert list(OperatorEvent.objects.values_list("kind", "actor")) == [("worker.stop_asked", "ann")]


def test_an_ordinary_task_enters_no_index_of_the_console(database):
    """A task that succeeds at its first attempt pays for none of them."""
    if database != "postgresql":
        pytest.skip("PostgreSQL tells how many rows an index holds")
    for _ in range(3):
        Task.objects.enqueue(tasks.noop)
        [lease] = taskqueue.claim("w")
        taskqueue.complete_task(lease)
    with connections[database].cursor() as cursor:
        held = Counter()
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_expr(indpred, indrelid) FROM pg_index "
            "WHERE indrelid = 'django_tasks_retry_task'::regclass AND indpred IS NOT NULL"
        )
        for index, condition in cursor.fetchall():
            cursor.execute(f"SELECT count(*) FROM django_tasks_retry_task WHERE {condition}")
            held[index] = cursor.fetchone()[0]
    assert len(held) > 10
    assert not any(held.values())


def test_the_backlog_of_the_last_hour_is_drawn_with_a_table(database, operator):
    moment = clock.now(database).replace(second=0, microsecond=0)
    for minutes, due, oldest in ((50, 40, 10.0), (20, 4000, 300.0)):
        for queue in ("", "emails"):
            BacklogStat.objects.create(minute=moment - timedelta(minutes=minutes), queue=queue, due=due, oldest=oldest)
    BacklogStat.objects.create(minute=moment - timedelta(hours=3), queue="", due=10**6, oldest=0)
    Task.objects.enqueue_many([(tasks.noop,)] * 3)
    backlog = operator.get("/admin/django_tasks_retry/overview/").context["backlog"]
    assert (backlog["most"], backlog["longest"]) == ("4,000", "5 min")
    assert [row[1:2] for row in backlog["rows"]] == [("3",), ("4,000",), ("40",)], "now, and what is known"
    assert len(backlog["due"]) == 3
    day = operator.get("/admin/django_tasks_retry/overview/?span=24h").context["backlog"]
    assert day["most"] == "1,000,000"
    page = operator.get("/admin/django_tasks_retry/queue/")
    drawn = {queue["key"]: queue["backlog"] for queue, *_urls in page.context["queues"]}
    assert len(drawn["emails"]) == 2
    assert len(drawn["default"]) == 1
