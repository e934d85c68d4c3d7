"""Every lease is looked after from claim to record; renewal is earned by progress."""

from __future__ import annotations

import os
import subprocess
from time import monotonic

import pytest

from django_tasks_retry.clock import host_time
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.taskqueue import claim, recover
from django_tasks_retry.worker.child import executors
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.child import Child
from django_tasks_retry.worker.child.executors import BLOCKED_SECONDS, LoopExecutor
from django_tasks_retry.worker.child.prefetch import FIRST_REST, LONGEST_REST, Prefetch
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.shared.inflight import InFlightTable, State
from django_tasks_retry.worker.shared.messages import LeasesLost, channel_pair
from django_tasks_retry.worker.shared.outcomes import Counts
from django_tasks_retry.worker.supervisor.child_process import ChildProcess
from django_tasks_retry.worker.supervisor.leases import RECORD_SECONDS, START_SECONDS, LeaseRenewal

from . import tasks
from .harness import story, wait_for, wait_until_finished


@pytest.mark.fault("event_loop_ended_or_cancelled")
@pytest.mark.parametrize("function", [tasks.exit_in_background, tasks.close_the_loop], ids=["raised", "closed"])
def test_an_event_loop_that_is_ended_holds_up_no_coroutine(start, effects, function):
    worker = start(lease=2.0)
    Task.objects.enqueue(function)
    later = [Task.objects.enqueue(tasks.amark, [f"later {n}"]) for n in range(3)]
    for task in later:
        assert wait_until_finished(task, 30).status == "SUCCESS"
    if function is tasks.exit_in_background:
        worker.wait_for_line("raised out of the event loop")


@pytest.mark.fault("event_loop_ended_or_cancelled")
def test_coroutines_that_another_cancelled_before_their_first_step_run_later(start, effects):
    others = [Task.objects.enqueue(tasks.amark, [f"other {n}"], max_attempts=1) for n in range(3)]
    Task.objects.enqueue(tasks.cancel_the_others, priority=10)
    start()
    for task in others:
        wait_until_finished(task, 30)
    effects.wait_for("cancelled the others")
    assert {task.status for task in Task.objects.all()} <= {"SUCCESS", "FAILED"}


@pytest.mark.fault("event_loop_ended_or_cancelled")
def test_coroutines_behind_one_that_does_not_yield_go_to_another_worker(start, effects):
    blocker = Task.objects.enqueue(tasks.hold_the_loop, ["a"])
    start()
    effects.wait_for("begin a")
    waiting = [Task.objects.enqueue(tasks.amark, [f"waiting {n}"]) for n in range(3)]
    wait_for(lambda: Task.objects.running().count() == 4, "claims of the blocked worker")
    start()
    for task in waiting:
        assert wait_until_finished(task).status == "SUCCESS"
    tasks.gate("a").touch()
    assert wait_until_finished(blocker).status == "SUCCESS"
    assert {effects.count(f"waiting {n}") for n in range(3)} == {1}


@pytest.mark.fault("cancelled_before_the_start")
@pytest.mark.parametrize("kind", ["coroutines", "functions"])
def test_what_is_cancelled_before_it_starts_never_starts(start, effects, kind):
    blocker, later = (tasks.hold_the_loop, tasks.amark) if kind == "coroutines" else (tasks.wait_at, tasks.canary)
    worker = start("--threads", "1")
    for n in range(20):
        wait_until_finished(Task.objects.enqueue(later, [f"short {n}"]))  # so that functions are claimed ahead
    Task.objects.enqueue(blocker, ["a"], priority=10)
    effects.wait_for("begin a")
    waiting = Task.objects.enqueue_many([(later, [f"never {n}"]) for n in range(3)])
    wait_for(lambda: Task.objects.running().count() == 4, "claims ahead of the long task")
    for task in waiting:
        task.cancel(by="tests")
    for task in waiting:
        worker.wait_for_line(f"cancelled .*{str(task.pk)[:18]}")
    tasks.gate("a").touch()
    done = Task.objects.enqueue(later, ["last"])
    assert wait_until_finished(done).status == "SUCCESS"
    assert not [line for line in effects.lines() if line.startswith("never")]


@pytest.mark.fault("log_that_nobody_reads")
def test_a_log_that_nobody_reads_holds_up_nothing(start, effects):
    reading, writing = os.pipe()
    try:
        enqueued = Task.objects.enqueue_many([(tasks.canary, ["x" * 40]) for _ in range(1000)])
        worker = start("--drain", popen={"stderr": writing, "stdout": subprocess.DEVNULL})
        assert worker.exit_code(60) == 0
        assert Task.objects.successful().count() == len(enqueued)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.fault("main_thread_hangs")
def test_a_child_whose_main_thread_hangs_is_replaced(start, effects):
    task = Task.objects.enqueue(tasks.hang_the_main_thread)
    worker = start("--threads", "2", lease=20.0)
    effects.wait_for("main thread hangs")
    worker.wait_for_line("hangs: its main thread", 60)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary), 30).status == "SUCCESS"
    assert story(task)[:2] == ["running", "released"]


@pytest.mark.fault("claims_ahead_of_long_tasks")
def test_claiming_ahead_of_long_tasks_and_giving_back_is_bounded(start, effects):
    Task.objects.enqueue_many([(tasks.canary, []) for _ in range(100)])
    worker = start("--threads", "2", lease=2.0)
    wait_for(lambda: not Task.objects.unfinished().exists(), "the short tasks")
    Task.objects.enqueue_many([(tasks.wait_at, [f"long {n}"]) for n in range(12)])
    effects.wait_for("begin long 0")
    worker.wait_for_line("waited behind long tasks")
    wait_for(lambda: Task.objects.running().count() == 2, "all others given back")
    released = TaskEvent.objects.filter(kind="task.released")
    before, expiries = released.count(), set[object]()

    def renewed_often() -> bool:
        """Each renewal comes half a second after the last, so the child polls many times meanwhile."""
        expiries.update(Task.objects.running().values_list("lock_expires_at", flat=True))
        return len(expiries) >= 12

    wait_for(renewed_often, "renewals of what runs")
    assert released.count() == before
    assert Task.objects.running().count() == 2
    for n in range(12):
        tasks.gate(f"long {n}").touch()
    wait_for(lambda: not Task.objects.unfinished().exists(), "the rest")


def test_what_was_given_back_ends_claiming_ahead_for_longer_and_longer():
    prefetch = Prefetch(slots=2)
    prefetch.learn(0.001, now=0.0)
    assert prefetch.ahead(0.0) == 100
    now, rests = 0.0, []
    for _ in range(7):
        prefetch.note_given_back(now)
        assert prefetch.ahead(now) == 0
        rests.append(prefetch.rests_until - now)
        now = prefetch.rests_until
        assert prefetch.ahead(now) == 100
    assert rests == [FIRST_REST * 2**n for n in range(5)] + [LONGEST_REST, LONGEST_REST]


def test_an_outcome_that_the_database_refuses_is_renewed_no_more(database):
    Task.objects.enqueue(tasks.canary)
    [lease] = claim("worker/1")
    ours, theirs = channel_pair()
    child = object.__new__(Child)
    child.inflight, child.attempts = InFlightTable(1), set()
    child.counts, child.stats_channel = Counts(), ours
    child.attempts.add(Attempt(lease, 0.0, *child.inflight.claim([lease], 0.0)))
    child.note_recorded(list(child.attempts))
    assert (child.attempts, list(child.inflight.entries())) == (set(), [])
    for end in (ours, theirs):
        end.close()


class TestRenewalIsEarned:
    @pytest.fixture
    def entry_of(self, database):
        Task.objects.enqueue(tasks.canary, timeout=100.0)
        [self.lease] = claim("worker/1")
        self.table = InFlightTable(1)
        [self.place] = self.table.claim([self.lease], now=1000.0)
        self.renewal = object.__new__(LeaseRenewal)
        self.renewal.options = type("Options", (), {"timeout_grace": 5.0})()
        self.renewal.waiting_since = None
        return lambda: next(self.table.entries())

    def earns(self, entry, now):
        return self.renewal.earns_renewal(entry, now)

    def test_a_claimed_attempt_must_begin(self, entry_of):
        assert self.earns(entry_of(), 1000.0 + START_SECONDS)
        assert not self.earns(entry_of(), 1000.1 + START_SECONDS)
        self.table.revoke(entry_of())
        assert not self.earns(entry_of(), 1000.0)
        assert not self.table.start(self.place, 1001.0, 1101.0)

    def test_a_running_attempt_must_keep_to_its_timeout(self, entry_of):
        assert self.table.start(self.place, 1001.0, 1101.0)
        assert self.earns(entry_of(), 1001.0 + 105.0 + RECORD_SECONDS)
        assert not self.earns(entry_of(), 1001.1 + 105.0 + RECORD_SECONDS)

    def test_an_attempt_that_is_over_must_be_recorded(self, entry_of):
        self.table.start(self.place, 1001.0, 1101.0)
        self.table.end(self.place, 1002.0)
        assert entry_of().state is State.ENDED
        assert self.earns(entry_of(), 1002.0 + RECORD_SECONDS)
        assert not self.earns(entry_of(), 1002.1 + RECORD_SECONDS)

    def test_an_attempt_that_nobody_can_record_is_kept_until_somebody_can(self, entry_of):
        self.table.start(self.place, 1001.0, 1101.0)
        self.table.end(self.place, 1002.0)
        self.renewal.waiting_since = host_time()
        assert self.earns(entry_of(), 1002.1 + RECORD_SECONDS)

    def test_an_attempt_past_its_timeout_is_not_held(self, entry_of):
        """It may be what keeps everybody from writing."""
        self.table.start(self.place, monotonic(), monotonic())
        assert self.renewal.holds(entry_of())
        self.table.start(self.place, 1.0, monotonic() - 5.1)
        assert not self.renewal.holds(entry_of())


class TestAfterALongWrite:
    """A renewal that waited in the server may be carried out after one that was asked later."""

    @pytest.fixture
    def child(self, database, travel):
        Task.objects.enqueue(tasks.canary)
        [lease] = claim("worker/1")
        (ours, theirs), (our_stats, their_stats) = channel_pair(), channel_pair()
        theirs.socket.settimeout(0)
        self.received = theirs
        child = ChildProcess(0, "worker/1", ours, our_stats, InFlightTable(1))
        child.inflight.start(*child.inflight.claim([lease], monotonic()), monotonic(), monotonic() + 600)
        self.renewal = LeaseRenewal("worker", "default", DatabaseCaller(database, 60.0))
        travel(61)
        yield child
        for end in (ours, theirs, our_stats, their_stats):
            end.close()

    def lost(self, child):
        self.renewal.renew([child])
        return any(isinstance(message, LeasesLost) for message in self.received.receive_all())

    def test_an_expired_lease_is_lost_once_somebody_took_the_task(self, child):
        self.renewal.settled_by = monotonic() + 60
        assert not self.lost(child)
        assert next(child.inflight.entries()).renewed
        assert recover()
        assert self.lost(child)

    def test_an_expired_lease_is_lost_if_nobody_was_kept_from_writing(self, child):
        assert self.lost(child)


def test_a_sign_of_life_may_come_while_it_is_asked_for(monkeypatch):
    """The loop answers from its own thread, between any two steps of the one that asks."""
    executor = LoopExecutor.__new__(LoopExecutor)
    executor.asked_at = 1.0

    def answered_meanwhile():
        executor.asked_at = None
        return 2.0 + BLOCKED_SECONDS

    monkeypatch.setattr(executors, "monotonic", answered_meanwhile)
    assert executor.is_blocked
    assert not executor.is_blocked
