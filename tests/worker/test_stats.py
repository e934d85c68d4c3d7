"""Statistics agree with the rows: counts outlive the child that made them, and reach the database slice by slice."""

from __future__ import annotations

import signal
import socket
import threading
from collections import Counter

import pytest
from django.db import transaction
from django.db.models import Count

from django_tasks_retry.models import Task, TaskTotal, Worker
from django_tasks_retry.taskqueue import Stat
from django_tasks_retry.worker.child import child as child_module
from django_tasks_retry.worker.child.child import Child
from django_tasks_retry.worker.shared import outcomes
from django_tasks_retry.worker.shared.database import DatabaseCaller, Rejected, Unavailable
from django_tasks_retry.worker.shared.inflight import InFlightTable
from django_tasks_retry.worker.shared.messages import Channel, channel_pair
from django_tasks_retry.worker.shared.outcomes import SLICE, Counts, StatsWriter

from . import tasks
from .harness import wait_for

MANY = 3000
QUEUES = 120
"""More than narrow channels hold. A few thousand fill wide ones, but are slow to claim from on SQLite."""
NARROW = {"WORKER_APPS": "tests.worker.narrow.NarrowChannels"}


@pytest.fixture
def any_queue(settings) -> None:
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}


def enqueue_in(queues: int, times: int = 1) -> None:
    rows = [{"func": tasks.canary, "queue": f"tenant-{n % queues}"} for n in range(queues * times)]
    Task.objects.enqueue_many(rows)


def in_rows() -> dict[str, int]:
    return dict(Task.objects.successful().values_list("queue").annotate(Count("pk")).order_by())


def in_totals() -> dict[str, int]:
    sums: Counter[str] = Counter()
    for queue, completed in TaskTotal.objects.values_list("queue", "completed"):
        sums[queue] += completed
    return dict(sums)


def some_stats(count: int) -> list[Stat]:
    return [Stat(f"q{n}", "tests.tasks.noop", completed=1) for n in range(count)]


# From a child to its supervisor


def hold(worker, number: int) -> None:
    """Stop the supervisor between its writes: on SQLite it would keep the lock."""
    with transaction.atomic(using=Worker.objects.db):
        Worker.objects.filter(pid=-1).update(pid=-1)
        worker.signal(number)


@pytest.mark.long
@pytest.mark.usefixtures("any_queue")
def test_totals_equal_the_rows_after_a_drain_of_many_queues_by_two_processes(start, effects):
    enqueue_in(QUEUES, times=2)
    assert start("--drain", "--processes", "2", variables=NARROW).exit_code() == 0
    assert len(in_rows()) == QUEUES
    assert in_totals() == in_rows()


@pytest.mark.long
@pytest.mark.usefixtures("any_queue")
def test_counts_wait_for_a_supervisor_that_does_not_read_before_its_child_has_finished(start, effects):
    Task.objects.enqueue(tasks.wait_at, ["a"], priority=100)
    worker = start("--drain", variables=NARROW)
    effects.wait_for("begin a")
    hold(worker, signal.SIGSTOP)
    enqueue_in(QUEUES)
    tasks.gate("a").touch()
    wait_for(lambda: not Task.objects.unfinished().exists(), "all tasks")
    worker.signal(signal.SIGCONT)
    assert worker.exit_code() == 0
    assert in_totals() == in_rows()


class Ending:
    """A child at its end, with many counts, and the supervisor's ends of its channels."""

    def __init__(self) -> None:
        self.child = object.__new__(Child)
        self.child.channel, self.messages = channel_pair()
        self.child.stats_channel, self.stats = channel_pair()
        for channel in (self.child.stats_channel, self.stats, self.messages):
            channel.socket.settimeout(0)
        self.child.inflight, self.child.counts = InFlightTable(1), Counts()
        for stat in some_stats(MANY):
            self.child.counts.add(stat)

    @property
    def channels(self) -> list[Channel]:
        return [self.child.channel, self.messages, self.child.stats_channel, self.stats]

    def read(self) -> set[str]:
        return {stat.queue for stat in self.stats.receive_all() if isinstance(stat, Stat)}


@pytest.fixture
def ending():
    scene = Ending()
    yield scene
    for channel in scene.channels:
        channel.close()


def test_a_child_at_its_end_waits_until_all_counts_are_read(ending):
    ending.child.send_stats()
    flushing = threading.Thread(target=ending.child.flush_stats)
    flushing.start()
    read = set()
    while flushing.is_alive():
        # Only after a message, as the supervisor does: it would else sleep for up to half a second.
        if ending.messages.readable.poll(10):
            list(ending.messages.receive())
            read |= ending.read()
    assert len(read | ending.read()) == MANY


@pytest.mark.parametrize("gone", [False, True], ids=["silent", "gone"])
def test_a_supervisor_that_reads_nothing_holds_up_its_child_for_a_while_only(ending, monkeypatch, caplog, gone):
    monkeypatch.setattr(child_module, "FLUSH_SECONDS", 0.05)
    if gone:
        ending.stats.socket.shutdown(socket.SHUT_RDWR)
    ending.child.flush_stats()
    [lost] = [record.args[0] for record in caplog.records if "are lost" in record.message]
    assert len(ending.read()) + lost == MANY


def test_a_full_channel_is_tried_once_for_all_counts(ending):
    ending.child.send_stats()
    kept, sends = len(ending.child.counts.stats), []
    take, ending.child.stats_channel.push = ending.child.stats_channel.push, lambda: sends.append(take())
    ending.child.send_stats()
    assert (len(ending.child.counts.stats), len(sends)) == (kept, 1)


# From the supervisor to the database


class Failing:
    """A database that answers some calls, and then no more."""

    is_available = True

    def __init__(self, answers: int, error: type[Unavailable] = Unavailable) -> None:
        self.answers, self.error = answers, error

    def call(self, verb):
        if not self.answers:
            raise self.error
        self.answers -= 1
        return verb()


def writer_of(database, stats: list[Stat]) -> StatsWriter:
    writer = StatsWriter("default", database)
    for stat in stats:
        writer.count(stat)
    return writer


def test_slices_that_were_added_before_an_outage_are_added_once(database):
    caller = Failing(answers=2)
    writer = writer_of(caller, some_stats(2 * SLICE + 7))
    assert writer.add(seconds=60.0) is False
    assert (TaskTotal.objects.count(), len(writer.counts.stats)) == (2 * SLICE, 7)
    caller.answers = 100
    writer.add(seconds=60.0)
    assert set(in_totals().values()) == {1}
    assert len(in_totals()) == 2 * SLICE + 7


def test_a_slow_database_gets_smaller_slices(database):
    caller = Failing(answers=0)
    writer = writer_of(caller, some_stats(SLICE))
    for expected in (SLICE // 2, SLICE // 4):
        writer.add()
        assert writer.limit == expected
    caller.answers = 1
    writer.add(seconds=0.0)
    assert TaskTotal.objects.count() == SLICE // 4


def test_a_turn_ends_in_time_and_the_next_goes_on(database):
    writer = writer_of(Failing(answers=100), some_stats(2 * SLICE + 1))
    for left in (SLICE + 1, 1, 0):
        assert writer.add(seconds=0.0) is bool(left)
        assert len(writer.counts.stats) == left


def test_counts_that_the_database_refuses_cost_no_others(committed, caplog):
    if committed == "default":
        pytest.skip("SQLite adds without bounds")
    TaskTotal.objects.create(queue="q700", func_path="tests.tasks.noop", completed=2**63 - 1)
    writer = writer_of(DatabaseCaller(committed, 5.0), some_stats(2 * SLICE))
    writer.finish(60.0)
    assert in_totals() == {f"q{n}": 1 for n in range(2 * SLICE)} | {"q700": 2**63 - 1}
    assert caplog.text.count("refuses the counts of queue q700") == 1
    assert "are lost" not in caplog.text


@pytest.mark.parametrize("error", [Unavailable, Rejected])
def test_the_end_names_how_many_counts_are_lost(database, caplog, monkeypatch, error):
    monkeypatch.setattr(outcomes, "ADD_AGAIN_SECONDS", 0.0)
    writer = writer_of(Failing(0, error), [*some_stats(2 * SLICE), Stat("q0", "tests.tasks.noop", failed=4)])
    caller: Failing = writer.database  # type: ignore[assignment]
    caller.answers = 1
    writer.finish(0.0)
    assert f"counts of {2 * SLICE + 4} attempts are lost" in caplog.text
