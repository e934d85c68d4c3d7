"""Every pair of features: one task uses both, and both keep their promise.

A feature is what it asks of the call (`options`), of the function (`deed`), of the queue before the run (`before`), and
what must be true afterwards (`holds`). The table of pairs is made from the list, so a new feature meets all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

import pytest

from django_tasks_retry import call, clock, taskqueue
from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.testing import Tasks
from django_tasks_retry.verify.audit import Audit, verify
from tests.pairs import tasks
from tests.schedules.steps import plan, row, runs

MINUTE = timedelta(minutes=1)
LATER = timedelta(hours=1)
DEED_ORDER = list(tasks.DEEDS)
"""A function that fails does so after its other deeds: the second attempt must not do them again."""


@dataclass
class Scene:
    """One task that uses both features, and the queue around it."""

    kit: Tasks
    task: Task
    began: datetime
    options: dict[str, Any]

    @property
    def events(self) -> list[TaskEvent]:
        return list(TaskEvent.objects.filter(task=self.task).order_by("id"))

    def finish(self) -> None:
        """Run until the task has ended. A rate makes tasks wait without an eta, so time goes on by the minute."""
        for _ in range(10):
            self.kit.run_until_idle()
            self.kit.advance(MINUTE)
        self.task.refresh_from_db()

    def starts(self) -> list[datetime]:
        return [event.ts for event in self.events if event.kind == "task.running"]


def nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Feature:
    options: dict[str, Any] = field(default_factory=dict)
    deed: str = ""
    before: Callable[[Scene], None] = nothing
    holds: Callable[[Scene], None] = nothing


def enqueue_another_in_its_queue(scene: Scene) -> None:
    Task.objects.enqueue(tasks.beside, queue="reports")


def starts_a_minute_apart(scene: Scene) -> None:
    in_queue = TaskEvent.objects.filter(kind="task.running", task__queue="reports").order_by("ts")
    starts = list(in_queue.values_list("ts", flat=True))
    assert all(later - earlier >= MINUTE for earlier, later in pairwise(starts))


def enqueue_a_second_in_its_lane(scene: Scene) -> None:
    Task.objects.enqueue(tasks.beside, lane="pairs")


def one_at_a_time_in_the_lane(scene: Scene) -> None:
    running = set()
    for event in TaskEvent.objects.filter(task__lane="pairs").order_by("id"):
        (running.add if event.kind == "task.running" else running.discard)(event.task_id)
        assert len(running) <= 1


def enqueue_a_successor(scene: Scene) -> None:
    Task.objects.enqueue(tasks.ordered_work, [[]])


def lives_do_not_overlap(scene: Scene) -> None:
    successor = Task.objects.filter(func_path=scene.task.func_path, run_id__gt=scene.task.run_id, interval=0).get()
    ended, other = scene.events[-1].ts, TaskEvent.objects.filter(task=successor).order_by("id")
    assert successor.status == "SUCCESS"
    assert other[0].ts >= ended or other.last().ts <= scene.starts()[0]


def ask_for_it_again(scene: Scene) -> None:
    again = Task.objects.enqueue(tasks.work, [["step"]], unique_key="pairs", queue=scene.task.queue)
    assert again.pk == scene.task.pk


def key_is_free_again(scene: Scene) -> None:
    holders = Task.objects.unfinished().filter(unique_key="pairs", queue=scene.task.queue)
    # The next occurrence of a series holds the key of the series.
    assert holders.count() == bool(scene.options.get("interval"))


def enqueue_one_that_expires(scene: Scene) -> None:
    taskqueue.pause("bulk")
    Task.objects.enqueue(tasks.beside, queue="bulk", expires=LATER)


def other_has_expired(scene: Scene) -> None:
    other = Task.objects.get(queue="bulk", deadline_at=None)
    scene.kit.advance(LATER * 4)
    taskqueue.expire()
    other.refresh_from_db()
    assert (other.status, other.attempts) == ("CANCELLED", 0)


def enqueue_one_with_a_deadline(scene: Scene) -> None:
    taskqueue.pause("bulk")
    Task.objects.enqueue(tasks.beside, queue="bulk", deadline=LATER)


def other_is_late(scene: Scene) -> None:
    other = Task.objects.get(queue="bulk", deadline_at__isnull=False)
    scene.kit.advance(LATER * 4)
    taskqueue.expire()
    reasons = TaskEvent.objects.filter(task=other).values_list("data__reason", flat=True)
    assert list(reasons) == ["its deadline has passed"]
    members = Task.objects.filter(parent=scene.task)
    assert all(member.deadline_at == scene.task.deadline_at for member in members)


def throttled_again(scene: Scene) -> Task:
    options = {name: scene.options[name] for name in ("unique_key", "unique_for")}
    return Task.objects.enqueue(tasks.work, [["step"]], queue=scene.task.queue, **options)


def ask_for_it_again_in_its_time(scene: Scene) -> None:
    assert throttled_again(scene).pk == scene.task.pk


def key_is_still_taken(scene: Scene) -> None:
    holder = throttled_again(scene)
    # The next occurrence of a series holds the key of the series.
    assert holder.already_enqueued
    assert holder.pk == scene.task.pk or scene.options.get("interval")


def first_start_is_not_early(scene: Scene) -> None:
    assert scene.starts()[0] >= scene.began + MINUTE


def next_occurrence_waits(scene: Scene) -> None:
    following = Task.objects.unfinished().get(func_path=scene.task.func_path, interval=LATER.total_seconds())
    assert (following.status, following.lane, following.queue) == ("PENDING", scene.task.lane, scene.task.queue)
    assert following.eta > clock.now(scene.kit.using)


def tick_a_schedule(scene: Scene) -> None:
    plan(task=tasks.part, every=MINUTE, args=[7], ends_at=clock.now(scene.kit.using) + 1.5 * MINUTE)
    scene.kit.advance(MINUTE)


def slot_is_done(scene: Scene) -> None:
    assert [run.status for run in runs()] == ["SUCCESS"]
    assert (row().last_outcome, tasks.effects.count("part 7")) == ("enqueued", 1)


def pause_and_resume(scene: Scene) -> None:
    taskqueue.pause(scene.task.queue)
    scene.kit.advance(MINUTE)
    assert scene.kit.run_due([scene.task.queue]) == []
    taskqueue.resume(scene.task.queue)


def send_the_signal(scene: Scene) -> None:
    scene.kit.run_until_idle()
    scene.task.refresh_from_db()
    assert scene.task.status == "PENDING"
    taskqueue.signal("paid")


def slept_for_a_minute(scene: Scene) -> None:
    starts = scene.starts()
    assert starts[-1] - starts[0] >= MINUTE


def done_once(*names: str) -> Callable[[Scene], None]:
    def check(scene: Scene) -> None:
        assert [tasks.effects.count(name) for name in names] == [1] * len(names)

    return check


def second_attempt_succeeded(scene: Scene) -> None:
    assert [event.kind for event in scene.events].count("task.failed") == 1


THROTTLE = {"unique_key": "throttled", "unique_for": timedelta(days=7)}


def fail_one_that_asks(scene: Scene) -> None:
    Task.objects.enqueue(tasks.fails, queue="emails", on_failure=call(tasks.beside).immutable())


def it_is_followed_up_once(scene: Scene) -> None:
    scene.kit.run_due(["emails"])
    failed = Task.objects.get(queue="emails", status="FAILED")
    assert [follower.status for follower in Task.objects.filter(parent=failed)] == ["SUCCESS"]
    assert not Task.objects.filter(parent=scene.task, func_path=failed.children.get().func_path).exists()


FEATURES = {
    "rate": Feature({"queue": "reports"}, "", enqueue_another_in_its_queue, starts_a_minute_apart),
    "lane": Feature({"lane": "pairs"}, "", enqueue_a_second_in_its_lane, one_at_a_time_in_the_lane),
    "strict order": Feature({}, "", enqueue_a_successor, lives_do_not_overlap),
    "unique key": Feature({"unique_key": "pairs"}, "", ask_for_it_again, key_is_free_again),
    "expiry": Feature({"expires": LATER}, "", enqueue_one_that_expires, other_has_expired),
    "deadline": Feature({"deadline": LATER * 6}, "", enqueue_one_with_a_deadline, other_is_late),
    "throttle": Feature(THROTTLE, "", ask_for_it_again_in_its_time, key_is_still_taken),
    "on_failure": Feature(
        {"on_failure": call(tasks.beside).immutable()}, "", fail_one_that_asks, it_is_followed_up_once
    ),
    "eta": Feature({"eta": MINUTE}, "", nothing, first_start_is_not_early),
    "interval": Feature({"interval": LATER}, "", nothing, next_occurrence_waits),
    "schedule": Feature({}, "", tick_a_schedule, slot_is_done),
    "pause": Feature({}, "", pause_and_resume),
    "step": Feature({}, "step", nothing, done_once("step")),
    "gather": Feature({}, "gather", nothing, done_once("part 1", "part 2")),
    "sleep": Feature({}, "sleep", nothing, slept_for_a_minute),
    "signal": Feature({}, "signal", send_the_signal),
    "retry": Feature({}, "retry", nothing, second_attempt_succeeded),
}


@pytest.fixture(autouse=True)
def limited(configure: Any) -> None:
    configure(LANES={"queue:reports": {"rate": (1, 60)}, "pairs": {"concurrency": 1}})
    tasks.effects.clear()


@pytest.fixture
def kit(database: str) -> Iterator[Tasks]:
    kit = Tasks()
    yield kit
    kit.close()


def audited(using: str) -> Audit:
    *_, audit = verify(using, lease=60.0)
    return audit


REFUSED = [("expiry", "interval"), ("deadline", "interval")]
"""An occurrence that is cancelled would end its series."""
THE_SAME = [("lane", "strict order"), ("unique key", "throttle")]
"""Strict order is a lane: a task has one, and a limit of one belongs to it. A throttle is a unique key."""
PAIRS = [pair for pair in combinations(FEATURES, 2) if pair not in REFUSED + THE_SAME]


@pytest.mark.parametrize("pair", REFUSED, ids=" and ".join)
def test_two_features_that_exclude_each_other_are_refused(pair: tuple[str, str], kit: Tasks):
    options = FEATURES[pair[0]].options | FEATURES[pair[1]].options
    with pytest.raises(InvalidCall, match=r"Use a schedule"):
        Task.objects.enqueue(tasks.work, [[]], **options)


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_features_keep_their_promises_together(pair: tuple[str, str], kit: Tasks):
    features = [FEATURES[name] for name in pair]
    options = {name: value for feature in features for name, value in feature.options.items()}
    deeds = sorted((feature.deed for feature in features if feature.deed), key=DEED_ORDER.index)
    function = tasks.ordered_work if "strict order" in pair else tasks.work
    began = clock.now(kit.using)
    scene = Scene(kit, Task.objects.enqueue(function, [deeds], **options), began, options)
    for feature in features:
        feature.before(scene)
    scene.finish()
    assert (scene.task.status, scene.task.outcome.result) == ("SUCCESS", "done")
    for feature in features:
        feature.holds(scene)
    assert [breach.text for breach in audited(kit.using).breaches] == []
