"""Many workers at one database: a wake-up is for few of them, the first one prunes, and each looks for itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from django.db import IntegrityError, connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, Worker
from django_tasks_retry.taskqueue import ClaimMemory, Completed, EnqueueOptions, report_of
from django_tasks_retry.taskqueue.claim.tuning import TUNING
from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.enqueue.notify import WakeUp, WakeUpKind
from django_tasks_retry.worker.child.attempt import Attempt, start
from django_tasks_retry.worker.child.child import Child as WorkerChild
from django_tasks_retry.worker.child.claimer import Intake
from django_tasks_retry.worker.child.outbox import Outbox
from django_tasks_retry.worker.options import WorkerOptions
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.shared.inflight import InFlightTable, Room
from django_tasks_retry.worker.shared.messages import Channel, ClaimNow, channel_pair
from django_tasks_retry.worker.supervisor.child_process import ChildProcess
from django_tasks_retry.worker.supervisor.dispatch import (
    BACKUP_SECONDS,
    MOST_LISTENERS,
    POLLS_A_SECOND,
    Dispatcher,
    Ring,
    wake_children,
)
from django_tasks_retry.worker.supervisor.maintenance import services
from django_tasks_retry.worker.supervisor.maintenance.maintenance import Maintenance
from django_tasks_retry.worker.supervisor.pool import ChildPool
from django_tasks_retry.worker.supervisor.supervisor import Supervisor
from tests import tasks
from tests.races.test_contention import taken
from tests.steps import begin, enqueue, now_of, stopped
from tests.worker.tasks import canary, tell_task

OPEN: list[Channel] = []
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _close_channels() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def peer(name: str, **facts: Any) -> Worker:
    known = {"queues": ["*"], "exclude": [], "listening": True, "started_at": NOON, "heartbeat_at": NOON}
    return Worker(**{"id": name, "stop_asked_at": None, **known, **facts})


def fleet(*members: Worker) -> list[Ring]:
    views = [Ring(member.id) for member in members]
    for view in views:
        view.learn(members)
    return views


def test_entries_of_a_batch_are_noted_and_cleared_together_and_tell_nothing_of_those_before():
    table = InFlightTable(3)
    first = [lease_like() for _ in range(3)]
    table.claim(first, 1.0)
    entries = list(table.entries())
    for entry in entries:
        table.start(entry.place, 2.0, 9.0)
        table.end(entry.place, 3.0)
        table.revoke(entry)
    table.note_renewals(4.0, entries)
    assert (table.claims, table.load) == (3, 3)
    table.clear([entry.place for entry in entries])
    assert (table.load, list(table.entries())) == (0, [])
    table.claim([lease_like()], 5.0)
    [again] = table.entries()
    assert (again.revoked, again.started, again.deadline, again.ended, again.valid_from) == (False, 0.0, 0.0, 0.0, 5.0)


class Child:
    """A child as its supervisor sees it, and what it was told."""

    def __init__(self, name: str, room: Room = Room.ALL, load: int = 0) -> None:
        ours, self.end = channel_pair()
        stats, other_end = channel_pair()
        OPEN.extend([ours, self.end, stats, other_end])
        table = InFlightTable(8)
        table.note_room(room)
        for _ in range(load):
            table.claim([lease_like()], 1.0)
        self.process = ChildProcess(0, name, ours, stats, table)

    @property
    def told(self) -> int:
        self.end.socket.setblocking(False)
        return sum(isinstance(message, ClaimNow) for message in self.end.receive_all())


def lease_like() -> Any:
    return SimpleNamespace(attempts=1, id=SimpleNamespace(bytes=b"x" * 16))


def told_by(children: list[Child]) -> list[int]:
    return [child.told for child in children]


def dispatcher(children: list[Child], using: str = "default", **options: Any) -> Dispatcher:
    chosen = WorkerOptions(**options)
    pool = ChildPool("me", chosen, lambda: None)
    pool.children = [child.process for child in children]
    found = Dispatcher("me", chosen, DatabaseCaller(using, 60.0), pool)
    found.memory = ClaimMemory(chosen.queues, chosen.exclude, clock=stopped)  # no refresh is slow, and none rests
    return found


# Which workers


@pytest.mark.fault("lone_task_wakes_a_fleet")
def test_a_message_is_for_two_of_many_workers_and_all_agree_on_them():
    views = fleet(*(peer(f"w{number}") for number in range(MOST_LISTENERS)))
    asked = [sorted(view.rank("default", sender) for view in views) for sender in range(50)]
    assert asked == [list(range(MOST_LISTENERS))] * 50
    first = {min(views, key=lambda view: view.rank("default", sender)).worker_id for sender in range(50)}
    assert len(first) > 5, "one worker would get all the work"


@pytest.mark.fault("lone_task_wakes_a_fleet")
@pytest.mark.parametrize(
    "facts",
    [
        {"listening": False},
        {"stop_asked_at": NOON},
        {"queues": ["bulk"]},
        {"exclude": ["default"]},
        {"heartbeat_at": NOON - timedelta(seconds=13)},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_a_worker_that_would_not_answer_is_not_counted_on(facts):
    me, _ = fleet(peer("me"), peer("other", **facts))
    assert me.others("default") == set()
    assert [me.rank("default", sender) for sender in range(20)] == [0] * 20


def listeners_of(*members: Worker) -> list[str]:
    return [view.worker_id for view in fleet(*members) if view.is_listener]


@pytest.mark.fault("lone_task_wakes_a_fleet")
def test_of_many_workers_a_few_listen_and_the_next_takes_the_place_of_one_that_ended():
    members = [peer(f"w{number}") for number in range(100)]
    first = [f"w{number}" for number in range(MOST_LISTENERS)]
    assert listeners_of(*members) == first
    assert fleet(*members)[50].others("default") == set(first)
    assert listeners_of(*members[1:]) == [*first[1:], f"w{MOST_LISTENERS}"]
    silent = peer("w0", heartbeat_at=NOON - timedelta(seconds=13))
    assert listeners_of(silent, *members[1:])[1:] == [*first[1:], f"w{MOST_LISTENERS}"]


def test_each_set_of_queues_has_listeners_of_its_own_and_who_cannot_hear_takes_no_place():
    deaf = [peer(f"deaf{number}", listening=False) for number in range(9)]
    many = [peer(f"w{number}") for number in range(9)]
    bulk = peer("bulk", queues=["bulk"])
    found = set(listeners_of(*deaf, *many, bulk))
    assert found == {f"deaf{number}" for number in range(9)} | {f"w{number}" for number in range(8)} | {"bulk"}


def test_workers_of_the_same_queues_share_the_polls():
    one = dispatcher([Child("1")])
    one.learn([peer("me"), *(peer(f"w{number}") for number in range(99)), peer("b", queues=["b"])], listening=True)
    assert one.polling.seconds == 100 / POLLS_A_SECOND
    one.learn([peer("me"), peer("other")], listening=True)
    assert one.polling.seconds == one.options.poll


@pytest.mark.no_pooler("a pooler in transaction mode delivers no notifications")
def test_a_worker_that_is_not_elected_closes_its_listener_until_it_is(committed):
    if committed != "postgresql":
        pytest.skip("SQLite workers poll")
    supervisor = Supervisor(WorkerOptions())
    try:
        supervisor.listener.using = committed
        supervisor.listener.wanted = True
        supervisor.wait_for_events()
        assert (supervisor.listener.connection is not None, supervisor.listener.is_ready) == (True, True)
        supervisor.listen_if_elected(is_elected=False)
        supervisor.wait_for_events()
        assert (supervisor.listener.connection is not None, supervisor.listener.is_ready) == (False, True)
        supervisor.listener.try_again.soon()
        supervisor.listen_if_elected(is_elected=True)
        supervisor.wait_for_events()
        assert supervisor.listener.connection is not None
    finally:
        supervisor.listener.close()
        supervisor.close_in_child()


def test_a_worker_that_knows_of_no_others_answers_every_message():
    assert Ring("me").rank("default", 7) == 0


def test_the_worker_that_started_first_prunes():
    views = fleet(peer("b"), peer("a", started_at=NOON + timedelta(seconds=1)))
    assert [view.is_first for view in views] == [True, False]
    assert not Ring("new").is_first


# Which children


@pytest.mark.fault("lone_task_wakes_a_fleet")
def test_a_lone_arrival_wakes_one_child():
    children = [Child(str(number)) for number in range(16)]
    dispatcher(children).receive([WakeUp(WakeUpKind.WORK, "default", 1)])
    assert sum(told_by(children)) == 1


@pytest.mark.fault("lone_task_wakes_a_fleet")
def test_the_second_worker_that_is_asked_only_looks_a_moment_later():
    children = [Child("1")]
    one = dispatcher(children)
    one.polling.reset()
    one.learn([peer(name) for name in ("me", "b", "c", "d")], listening=True)
    sender = next(number for number in range(100) if one.ring.rank("default", number) == 1)
    one.receive([WakeUp(WakeUpKind.WORK, "default", sender)])
    assert told_by(children) == [0]
    assert one.polling.next <= monotonic() + BACKUP_SECONDS
    one.receive([WakeUp(WakeUpKind.MORE, "4:default", sender)])
    assert told_by(children) == [1]


def test_what_the_first_worker_left_is_found_by_the_second(committed):
    """Also where its own children claim meanwhile, and would be left to look for themselves."""
    enqueue(tasks.noop)
    children = [Child("1")]
    one = dispatcher(children, committed)
    one.claims = -1
    one.check_soon()
    one.polling.soon()
    one.poll()
    assert told_by(children) == [1]


def test_an_arrival_for_others_wakes_nobody():
    children = [Child("1")]
    one = dispatcher(children, queues=("emails",))
    one.receive(
        [
            WakeUp(WakeUpKind.WORK, "default", 1),
            WakeUp(WakeUpKind.CANCELLED, "x", 1),
            WakeUp(WakeUpKind.MORE, "nonsense", 1),
        ]
    )
    assert told_by(children) == [0]


def test_the_least_busy_child_with_room_is_woken():
    children = [Child("1", load=2), Child("2", load=1), Child("3", Room.FUNCTIONS)]
    assert wake_children([child.process for child in children], 1)
    assert told_by(children) == [0, 1, 0]


def test_a_child_that_took_all_it_could_has_two_others_woken():
    children = [Child(str(number)) for number in range(4)]
    one = dispatcher(children)
    one.receive([WakeUp(WakeUpKind.WORK, "default", 1)])
    first = told_by(children)
    one.note_more()
    then = told_by(children)
    assert (sum(first), sum(then)) == (1, 2)
    assert [a + b for a, b in zip(first, then, strict=True)].count(1) == 3


def test_where_no_child_has_room_each_claims_once_it_has():
    children = [Child(str(number), Room.NONE) for number in range(3)]
    assert not wake_children([child.process for child in children], 1)
    assert told_by(children) == [1, 1, 1]


def test_work_that_is_found_again_wakes_another_child(database):
    enqueue()
    children = [Child(str(number)) for number in range(3)]
    one = dispatcher(children, database)
    for _ in range(3):
        one.polling.soon()
        one.poll()
    assert told_by(children) == [1, 1, 1]


def test_while_children_claim_the_supervisor_looks_every_other_time(database):
    enqueue()
    children = [Child("1", load=1), Child("2")]
    one, woken = dispatcher(children, database), []
    for _ in range(4):
        one.polling.soon()
        one.poll()
        woken.append(sum(told_by(children)))
        children[0].process.inflight.claim([lease_like()], 1.0)
    assert woken == [0, 1, 0, 1]


@pytest.mark.fault("woken_workers_without_room")
def test_a_worker_without_room_hands_the_message_on_to_more(committed):
    if committed != "postgresql":
        pytest.skip("SQLite workers poll")
    one = dispatcher([Child("1", Room.NONE)], committed)
    one.learn([peer(name) for name in ("me", "b", "c", "d")], listening=True)
    heard: list[str] = []
    sender = next(number for number in range(100) if one.ring.rank("default", number) == 0)
    with listening(committed) as connection:
        one.receive([WakeUp(WakeUpKind.WORK, "default", sender)])
        heard += [note.payload for note in connection.notifies(timeout=60, stop_after=1)]
        one.receive([WakeUp(WakeUpKind.WORK, "default", sender)])  # at once again: not passed on
        heard += [note.payload for note in connection.notifies(timeout=0.05)]
    assert heard == ["more:4:default"]


def listening(alias: str) -> Any:
    place = connections[alias].get_connection_params()
    known = {name: place[name] for name in ("dbname", "user", "password", "host", "port") if place.get(name)}
    connection = psycopg.connect(**known, autocommit=True)
    connection.execute("LISTEN django_tasks_retry")
    return connection


# One for all


@pytest.mark.fault("every_worker_prunes_the_same_tasks")
def test_only_the_elected_worker_prunes(database, travel):
    _, lease = begin()
    taskqueue.complete_task(lease)
    travel(400 * 86_400)
    one = Maintenance("me", "default", DatabaseCaller(database, 60.0), None, lambda ids: None)
    one.share_with(2, is_elected=False)
    one.tick()
    assert Task.objects.count() == 1
    one.share_with(2, is_elected=True)
    one.tick()
    assert Task.objects.count() == 0
    assert not one.is_pruning, "one turn takes as many pages as it has time for"


def test_what_takes_long_to_move_to_history_is_looked_for_less_often(database, monkeypatch):
    """Millions of waiting tasks, each of which is looked at."""
    clock = [1000.0]
    monkeypatch.setattr(services, "monotonic", lambda: clock[0])

    def pages(backend: str) -> Iterator[int]:
        for moved in [0] * 30 + [5000] * 10:
            clock[0] += 1.0
            yield moved

    monkeypatch.setattr(services.taskqueue, "maintain_partitions", pages)
    one = Maintenance("me", "default", DatabaseCaller(database, 60.0), None, lambda ids: None)
    one.share_with(1, is_elected=True)
    one.tick()
    while one.is_pruning:
        one.archive.interval.soon()  # a pass that takes longer than its interval does not begin again
        one.tick()
    assert one.archive.interval.seconds == 20 * 30.0


def test_a_service_that_fails_keeps_the_queue_from_no_other(database):
    def break_down() -> int:
        raise ValueError("nobody thought of this")

    one = Maintenance("me", "default", DatabaseCaller(database, 60.0), None, lambda ids: None)
    done: list[str] = []
    runs = (break_down, lambda: done.append("later") or 1)
    one.services = [SimpleNamespace(is_due=lambda: True, run=run) for run in runs]
    with pytest.raises(ValueError, match="nobody thought"):
        one.tick()
    assert done == ["later"]


def test_a_child_forgets_the_attempts_that_it_started(database):
    """Each holds the arguments and the result of its task."""
    _, lease = begin()
    inflight = InFlightTable(1)
    attempt = Attempt(lease, 0.0, *inflight.claim([lease], 0.0))
    held = sys.getrefcount(attempt)
    start(attempt, inflight)
    assert sys.getrefcount(attempt) == held


# Places in line


@pytest.mark.parametrize(
    "give_back",
    [
        lambda lease: taskqueue.release_task(lease, "shutdown"),
        lambda lease: taskqueue.recover(dead=lease.locked_by, actor="house"),
    ],
    ids=["released", "recovered"],
)
@pytest.mark.fault("released_task_loses_its_place")
def test_a_task_that_is_given_back_keeps_its_place_in_line(database, give_back):
    first, lease = begin("house/1")
    waiting = [enqueue() for _ in range(3)]
    give_back(lease)
    assert [lease.id for lease in taskqueue.claim("w", limit=4)] == [first.pk, *(task.pk for task in waiting)]


def test_a_task_that_snoozes_goes_behind_those_that_wait(database):
    first, lease = begin()
    waiting = enqueue()
    taskqueue.release_task(lease, "snoozed", 0)
    assert [lease.id for lease in taskqueue.claim("w", limit=2)] == [waiting.pk, first.pk]


# Many queues


@pytest.fixture
def tenants(settings) -> list[str]:
    """More queues than fit on a page."""
    queues = [f"tenant-{number:04}" for number in range(TUNING.ranges_a_page + 40)]
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    return queues


def fill(queues: list[str]) -> None:
    taskqueue.enqueue_many([EnqueueOptions(tasks.noop, queue=queue) for queue in queues])


@pytest.mark.fault("queue_for_each_tenant")
def test_more_queues_than_fit_on_a_page_are_all_served(database, tenants):
    fill(tenants)
    memory, served = ClaimMemory(clock=stopped), set()
    while leases := taskqueue.claim("w", limit=100, memory=memory):
        served |= {lease.queue for lease in leases}
    assert served == set(tenants)


@pytest.mark.fault("queue_for_each_tenant")
def test_one_queue_is_found_among_more_than_fit_on_a_page(database, tenants):
    fill(tenants)
    memory = ClaimMemory([tenants[-10]], clock=stopped)
    for _ in range(2):
        [lease] = taskqueue.claim("w", limit=5, memory=memory)
        assert taskqueue.claim("w", limit=5, memory=memory) == []
        taskqueue.release_task(lease, "again")


# Connections


def test_threads_are_started_as_far_as_connections_allow():
    options = WorkerOptions(processes=4, threads=8, max_connections=60)
    assert options.connections == 3 + 4 * 5 + 4 * (8 + 4)
    assert (options.bounded().threads, options.bounded().connections) == (5, 59)
    assert WorkerOptions(threads=3, max_connections=40).bounded().threads == 3


def test_a_bound_that_not_even_one_thread_fits_under_is_refused():
    with pytest.raises(ValueError, match=r"--max-connections 20 is not enough for --processes 4: .* up to 43"):
        WorkerOptions(processes=4, max_connections=20).bounded()


def test_a_worker_says_how_many_connections_it_may_open(start, committed):
    worker = start("--processes", "2", "--threads", "8", "--max-connections", "25", "--drain")
    assert worker.exit_code() == 0
    if committed == "postgresql":
        assert "2 x (2 threads + 100 async) · at most 25 connections = 13 + 2 x (2 threads + 4)" in worker.output


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_worker_that_drains_does_not_take_a_crowd_for_the_end(start, committed, effects):
    """It is turned away, comes back, and claims without a place in the end."""
    enqueued = [enqueue(canary) for _ in range(3)]
    with taken(committed):
        assert start("--drain").exit_code() == 0
    assert [now_of(task).status for task in enqueued] == ["SUCCESS"] * 3


# What one child asks


class Asked:
    """Which statements an intake sends: looks and claims of the two kinds of slot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, using: str) -> None:
        self.statements: list[str] = []
        engine = type(engine_for(using))
        for verb in ("due_ranges", "claim"):
            monkeypatch.setattr(engine, verb, self.noted(verb, getattr(engine, verb)))

    def noted(self, verb: str, act: Any) -> Any:
        def noting(engine: Any, *arguments: Any) -> Any:
            self.statements.append(verb)
            return act(engine, *arguments)

        return noting


def intake(using: str) -> Intake:
    return Intake("sup/1", WorkerOptions(), DatabaseCaller(using, 60.0), set(), careful=False)


def test_a_woken_child_looks_once_for_functions_and_coroutines(committed, monkeypatch):
    one, asked = intake(committed), Asked(monkeypatch, committed)
    one.claim_now()
    one.claim(lambda *_: None)
    assert asked.statements == ["due_ranges"]
    assert not one.coroutines.claim_now


@pytest.mark.parametrize("task", [tasks.noop, tell_task], ids=["function", "coroutine"])
def test_a_woken_child_claims_a_lone_task_of_either_kind(committed, task):
    one, leases = intake(committed), []
    enqueued = enqueue(task)
    one.claim_now()
    while one.next_claim == 0.0:
        one.claim(lambda found, _: leases.extend(found))
    assert [lease.id for lease in leases] == [enqueued.pk]


def test_coroutines_are_claimed_though_functions_came_short(committed):
    one, leases = intake(committed), []
    enqueued = [enqueue(tasks.noop), enqueue(tell_task)]
    for _ in range(2):  # the second time by lanes that it remembers
        one.claim_now()
        while one.next_claim == 0.0:
            one.claim(lambda found, _: leases.extend(found))
        enqueued += [enqueue(tasks.noop), enqueue(tell_task)]
    assert {lease.id for lease in leases} == {task.pk for task in enqueued[:4]}


def test_a_child_that_runs_dry_claims_further_ahead_only_after_a_full_claim(committed):
    one, widths = intake(committed), []
    for _ in range(one.options.threads * 2 + 1):
        enqueue(tasks.noop)
    for ran_dry in (True, True, False, True):  # after no claim, two that were full, and a short one
        one.claim(lambda *_: None, ran_dry=ran_dry)
        widths.append(one.budget.prefetch.parallel)
        one.claim_now()
    assert widths == [1.0, 2.0, 2.0, 2.0]


def test_a_wake_up_after_the_look_of_functions_makes_coroutines_look_again(committed, monkeypatch):
    one = intake(committed)
    one.claim(lambda *_: None)
    asked = Asked(monkeypatch, committed)
    one.coroutines.wake()
    one.claim(lambda *_: None)
    assert "due_ranges" in asked.statements


# Lanes that were full


@pytest.fixture
def full(committed, configure):
    """A lane that runs one task at a time: who claims from it, the attempt that has ended, and the task that waits."""
    configure(LANES={"stripe": {"concurrency": 1}})
    enqueue(tasks.noop, lane="stripe")
    waiting, one, found = enqueue(tasks.noop, lane="stripe"), intake(committed), []
    one.claim(lambda leases, _: found.extend(leases))
    ended = Attempt(found[0], 0.0, None)
    ended.report = report_of(Completed(ended.lease))
    outbox = Outbox(one.database, cast("Any", None), 60.0)
    outbox.add([ended])
    return one, outbox, ended, waiting


def write(one, outbox):
    """Write as a child does. Return what was claimed in doing so."""
    found: list[Any] = []
    for attempt in outbox.write(one.successors_of(outbox.pending)):
        one.note_ended(attempt)
    one.take_successors(lambda leases, _: found.extend(leases))
    return [lease.id for lease in found]


def test_who_records_the_end_claims_the_next_of_a_full_lane(full):
    one, outbox, ended, waiting = full
    assert write(one, outbox) == [waiting.pk]
    assert ended.receipt.accepted
    assert not one.functions.claim_now, "the lane is full again, so there is nothing to claim"


def test_a_claim_from_a_full_lane_leaves_nothing_to_flush(full, committed):
    with CaptureQueriesContext(connections[committed]) as asked:
        assert taskqueue.claim("sup/2") == []
    ends = [each["sql"] for each in asked if each["sql"] in {"COMMIT", "ROLLBACK"}]
    # SQLite's one lock would keep all others waiting meanwhile, so that it is read first whether anything may start.
    assert ends == (["ROLLBACK"] if connections[committed].vendor == "postgresql" else [])


def test_an_end_is_recorded_though_the_claim_with_it_is_refused(full, monkeypatch):
    one, outbox, ended, waiting = full

    def refuse(*_: Any, **__: Any) -> list[Any]:
        raise IntegrityError("refused")

    with monkeypatch.context() as patched:
        patched.setattr(one.functions, "ask", refuse)
        assert write(one, outbox) == []
    assert ended.receipt.accepted
    assert one.functions.answer_lost
    found: list[Any] = []
    one.claim(lambda leases, _: found.extend(leases))
    assert [lease.id for lease in found] == [waiting.pk]


def test_what_is_known_too_long_is_searched_for_anew_after_the_record(full):
    one, outbox, ended, _ = full
    one.functions.memory.cursor.came_short = True
    assert write(one, outbox) == []
    assert ended.receipt.accepted
    assert one.functions.claim_now


def test_a_claim_that_was_wanted_meanwhile_is_still_wanted(full):
    one, outbox, _, waiting = full
    one.claim_now()
    one.functions.memory.cursor.came_short = False
    assert write(one, outbox) == [waiting.pk]
    assert one.functions.claim_now


# An outage of the database


def test_children_are_told_of_an_outage_once_it_is_more_than_one_failure():
    child, caller = Child("1"), DatabaseCaller("default", 5.0)
    child.end.socket.setblocking(False)
    pool = SimpleNamespace(children=[child.process])
    supervisor: Any = SimpleNamespace(database=caller, pool=pool, has_sent_outage=False)
    told = []
    for caller.failures in (0, 1, 2, 3, 0, 2):
        Supervisor.send_outage(supervisor)
        told.append(len(list(child.end.receive_all())))
    assert told == [0, 0, 1, 0, 0, 1]


def test_a_child_that_is_told_of_an_outage_opens_a_new_connection_and_claims(committed):
    """Idle, it would learn with the first task after a failover that its old server is gone."""
    one, caller = intake(committed), DatabaseCaller(committed, 60.0)
    one.claim(lambda *_: None)
    before, idle = connections[committed].connection, one.functions.claim_now
    WorkerChild.look_for_database(SimpleNamespace(database=caller, intake=one))  # type: ignore[arg-type]
    assert (idle, one.functions.claim_now) == (False, True)
    one.claim(lambda *_: None)
    assert connections[committed].connection is not before
