"""Wake-ups: messages have a kind, so that a cancellation is not taken for work."""

from __future__ import annotations

import pytest
from django.db import connections, transaction
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry import taskqueue
from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.enqueue.notify import CHANNEL, WakeUp, WakeUpKind, read_message
from tests.steps import begin, enqueue


@given(st.sampled_from(WakeUpKind), st.text())
def test_a_message_is_read_as_it_was_written(kind, subject):
    assert read_message(str(WakeUp(kind, subject))) == WakeUp(kind, subject)


@pytest.mark.parametrize("text", ["", "default", "working:default", ":", "WORK:default"])
def test_what_is_no_message_of_ours_wakes_nobody(text):
    assert read_message(text) is None


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_workers_hear_of_work_and_of_cancelled_tasks_that_run(committed):
    waiting = enqueue(queue="bulk", eta=None, priority=-1)
    listener = connections[committed].copy()
    try:
        listener.ensure_connection()
        listener.connection.autocommit = True
        listener.connection.execute(f"LISTEN {CHANNEL}")
        running, _ = begin(queue="emails")
        waiting.cancel()
        running.cancel()
        taskqueue.pause("default")
        taskqueue.resume("default")
        expected = {
            WakeUp(WakeUpKind.WORK, "emails"), WakeUp(WakeUpKind.CANCELLED, str(running.pk)),
            WakeUp(WakeUpKind.WORK, "default"),
        }  # fmt: skip
        heard = set()
        for note in listener.connection.notifies(timeout=60):
            heard.add(read_message(note.payload))
            if heard >= expected:
                break
    finally:
        listener.close()
    assert heard - {WakeUp(WakeUpKind.WORK, "bulk")} == expected


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_wake_up_by_itself_waits_for_no_disk_and_its_senders_transaction_does(committed):
    """Otherwise a crash of the server would lose what the caller's commit has answered for."""
    engine, connection = engine_for(committed), connections[committed]
    seen = []

    def look(execute, sql, params, many, context):
        answer = execute(sql, params, many, context)
        if "pg_notify" in sql:
            rows = context["cursor"].fetchall()
            seen.append("off" in rows[0])
            return execute("SELECT 1", None, False, context)
        return answer

    with connection.execute_wrapper(look):
        engine.notify(CHANNEL, ["nothing"])
        with transaction.atomic(using=committed):
            engine.notify(CHANNEL, ["nothing"])
            with connection.cursor() as cursor:
                cursor.execute("SHOW synchronous_commit")
                [inside] = cursor.fetchone()
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        [after] = cursor.fetchone()
    assert (seen, inside, after) == ([True, False], "on", "on")
