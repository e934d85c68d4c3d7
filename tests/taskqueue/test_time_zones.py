"""The changes of the clocks, by every choice of USE_TZ and TIME_ZONE: an hour that comes twice, one that never comes.

In every zone of project and database, seconds pass one after the other.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connections

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task, TaskStat, Worker
from django_tasks_retry.taskqueue import ClaimMemory
from django_tasks_retry.taskqueue.statistics import summaries
from tests import tasks
from tests.steps import begin, claim_one, enqueue, now_of, stopped

NEW_YORK = "America/New_York"
BACK = datetime(2027, 11, 7, 6, 0, tzinfo=UTC)  # 02:00 becomes 01:00
FORWARD = datetime(2027, 3, 14, 7, 0, tzinfo=UTC)  # 02:00 becomes 03:00
CHANGES = pytest.mark.parametrize("change", [BACK, FORWARD], ids=["back", "forward"])


@contextmanager
def in_zone(using: str, name: str | None):
    """As with DATABASES[using]["TIME_ZONE"] = name, also for the session that is open."""
    connection = connections[using]
    connection.settings_dict["TIME_ZONE"] = name
    for cached in ("timezone", "timezone_name"):
        connection.__dict__.pop(cached, None)
    connection.ensure_timezone()
    try:
        yield
    finally:
        connection.settings_dict["TIME_ZONE"] = None
        for cached in ("timezone", "timezone_name"):
            connection.__dict__.pop(cached, None)
        connection.ensure_timezone()


@pytest.fixture(params=["naive", "aware", "database"])
def zoned(request, settings, database):
    settings.TIME_ZONE = NEW_YORK
    settings.USE_TZ = request.param != "naive"
    with in_zone(database, NEW_YORK if request.param == "database" else None):
        yield database


@pytest.fixture
def at(zoned):
    """Put the queue's clock to an instant."""
    return lambda moment: clock.shift(moment - datetime.now(UTC), zoned)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.fault("clocks_go_back", "clocks_go_forward")
@CHANGES
@pytest.mark.parametrize("before", [3700, 1800, 1, -1, -1800, -3599], ids=str)
def test_a_task_is_due_when_it_is_enqueued(at, change, before):
    """Around the change, and in both hours of the same name."""
    at(change - seconds(before))
    task, memory = enqueue(), ClaimMemory(clock=stopped)
    at(change - seconds(before - 1))
    assert [lease.id for lease in taskqueue.claim("w", memory=memory)] == [task.pk]


@pytest.mark.fault("clocks_go_back", "clocks_go_forward")
@CHANGES
def test_tasks_are_claimed_in_the_order_of_their_etas(at, change):
    """Claim by claim, each from where the last one came to."""
    ids, memory = [], ClaimMemory(clock=stopped)
    for minutes in range(-90, 91, 15):
        at(change + timedelta(minutes=minutes))
        ids.append(enqueue().pk)
    at(change + timedelta(minutes=91))
    assert [lease.id for _ in ids for lease in taskqueue.claim("w", memory=memory)] == ids


@pytest.mark.fault("clocks_go_back", "clocks_go_forward")
@CHANGES
def test_a_lease_lasts_as_long_as_on_any_other_day(at, change):
    at(change - seconds(30))
    task, lease = begin()
    at(change + seconds(20))
    assert taskqueue.recover() == []
    assert taskqueue.renew([lease]) == {}
    at(change + seconds(79))
    assert taskqueue.recover() == []
    at(change + seconds(81))
    assert [receipt.lease.id for receipt in taskqueue.recover()] == [task.pk]


@pytest.mark.fault("clocks_go_back", "clocks_go_forward")
@CHANGES
def test_delays_and_intervals_are_seconds(at, change):
    at(change - seconds(10))
    task, lease = begin(backoff=[3600], interval=1800)
    taskqueue.fail_task(lease, ValueError("no"))
    at(change + seconds(3589))
    assert taskqueue.claim("w") == []
    at(change + seconds(3592))
    taskqueue.complete_task(claim_one())
    following = Task.objects.pending().get()
    assert (following.eta - task.eta) / timedelta(seconds=1800) == 3


@pytest.mark.fault("clocks_go_back", "clocks_go_forward")
@CHANGES
def test_measured_times_are_true(at, change):
    at(change - seconds(10))
    enqueue()
    at(change + seconds(10))
    [lease] = taskqueue.claim("w")
    assert 19 < lease.wait_seconds < 80
    at(change + seconds(30))
    receipt = taskqueue.complete_task(lease)
    assert 19 < (receipt.ts - lease.last_attempt_at).total_seconds() < 80


@pytest.mark.fault("clocks_go_back", "clocks_go_forward")
@CHANGES
def test_heartbeats_statistics_and_retention_go_on(at, zoned, change):
    at(change - seconds(20))
    _, lease = begin()
    taskqueue.complete_task(lease)
    taskqueue.register_worker("w", "default", host="h", pid=1, version="1", processes=1, slots=1)
    taskqueue.add_stats([taskqueue.Stat("default", "f", completed=1)])
    at(change + seconds(5))
    assert [peer.id for peer in taskqueue.heartbeat("w", "default")] == ["w"]
    taskqueue.add_stats([taskqueue.Stat("default", "f", completed=1)])
    assert [stat.minute for stat in TaskStat.objects.order_by("minute")] == [change - timedelta(minutes=1), change]
    assert sum(taskqueue.prune(keep={"SUCCESS": 30.0})) == 0
    at(change + seconds(11))
    assert sum(taskqueue.prune(keep={"SUCCESS": 30.0})) == 1
    at(change + seconds(60))
    assert Worker.objects.get().heartbeat_at - change < seconds(7)
    assert not taskqueue.alive_workers().exists()


@pytest.mark.fault("clocks_go_back")
@pytest.mark.parametrize("fold", [0, 1])
def test_a_naive_eta_in_the_hour_that_comes_twice_says_by_its_fold_which(settings, database, fold):
    settings.TIME_ZONE, settings.USE_TZ = NEW_YORK, False
    task = enqueue(eta=datetime(2027, 11, 7, 1, 30, fold=fold))
    instant = BACK + timedelta(minutes=60 * fold - 30)
    assert now_of(task).eta == instant
    run_after = tasks.noop.get_result(str(task.pk)).task.run_after
    assert (run_after, run_after.fold) == (datetime(2027, 11, 7, 1, 30), fold)
    taskqueue.reschedule([task.pk], eta=run_after)
    assert now_of(task).eta == instant


@pytest.mark.fault("database_in_another_time_zone")
@pytest.mark.parametrize("zone", [NEW_YORK, "Asia/Tokyo", "Pacific/Chatham"])
def test_a_database_with_a_time_zone_of_its_own(database, travel, zone):
    """A task that is due now is claimed; one that is due in two hours is not."""
    with in_zone(database, zone):
        now_due, later = enqueue(), enqueue(eta=clock.now(database) + timedelta(hours=2))
        [lease] = taskqueue.claim("w", limit=5)
        assert lease.id == now_due.pk
        assert lease.eta == now_of(now_due).eta
        [depth] = summaries.depths(database)
        assert depth.oldest_eta == now_of(later).eta
        taskqueue.complete_task(lease)
        travel(7140)
        assert taskqueue.claim("w") == []
        travel(61)
        assert claim_one().id == later.pk


@pytest.mark.fault("database_in_another_time_zone")
def test_what_one_zone_stored_another_reads(database):
    eta = datetime(2030, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    with in_zone(database, "Asia/Tokyo"):
        task = enqueue(eta=eta)
    with in_zone(database, NEW_YORK):
        assert now_of(task).eta == eta
        assert now_of(task).eta.tzinfo is UTC
    assert Task.objects.filter(eta=eta, pk=task.pk).exists()
