"""Expiry, unique modes, crashes and full queues, in the words that people read."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.rules.failure import Code, Failure
from django_tasks_retry.rules.names import short_id
from tests import tasks
from tests.admin.test_escaping import BASE, QUEUES
from tests.admin.test_overview import problems, serve
from tests.admin.test_task_page import page_of, why
from tests.steps import claim_one, now_of


def crash(times: int) -> None:
    for _ in range(times):
        claim_one("boss/1")
        taskqueue.recover(dead="boss/1", actor="boss", crashed=True)


def state_of(client, queue: str) -> str:
    """Return what the queue page calls the state of this queue."""
    page = client.get(f"{BASE}/queue/").content.decode()
    [row] = [row for row in re.findall(r"<tr>.*?</tr>", page, re.S) if f"?queue={queue}" in row]
    [state] = re.findall(r'class="dtr-badge[^"]*"><span aria-hidden="true">.</span> (\w+)', row)
    return state


def link_to(task: Task) -> str:
    return f'<a href="{BASE}/task/{task.pk}/change/">{short_id(task.pk)}</a>'


def test_a_task_that_may_expire_says_when_until_its_first_attempt_is_spent(database, operator, travel):
    serve()
    task = Task.objects.enqueue(tasks.scheduled, [1], expires=timedelta(minutes=10))
    assert re.search(r"It expires at .*, in \S+ min.*, if it has not started by then\.$", why(operator, task))
    assert re.search(r"<dt>Expires</dt>\s*<dd>.*\d", page_of(operator, task))
    taskqueue.fail_task(claim_one(), ConnectionError("x"))
    assert "expire" not in why(operator, task)


def test_a_task_that_expired_says_so_before_and_after_it_was_swept(database, operator, session_with, travel):
    task = Task.objects.enqueue(tasks.noop, expires=timedelta(minutes=10))
    travel(601)
    assert re.fullmatch(
        r"It expired at .* before it was started\. The next worker cancels it\.", why(operator, now_of(task))
    )
    taskqueue.expire()
    assert re.search(r"It was cancelled by queue at .*: expired: it was not started in time", why(operator, task))
    assert re.fullmatch(r"It was cancelled by queue at [-:\d ]*\.", why(session_with("view_task"), task))


def test_a_task_that_was_replaced_names_its_successor_to_those_who_may_read_reasons(database, operator, session_with):
    old = Task.objects.enqueue(tasks.noop, unique_key="key")
    new = Task.objects.enqueue(tasks.noop, unique_key="key", on_conflict="replace")
    assert re.search(rf"It was cancelled by code at .*: replaced by {link_to(new)}", why(operator, old))
    assert str(new.pk) not in why(session_with("view_task"), old)


def test_a_task_behind_a_running_one_names_it_until_that_has_finished(database, operator):
    serve()
    first = Task.objects.enqueue(tasks.noop, unique_key="key")
    lease = claim_one()
    second = Task.objects.enqueue(tasks.noop, unique_key="key", on_conflict="run_again")
    assert why(operator, second) == (
        f"It runs once more after the task {link_to(first)}, which holds the same unique key and has not finished."
    )
    taskqueue.complete_task(lease)
    assert why(operator, second) == "It is due and first in its queue: the next free worker will run it."


def test_a_task_that_killed_its_process_twice_says_that_it_runs_alone(database, operator):
    task = Task.objects.enqueue(tasks.noop, max_attempts=9)
    crash(1)
    assert "alone" not in why(operator, task)
    crash(1)
    assert why(operator, task) == "Its process died twice in a row, so a worker runs it alone in a process of its own."
    lease = taskqueue.claim_task(now_of(task), "boss/2")
    assert why(operator, task).endswith("on boss/2. It runs alone, because its process died twice in a row.")
    taskqueue.fail_task(lease, Failure("SIGKILL", Code.CRASHED, "", ""))
    assert now_of(task).status == "FAILED"
    assert why(operator, task).startswith("Its process died twice in a row, and so did the one")


def test_a_full_queue_is_a_warning_and_a_state_until_a_task_is_claimed(database, operator, configure):
    configure(BACKLOG={"emails": {"max_pending": 2}})
    serve()
    Task.objects.enqueue_many([{"func": tasks.noop, "queue": "emails"}] * 2 + [{"func": tasks.noop}] * 3)
    assert problems(operator) == ["Queue emails is full: 2 tasks wait, as many as OPTIONS['BACKLOG'] allows."]
    assert (state_of(operator, "emails"), state_of(operator, "default")) == ("Full", "Active")
    claim_one(queues=["emails"])
    assert problems(operator) == []
    assert state_of(operator, "emails") == "Active"


def test_a_full_queue_that_is_paused_is_called_paused(database, operator, configure):
    configure(BACKLOG={"emails": 1})
    serve()
    Task.objects.enqueue(tasks.noop, queue="emails")
    taskqueue.pause("emails", by="ann")
    assert state_of(operator, "emails") == "Paused"


@pytest.mark.parametrize("name", ["script", "attribute"])
def test_the_name_of_a_full_queue_stays_text(name, database, operator, settings):
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": [], "OPTIONS": {"BACKLOG": {"*": 1}}}}
    serve()
    Task.objects.enqueue(tasks.noop, queue=QUEUES[name])
    page = operator.get(f"{BASE}/overview/").content.decode()
    assert f"Queue {QUEUES[name]} is full" in html.unescape(page)
    assert QUEUES[name] not in page


def test_who_may_not_see_queues_is_not_shown_the_queue_page(database, session_with, configure):
    configure(BACKLOG={"default": 1})
    serve()
    Task.objects.enqueue(tasks.noop)
    assert session_with("view_task").get(f"{BASE}/queue/").status_code == 403
