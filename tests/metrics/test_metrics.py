from __future__ import annotations

import pytest
from django.db import OperationalError, connections

from django_tasks_retry import metrics, taskqueue
from django_tasks_retry.metrics import number
from django_tasks_retry.models import Queue, Schedule, Task, TaskStat, TaskTotal
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Stat, add_stats, forget_stats
from django_tasks_retry.taskqueue.statistics import snapshot as snapshots
from django_tasks_retry.taskqueue.statistics.snapshot import Holder, Snapshot, without_literals
from django_tasks_retry.taskqueue.statistics.stats import BOUNDS, BUCKETS, bucket_of
from django_tasks_retry.taskqueue.statistics.summaries import OTHERS, QueueFigures
from django_tasks_retry.worker.shared.messages import decode, encode
from django_tasks_retry.worker.shared.outcomes import Counts, StatsWriter
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
    taskqueue.pause("paused", kind="schedule", by="me")
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


@pytest.mark.fault("counters_across_prune_and_restart")
def test_counters_never_go_back_across_prune_and_restart(database, tasks):
    """A restart is another process that begins to count at nothing."""
    before: dict[object, float] = {}
    for _ in range(3):
        task = Task.objects.enqueue(plain.add, [1, 2])
        tasks.run_due()
        writer = StatsWriter("default", Answering())
        writer.count(Stat.of_attempt(("default", task.func_path, ""), "completed", 0.02, 0.5))
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


@pytest.mark.fault("counters_across_prune_and_restart")
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
    for ended in (
        ("completed", 0.02, 0.0),
        ("lost", 0.0, 7.0),  # nobody knows how long it ran
        ("released", 3.0, 0.0),  # no end of an attempt's own
    ):
        counts.add(Stat.of_attempt(("q", "f", ""), *ended))
    [taken] = counts.take()
    again = Counts()
    again.add(decode(encode(taken)))
    again.add(decode(encode(taken)))
    [stat] = again.take()
    assert stat.values[:3] == (2, 2, 0)
    assert (stat.ran, stat.waited) == ([0, 2, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 2, 0, 0, 0])
    assert (stat.seconds, stat.wait_seconds) == (6.04, 14.0)


def test_rendering_is_a_pure_function_of_the_snapshot():
    hostile = 'a"b\\c\nd{x="1"} 9'
    state = QueueFigures(hostile, 1001, 1.5, 2, Queue(name=hostile), 3, 4)
    total = Stat(hostile, hostile, 1, 2, 3, 0.1, 0.2, (1,) * 9, (0,) * 9)
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
            monkeypatch.setattr("django_tasks_retry.metrics.LONG_SECONDS", 0.0)
            read = parse(metrics.scrape())
        [(_, labels)] = read[P + "horizon_holder_info"].samples
        assert dict(labels)["pid"] == str(pid)
        assert dict(labels)["query"] == "SELECT ?, pg_backend_pid()"
        assert 0 < read[P + "horizon_held_seconds"].value() < 60
    finally:
        other.close()


# Bounds


@pytest.fixture
def any_queue(settings, monkeypatch):
    """Queues of any name, of which three are named by metrics; "default" because the settings name it."""
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    monkeypatch.setattr(snapshots, "MOST_NAMED", 3)
    monkeypatch.setattr(snapshots, "configured_queues", lambda _backend: ["default"])


def enqueue_to(queues: dict[str, int]) -> None:
    Task.objects.enqueue_many(
        [{"func": plain.noop, "queue": name} for name, count in queues.items() for _ in range(count)]
    )


def test_the_largest_queues_are_named_and_the_rest_is_summed(database, any_queue, travel):
    enqueue_to({"a": 1, "b": 5, "c": 4, "d": 2, OTHERS: 9})
    taskqueue.pause("a", by="me")
    taskqueue.register_worker(
        "w", "default", host="h", pid=1, version="1", processes=1, slots=8, queues=["d"], exclude=[]
    )
    travel(25)
    read = parse(metrics.scrape())
    due = {dict(labels)["queue"]: value for (_, labels), value in read[P + "due"].samples.items()}
    assert due == {"default": 0, "b": 5, "c": 4, OTHERS: 1 + 2 + 9}
    assert 25 <= read[P + "oldest_due_seconds"].value(queue=OTHERS) < 60
    assert read[P + "queue_paused"].value(queue=OTHERS) == 0, "most of them are not paused"
    assert read[P + "queue_workers"].value(queue=OTHERS) == 0, "one of them is not served"


def test_paused_queues_of_the_rest_raise_no_alarm(database, any_queue, travel):
    enqueue_to({"a": 1, "b": 5, "c": 4})
    travel(100)
    enqueue_to({"d": 2})
    taskqueue.pause("a", by="me")
    read = parse(metrics.scrape())
    assert read[P + "oldest_due_seconds"].value(queue=OTHERS) < 60
    taskqueue.pause("d", by="me")
    read = parse(metrics.scrape())
    assert read[P + "queue_paused"].value(queue=OTHERS) == 1
    assert read[P + "oldest_due_seconds"].value(queue=OTHERS) >= 100


def test_counters_that_are_not_named_are_summed_by_function_and_never_go_down(database, any_queue):
    def attempts() -> dict[tuple[str, str], float]:
        samples = parse(metrics.scrape())[P + "attempts_total"].samples
        return {
            (labels["queue"], labels["task"]): value
            for (_, pairs), value in samples.items()
            if (labels := dict(pairs))["outcome"] == "completed"
        }

    for queue in ("a", "b", "c", "d", "e", OTHERS):
        add_stats([Stat(queue, "f", completed=1, ran=(1, *[0] * 8))])
    add_stats([Stat("a", "g", completed=7)])
    before = attempts()
    assert before == {("a", "f"): 1, ("b", "f"): 1, ("c", "f"): 1, (OTHERS, "f"): 3, (OTHERS, OTHERS): 7}
    assert parse(metrics.scrape())[P + "run_seconds"].value("_count", queue=OTHERS, task="f") == 3
    add_stats([Stat("e", "f", completed=1000)])
    after = attempts()
    assert after == {**before, (OTHERS, "f"): 1003}, "the largest stays where it was counted"


def test_a_scrape_of_many_queues_is_bounded_in_lines(database, any_queue, monkeypatch):
    monkeypatch.setattr(snapshots, "MOST_NAMED", 20)
    enqueue_to({f"q{n:03}": 1 for n in range(300)})
    add_stats([Stat(f"q{n:03}", f"f{n % 30}", completed=1) for n in range(300)])
    lines = metrics.scrape().splitlines()
    assert len(lines) <= 6 * 21 + 25 * (20 + 21) + 40
    assert sum(line.startswith(f"{P}due{{") for line in lines) == 21


@pytest.mark.parametrize("limit", ["STATEMENT_SECONDS", "SNAPSHOT_SECONDS"])
def test_a_database_that_takes_too_long_costs_what_it_did_not_answer(database, tasks, monkeypatch, limit):
    """One statement that takes too long, or all together."""
    Task.objects.enqueue(plain.noop)
    assert parse(metrics.scrape())[P + "scrape_timeouts"].value() == 0
    if limit == "SNAPSHOT_SECONDS":
        monkeypatch.setattr(snapshots, limit, -1.0)
    else:
        slow = "SELECT pg_sleep(5)" if connections[database].vendor == "postgresql" else ENDLESS
        monkeypatch.setattr(snapshots, limit, 1.0)
        monkeypatch.setattr(snapshots, "SNAPSHOT_SECONDS", 1.0)
        monkeypatch.setattr(snapshots, "read_largest_queues", lambda *_: connections[database].cursor().execute(slow))
    read = parse(metrics.scrape())
    assert P + "due" not in read, "no figure rather than a wrong one"
    assert read[P + "workers"].value() == 0
    missing = {P + "retrying", P + "expired_leases"} - read.keys()
    if limit == "SNAPSHOT_SECONDS":
        unanswered = 6 if connections[database].vendor == "postgresql" else 5  # SQLite is not asked about a horizon
        assert (read[P + "scrape_timeouts"].value(), len(missing)) == (unanswered, 2)
    assert Task.objects.count() == 1, "the connection can be used afterwards"


ENDLESS = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"


def test_trouble_that_is_no_lack_of_time_is_raised(database, monkeypatch):
    def lost(*_arguments):
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(snapshots, "read_largest_queues", lost)
    with pytest.raises(OperationalError, match="server closed"):
        metrics.scrape()
