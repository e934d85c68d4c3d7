from __future__ import annotations

import pytest

from django_tasks_retry.errors import UnknownQueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ask_to_stop
from django_tasks_retry.worker.options import WorkerOptions, new_worker_id
from django_tasks_retry.worker.startup import refuse_unsafe_start

from . import tasks
from .harness import status_of, wait_for


def test_a_worker_is_in_the_registry_where_an_operator_can_ask_it_to_stop(start, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start("--queues", "d*,emails", "-x", "bulk", "--processes", "2", "--threads", "3", "--async-slots", "4")
    effects.wait_for("begin a")
    row = worker.wait_until_up()
    assert (row.pid, row.queues, row.exclude) == (worker.pid, ["d*", "emails"], ["bulk"])
    assert (row.processes, row.slots, row.stopped_at) == (2, 14, None)
    assert "tests.worker.tasks.plain.canary" in row.tasks
    assert row.host
    ask_to_stop(row.pk, by="tests")
    worker.wait_for_line("asked by an operator: stopping · 1 running")
    asked = worker.row  # the heartbeat that asked may have counted before the task began, and then waited for its turn
    later = wait_for(lambda: worker.row if worker.row.heartbeat_at > asked.heartbeat_at else None, "a heartbeat")
    assert (later.running, later.stopped_at) == (1, None)
    tasks.gate("a").touch()
    assert worker.exit_code() == 0
    assert (worker.row.running, worker.row.stopped_at is not None, status_of(task)) == (0, True, "SUCCESS")


@pytest.mark.fault("tasks_module_not_importable")
def test_an_app_whose_tasks_cannot_be_imported_is_named_and_others_are_served(start, effects):
    Task.objects.enqueue(tasks.canary)
    worker = start("--drain", variables={"WORKER_APPS": "tests.worker.unimportable"})
    assert worker.exit_code() == 0
    worker.wait_for_line(
        "ERROR tests.worker.unimportable.tasks cannot be imported.*ModuleNotFoundError: No module named"
    )
    assert effects.count("canary") == 1


@pytest.mark.fault("mistyped_and_foreign_names")
def test_a_worker_for_a_mistyped_queue_ends_with_the_right_name(start, effects):
    worker = start("--queues", "emials")
    assert worker.exit_code() == 1
    [said] = worker.output.splitlines()
    assert "Did you mean 'emails'?" in said


@pytest.mark.fault("mistyped_and_foreign_names")
@pytest.mark.parametrize("option", ["queues", "exclude"])
def test_a_mistyped_queue_is_refused_whatever_it_is_given_for(database, option):
    with pytest.raises(UnknownQueue, match=r"\(default, emails, reports, bulk\)\. Did you mean 'emails'\?"):
        refuse_unsafe_start(WorkerOptions(**{option: ("emials",)}))


@pytest.mark.fault("worker_id_used_again")
def test_no_two_starts_share_a_name():
    """Not even with one host name and one pid, as after a restart in a container."""
    assert len({new_worker_id("here") for _ in range(1000)}) == 1000
