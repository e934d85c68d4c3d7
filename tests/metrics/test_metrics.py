from __future__ import annotations

import pytest
from django.db import connections

from django_tasks_retry import metrics, taskqueue
from django_tasks_retry.metrics.exposition import number
from django_tasks_retry.models import Schedule, Task, TaskStat, TaskTotal
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Stat, add_stats, forget_stats
from django_tasks_retry.taskqueue.operator.histogram import BOUNDS, BUCKETS, bucket_of
from django_tasks_retry.taskqueue.operator.snapshot import Holder, QueueState, Snapshot, Total, without_literals
from django_tasks_retry.worker.shared.stats import Counts, StatsWriter, stat_of
from tests import tasks as plain
from tests.metrics.parser import parse

P = "django_tasks_"
COUNTED = Stat("default", "f", 3, 1, 1, 0.7, 12.0, (1, 1, 0, 0, 1, 0, 0, 0, 0), (0, 0, 0, 3, 0, 0, 0, 0, 2))


def test_every_bucket_holds_what_it_says():
    assert [bucket_of(seconds) for seconds in (0.0, *BOUNDS, 9999.0)] == [0, *range(8), 8]
    assert [bucket_of(bound + 1e-6) for bound in BOUNDS] == list(range(1, 9))
    assert len(BUCKETS) == len(BOUNDS) + 1


def test_a_scrape_tells_how_the_queues_stand(database, tasks, travel):
    Task.objects.enqueue_many([(plain.noop, []), {"func": plain.noop, "queue": "emails"}])
    Task.objects.enqueue(plain.explode, queue="bulk", backoff=[300], max_attempts=2)
    tasks.run_due(["bulk"])
    taskqueue.pause("reports", by="me")
    taskqueue.register_worker(
        "w", "default", host="h", pid=1, version="1", processes=1, slots=8, queues=["e*"], exclude=[]
    )
    tasks.advance(seconds=25)
    taskqueue.claim("w/1", ["default"])
    read = parse(metrics.scrape())
    queues = {"default": (0, 1), "emails": (1, 0), "bulk": (0, 0), "reports": (0, 0)}
    for queue, (due, running) in queues.items():
        assert read[P + "due"].value(queue=queue) == due
        assert read[P + "running"].value(queue=queue) == running
        assert read[P + "queue_paused"].value(queue=queue) == (queue == "reports")
        assert read[P + "queue_slots"].value(queue=queue) == (8 if queue == "emails" else 0)
    assert 25 <= read[P + "oldest_due_seconds"].value(queue="emails") < 60
    assert read[P + "oldest_due_seconds"].value(queue="default") == 0
    assert [read[P + name].value() for name in ("retrying", "workers", "slots", "expired_leases")] == [1, 1, 8, 0]
    assert P + "schedules_late" not in read


def test_schedules_that_nobody_ticks_are_late(database, travel):
    for name, overlap in (("a", "skip"), ("b", "allow"), ("paused", "skip")):
        Schedule.objects.create(name=name, task=plain.noop, every=60, overlap=overlap)
    taskqueue.pause_schedule("paused", by="me")
    travel(100)
    assert parse(metrics.scrape())[P + "schedules_late"].value() == 0
    travel(100)
    assert parse(metrics.scrape())[P + "schedules_late"].value() == 2


def test_counters_and_histograms_add_up(database):
    for _ in range(2):
        add_stats([COUNTED, Stat("emails", "g", failed=1)])
    read = parse(metrics.scrape())
    of = {"queue": "default", "task": "f"}
    assert [read[P + "attempts_total"].value(**of, outcome=o) for o in ("completed", "retried", "failed")] == [6, 2, 2]
    run, wait = read[P + "run_seconds"], read[P + "wait_seconds"]
    assert [run.value("_bucket", **of, le=le) for le in ("0.01", "0.05", "1", "5", "+Inf")] == [2, 4, 4, 6, 6]
    assert (run.value("_sum", **of), wait.value("_sum", **of)) == (1.4, 24)
    assert [wait.value("_bucket", **of, le=le) for le in ("0.25", "1", "3600", "+Inf")] == [0, 6, 6, 10]
    assert read[P + "attempts_total"].value(queue="emails", task="g", outcome="failed") == 2


def counted() -> dict[object, float]:
    read = parse(metrics.scrape())
    return {
        (name, *sample): value
        for name, metric in read.items()
        if metric.kind in ("counter", "histogram")
        for sample, value in metric.samples.items()
    }


@pytest.mark.fault("F227")
def test_counters_never_go_back_across_prune_and_restart(database, tasks):
    """A restart is another process that begins to count at nothing."""
    before: dict[object, float] = {}
    for _ in range(3):
        task = Task.objects.enqueue(plain.add, [1, 2])
        tasks.run_due()
        writer = StatsWriter("default", Answering())
        writer.count("default", task.func_path, "done", 0.02, 0.5)
        writer.add()
        after = counted()
        assert all(after[key] >= value for key, value in before.items())
        assert sum(after.values()) > sum(before.values())
        before = after
        tasks.advance(days=30)
        assert sum(taskqueue.prune(keep={Status.SUCCESS: 1.0})) == 1
        forget_stats()
        assert not TaskStat.objects.exists()
        assert counted() == before
    of = {"queue": "default", "task": "tests.tasks.add"}
    assert parse(metrics.scrape())[P + "attempts_total"].value(**of, outcome="completed") == 3


class Answering:
    """A database that is there."""

    is_available = True

    def call(self, verb):
        return verb()


@pytest.mark.fault("F227")
def test_counts_that_could_not_be_added_are_added_once(database, monkeypatch):
    """All statements of one turn, or none of them: what fails halfway is not counted twice."""
    many = [Stat("default", f"f{n}", completed=1) for n in range(150)]
    with pytest.raises(ValueError, match="down"):
        add_stats(broken(many))
    assert not TaskTotal.objects.exists()
    failing = [*many[:149], Stat("default", "\udcff", completed=1)]
    with pytest.raises(Exception, match=r"surrogate|codec"):
        add_stats(failing)
    assert (TaskTotal.objects.count(), TaskStat.objects.count()) == (0, 0)


def broken(stats):
    yield from stats
    raise ValueError("down")


def test_what_a_child_counts_arrives_in_the_columns():
    counts = Counts()
    counts.count("q", "f", "done", 0.02, 0.0)
    counts.count("q", "f", "lost", 0.0, 7.0)  # nobody knows how long it ran
    counts.count("q", "f", "released", 3.0, 0.0)  # no end of an attempt's own
    [taken] = counts.take()
    again = Counts()
    again.add(taken)
    again.add(taken)
    stat = stat_of(again.take()[0])
    assert (stat.completed, stat.retried, stat.failed) == (2, 2, 0)
    assert (stat.ran, stat.waited) == ((0, 2, 0, 0, 0, 0, 0, 0, 0), (2, 0, 0, 0, 0, 2, 0, 0, 0))
    assert (stat.seconds, stat.wait_seconds) == (6.04, 14.0)


def test_rendering_is_a_pure_function_of_the_snapshot():
    hostile = 'a"b\\c\nd{x="1"} 9'
    state = QueueState(hostile, 1001, 1.5, 2, True, 3, 4)
    total = Total(hostile, hostile, 1, 2, 3, 0.1, 0.2, (1,) * 9, (0,) * 9)
    holder = Holder("12", 61.5, hostile, "idle in transaction", hostile)
    read = parse(metrics.render(Snapshot((state,), (total,), 3, 4, 5, 6, holder, late_schedules=7)))
    assert read[P + "due"].value(queue='a\\"b\\\\c\\nd{x=\\"1\\"} 9') == 1001
    assert read[P + "schedules_late"].value() == 7
    assert read[P + "horizon_held_seconds"].value() == 61.5
    assert len(read[P + "horizon_holder_info"].samples) == 1
    assert parse(metrics.render(Snapshot()))[P + "horizon_held_seconds"].value() == 0


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (1e21, "1000000000000000000000"), (0.1, "0.1"), (-1.0, "-1")])
def test_numbers_are_written_as_prometheus_reads_them(value, text):
    assert number(value) == text
    assert [number(float(word)) for word in ("nan", "inf", "-inf")] == ["NaN", "+Inf", "-Inf"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("UPDATE a SET b = 'se''cret', c = 12.5 WHERE d = 7", "UPDATE a SET b = ?, c = ? WHERE d = ?"),
        (r"SELECT E'it\'s secret'", "SELECT E?"),
        ("SELECT $x$sec$ret$x$, $1", "SELECT ?, $?"),
        ("SELECT 'cut sec", "SELECT ?"),
        ("SELECT\n  1", "SELECT ?"),
        ("x" * 500, "x" * 120),
    ],
)
def test_statements_are_told_without_their_values(query, told):
    assert without_literals(query) == told
    assert "sec" not in without_literals(query)


def test_the_transaction_that_holds_back_the_horizon_is_named(committed, monkeypatch):
    if committed != "postgresql":
        pytest.skip("SQLite has no horizon")
    other = connections.create_connection(committed)
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT 'secret', pg_backend_pid()")
            [[_, pid]] = cursor.fetchall()
            monkeypatch.setattr("django_tasks_retry.metrics.families.LONG_SECONDS", 0.0)
            read = parse(metrics.scrape())
        [(_, labels)] = read[P + "horizon_holder_info"].samples
        assert dict(labels)["pid"] == str(pid)
        assert dict(labels)["query"] == "SELECT ?, pg_backend_pid()"
        assert 0 < read[P + "horizon_held_seconds"].value() < 60
    finally:
        other.close()
