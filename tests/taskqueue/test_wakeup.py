"""Wake-ups: messages have a kind, so that a cancellation is not taken for work."""

from __future__ import annotations

import pytest
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry import taskqueue
from django_tasks_retry.taskqueue.enqueue.notify import CHANNEL, Kind, WakeUp, read_message
from tests.steps import begin, enqueue


@given(st.sampled_from(Kind), st.text())
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
            WakeUp(Kind.WORK, "emails"), WakeUp(Kind.CANCELLED, str(running.pk)), WakeUp(Kind.WORK, "default"),
        }  # fmt: skip
        heard = set()
        for note in listener.connection.notifies(timeout=60):
            heard.add(read_message(note.payload))
            if heard >= expected:
                break
    finally:
        listener.close()
    assert heard - {WakeUp(Kind.WORK, "bulk")} == expected
