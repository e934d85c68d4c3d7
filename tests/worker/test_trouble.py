"""Database trouble: the worker stays up, running tasks go on, outcomes are kept; nothing is lost or finished twice."""

from __future__ import annotations

import os
import signal

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError

from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.worker import startup
from tests.proxy import Cut

from . import tasks
from .conftest import Start
from .harness import DEADLINE, story, wait_for, wait_until_finished


@pytest.fixture
def start(start_on_server: Start) -> Start:
    return start_on_server


def finished_once(task: Task) -> bool:
    return story(task).count("completed") == 1 and Task.objects.get(pk=task.pk).status == "SUCCESS"


@pytest.mark.fault("server_restarts")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
def test_tasks_go_on_while_the_server_is_away_and_their_outcomes_are_kept(start, server, effects, how):
    enqueued = [Task.objects.enqueue(tasks.wait_at, ["a"]), Task.objects.enqueue(tasks.await_at, ["b"])]
    worker = start()
    effects.wait_for("begin a")
    effects.wait_for("begin b")
    server.stop(how)
    tasks.gate("a").touch()
    tasks.gate("b").touch()
    effects.wait_for("end a")
    effects.wait_for("end b")
    worker.wait_for_line("database unavailable")
    server.start()
    for task in enqueued:
        assert wait_until_finished(task).status == "SUCCESS"
        assert story(task) == ["running", "completed"]
    worker.wait_for_line("database is back")
    assert wait_until_finished(Task.objects.enqueue(tasks.ause_database, ["after"])).status == "SUCCESS"
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert "Traceback" not in worker.output


@pytest.mark.fault("server_restarts")
def test_a_worker_that_starts_while_the_server_is_away_waits_for_it(start, server, effects):
    task = Task.objects.enqueue(tasks.canary, ["a"])
    server.stop()
    worker = start()
    worker.wait_for_line("the database does not answer; trying for [0-9]+ s more · ")
    server.start()
    assert wait_until_finished(task).status == "SUCCESS"
    assert "Traceback" not in worker.output


def test_a_database_that_never_answers_is_given_up_at_last(monkeypatch):
    monkeypatch.setattr(startup, "sleep", lambda seconds: None)
    tries: list[int] = []

    def act() -> None:
        tries.append(1)
        raise OperationalError("connection refused")

    for seconds in (0.0, 0.05):
        with pytest.raises(OperationalError, match="connection refused"):
            startup.patiently(act, "postgresql", seconds)
        assert (len(tries) > 1) == (seconds > 0)


def test_a_worker_can_be_stopped_while_the_server_is_away(start, server, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start("--grace", "300ms")
    effects.wait_for("begin a")
    server.stop()
    worker.signal(signal.SIGTERM)
    code = worker.exit_code()
    server.start()
    assert code == 0
    assert Task.objects.get(pk=task.pk).status == "RUNNING"


@pytest.mark.fault("server_restarts")
def test_no_task_is_lost_or_finished_twice_while_backends_are_killed(start, server, effects):
    enqueued = Task.objects.enqueue_many([(tasks.canary, [str(n)]) for n in range(300)])
    worker = start("--processes", "2", "--threads", "4")
    while Task.objects.unfinished().exists():
        done = Task.objects.successful().count()
        server.end_backends()
        wait_for(lambda done=done: Task.objects.successful().count() > done or worker_is_done(), "progress")
    assert all(finished_once(task) for task in enqueued)
    assert min(effects.count(str(n)) for n in range(300)) == 1
    assert worker.process.poll() is None


def worker_is_done() -> bool:
    return not Task.objects.unfinished().exists()


@pytest.mark.fault("read_only_node")
def test_a_read_only_node_is_waited_out(start, server, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start()
    effects.wait_for("begin a")
    server.be_read_only(value="on")
    try:
        tasks.gate("a").touch()
        worker.wait_for_line("read-only transaction")
    finally:
        server.be_read_only(value="off")
    assert wait_until_finished(task).status == "SUCCESS"
    assert story(task) == ["running", "completed"]
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


@pytest.mark.fault("no_connection_left")
@pytest.mark.no_pooler("a pooler lets its clients wait for a connection, and says nothing")
def test_too_many_connections_are_waited_out(start, server, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start()
    effects.wait_for("begin a")
    with server.crowded():
        tasks.gate("a").touch()
        effects.wait_for("end a")
        worker.wait_for_line("too many clients|remaining connection slots")
    assert wait_until_finished(task).status == "SUCCESS"
    assert story(task) == ["running", "completed"]


def test_a_worker_that_cannot_renew_stops_its_tasks_before_their_leases_end(start, server, effects):
    task = Task.objects.enqueue(tasks.suffer_cancel, ["a"])
    worker = start(lease=3.0)
    effects.wait_for("begin a")
    server.stop()
    effects.wait_for("cancelled a")
    server.start()
    effects.wait_for("begin a", times=2)
    assert worker.process.poll() is None
    assert "failed" not in story(task)


def test_a_task_that_holds_the_interpreter_does_not_outlive_its_lease(start, server, effects):
    Task.objects.enqueue(tasks.hold_on, [15])
    worker = start(lease=2.0)
    effects.wait_for("begin")
    [child] = worker.children()
    server.stop()
    wait_for(lambda: child not in worker.children(), "the end of a child whose lease ran out")
    server.start()
    assert effects.count("end") == 0
    effects.wait_for("begin", times=2)


@pytest.mark.fault("black_hole")
def test_a_network_that_swallows_everything_is_waited_out(start_behind, server, proxy, effects):
    task = Task.objects.enqueue(tasks.suffer_cancel, ["a"])
    worker = start_behind("--grace", "1s", lease=2.0)
    effects.wait_for("begin a")
    [child] = worker.children()
    proxy.mode = "swallow"
    # Interrupted before the lease ends; where that came too late, its process is ended.
    wait_for(lambda: effects.count("cancelled a") or child not in worker.children(), "the end of the function")
    worker.wait_for_line("did not answer within")
    proxy.mode = "pass"
    effects.wait_for("begin a", times=2)
    assert "failed" not in story(task)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0


def test_a_pooler_that_delivers_no_notifications_is_noticed_and_polled_past(start_behind, server, proxy, effects):
    proxy.deaf = True
    Task.objects.enqueue(tasks.canary, ["first"])
    worker = start_behind()
    worker.wait_for_line("wake-ups do not arrive .*: polling only")
    assert effects.count("first") == 1, "no task waits for that"
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


@pytest.mark.fault("black_hole")
def test_a_network_that_is_slow_from_the_start_is_worked_over(start_behind, proxy, effects):
    """Signing on takes longer than a worker with a short lease waits for an answer later."""
    proxy.delay = 0.08
    worker = start_behind(lease=2.0)
    worker.wait_until_up()
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


STATEMENTS = {
    "lanes": b"-- Lanes",
    "claim": b"-- Claim",
    "complete": b"-- Complete",
}
STATEMENTS_MEANWHILE = {
    "maintenance": b"-- Pending maintenance",
    "renewal": b"-- Renew workers",
}
ALL = os.environ.get("FAULTS") == "all"
if ALL:
    STATEMENTS_MEANWHILE["heartbeat"] = b'UPDATE "django_tasks_retry_worker"'


@pytest.mark.fault("request_cut", "reply_cut", "ghost_claim")
def test_each_statement_may_lose_its_request_or_its_reply(start_behind, server, proxy, effects):
    worker = start_behind(lease=4.0)
    worker.wait_until_up()
    for name, text in (STATEMENTS | STATEMENTS_MEANWHILE).items():
        for reply in (False, True):
            word = f"{name}:{'reply' if reply else 'request'}"
            if name in STATEMENTS:
                tasks.gate(word).touch()
            cut = proxy.arm(Cut(text, reply=reply))
            task = Task.objects.enqueue(tasks.wait_at, [word])
            assert cut.done.wait(DEADLINE), word
            tasks.gate(word).touch()
            task = wait_until_finished(task)
            assert (word, task.status, task.attempts - task.refunds) == (word, "SUCCESS", 1)
            assert (word, effects.count(f"begin {word}"), finished_once(task)) == (word, 1, True)
            worker.wait_for_line(f"done .*{str(task.pk)[:18]}")
    assert "Traceback" not in worker.output


@pytest.mark.fault("reply_cut")
@pytest.mark.parametrize("reply", [False, True], ids=["request", "reply"])
def test_an_atomic_task_whose_commit_is_cut_writes_once(start_behind, server, proxy, effects, reply):
    worker = start_behind()
    worker.wait_until_up()
    task = Task.objects.enqueue(tasks.write_atomically, ["once", "gate"])
    effects.wait_for("wrote once")
    cut = proxy.arm(Cut(b"COMMIT", reply=reply))
    tasks.gate("gate").touch()
    assert cut.done.wait(DEADLINE)
    task = wait_until_finished(task)
    assert (task.status, task.attempts) == ("SUCCESS", 1 if reply else 2)
    assert finished_once(task)
    assert list(Group.objects.values_list("name", flat=True)) == ["once"]


def points() -> list[int]:
    """Every statement after a task is enqueued, where the environment asks for all; else a sample."""
    return list(range(1, 41)) if ALL else [1, 2, 4, 7]


@pytest.mark.fault("reply_cut")
@pytest.mark.parametrize("reply", [False, True], ids=["request", "reply"])
def test_cut_at_any_statement_nothing_is_lost_or_finished_twice(start_behind, server, proxy, effects, reply):
    worker = start_behind(lease=4.0)
    worker.wait_until_up()
    for nth in points():
        cut = proxy.arm(Cut(nth=nth, reply=reply))
        enqueued = Task.objects.enqueue_many([(tasks.canary, [f"{nth}"]), tasks.await_once])
        assert cut.done.wait(DEADLINE), nth
        for task in enqueued:
            assert wait_until_finished(task).status == "SUCCESS", (nth, story(task))
            assert finished_once(task), nth
        assert effects.count(str(nth)) == 1, nth
    assert not TaskEvent.objects.filter(kind="task.lease_lost").exists()
    assert worker.process.poll() is None
