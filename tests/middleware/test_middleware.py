from __future__ import annotations

import asyncio
import sys
from contextvars import copy_context
from time import monotonic

import pytest
from django.core.checks import run_checks
from django.db import transaction

from django_tasks_retry import middleware
from django_tasks_retry.conf import options
from django_tasks_retry.errors import InvalidOptions, TaskTimeout
from django_tasks_retry.middleware import Layers, Middleware, hooks
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Completed, claim
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.pipeline import run_attempt, run_attempt_async
from django_tasks_retry.worker.child.process import run_hooks
from django_tasks_retry.worker.options import WorkerOptions
from django_tasks_retry.worker.startup import refuse_unsafe_start
from tests import tasks as plain
from tests.middleware import samples
from tests.middleware.samples import HERE

TWO = [HERE + "Telling", HERE + "TellingToo"]
FILE = middleware.__file__
ORDER = ["outer before {}", "inner before {}", "inner after", "outer after"]
WAYS = {
    "backend": lambda: plain.add.enqueue(1, 2),
    "manager": lambda: Task.objects.enqueue(plain.add, [1, 2]),
    "bulk": lambda: Task.objects.enqueue_many([(plain.add, [1, 2]), (plain.add, [3, 4])]),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_first_is_the_outermost_around_every_way_to_enqueue(database, configure, told, way):
    configure(MIDDLEWARE=TWO)
    WAYS[way]()
    stored = list(Task.objects.all())
    assert told == [word.format(len(stored)) for word in ORDER]
    assert all(task.metadata == {"outer": "default", "inner": "default"} for task in stored)


def test_metadata_of_the_caller_stays_and_reaches_the_attempt(database, configure, told, tasks):
    configure(MIDDLEWARE=TWO)
    Task.objects.enqueue(plain.noop, metadata={"by": "me"})
    [lease] = claim(tasks.worker_id)
    assert lease.metadata == {"by": "me", "outer": "default", "inner": "default"}


def test_a_retry_by_a_person_passes_through_too(database, configure, told, tasks):
    task = Task.objects.enqueue(plain.add, [1, 2])
    tasks.run_due()
    configure(MIDDLEWARE=[HERE + "Telling"])
    task.refresh_from_db()
    assert task.retry(by="me").metadata == {"outer": "default"}
    assert told == ["outer before 1", "outer after"]


def test_the_first_is_the_outermost_around_every_attempt(database, configure, told, tasks):
    Task.objects.enqueue(plain.add, [1, 2])
    configure(MIDDLEWARE=TWO)
    tasks.run_due()
    assert told == ["outer begins 1", "inner begins 1", "inner ends SUCCESS", "outer ends SUCCESS"]


def test_a_failure_passes_through_and_tells_whether_it_is_tried_again(database, configure, told, tasks):
    Task.objects.enqueue(plain.explode, max_attempts=2)
    configure(MIDDLEWARE=[HERE + "Telling"])
    tasks.run_until_idle()
    assert told == [
        "outer begins 1", "outer saw ValueError", "outer ends PENDING",
        "outer begins 2", "outer saw ValueError", "outer ends FAILED",
    ]  # fmt: skip


def test_what_an_attempt_was_told_is_what_is_recorded(database, configure, told, tasks):
    task = Task.objects.enqueue(plain.explode, max_attempts=2)
    configure(MIDDLEWARE=[HERE + "Endings"])
    tasks.run_due()
    task.refresh_from_db()
    [ending] = told
    assert (ending.status, ending.is_final, ending.is_failure) == (Status.PENDING, False, True)
    assert ending.fingerprint == task.fingerprint
    assert ending.error["backoff_ms"] == task.last_error["backoff_ms"] == round(ending.delay * 1000)


def test_an_error_of_the_insert_passes_through_and_cannot_be_swallowed(database, configure, told):
    configure(MIDDLEWARE=[HERE + "Telling", HERE + "Swallows"])
    with transaction.atomic(using=database):
        transaction.set_rollback(True, using=database)
        with pytest.raises(transaction.TransactionManagementError):
            Task.objects.enqueue(plain.add, [1, 2])
    assert told == ["outer before 1", "swallowed", "outer saw TransactionManagementError"]


@pytest.mark.fault("middleware_fails")
@pytest.mark.parametrize("name", ["RaisesAtOnce", "RaisesBefore", "RaisesAfter", "Swallows", "AddsNonsense"])
def test_middleware_that_fails_is_logged_and_fails_nothing(database, configure, told, tasks, caplog, name):
    configure(MIDDLEWARE=[HERE + "Telling", HERE + name, HERE + "TellingToo"])
    done, failed = Task.objects.enqueue(plain.add, [1, 2]), Task.objects.enqueue(plain.explode, max_attempts=1)
    tasks.run_due()
    done.refresh_from_db()
    failed.refresh_from_db()
    assert (done.status, failed.status) == (Status.SUCCESS, Status.FAILED)
    assert failed.last_error["exception"] == "builtins.ValueError"
    ends = [word for word in told if "ends" in str(word)]
    assert ends == ["inner ends SUCCESS", "outer ends SUCCESS", "inner ends FAILED", "outer ends FAILED"]
    assert name == "Swallows" or [r for r in caplog.records if r.name == "django_tasks_retry.middleware"]


@pytest.mark.fault("middleware_fails")
def test_metadata_that_cannot_be_stored_is_left_out(database, configure, caplog):
    configure(MIDDLEWARE=[HERE + "AddsNonsense"])
    task = Task.objects.enqueue(plain.noop, metadata={"by": "me"})
    assert task.metadata == {"by": "me"}
    assert "metadata['nonsense']" in caplog.text


def test_an_interruption_that_reaches_a_middleware_is_the_attempts_own():
    """A timeout is raised in the thread, wherever that stands."""
    told = []

    class Interrupted(Middleware):
        def attempt(self, attempt):
            raise TaskTimeout

    class Around(Middleware):
        def attempt(self, attempt):
            return Closing(told)

    layers = Layers([Around().attempt, Interrupted().attempt], None, lambda error: isinstance(error, TaskTimeout))
    with pytest.raises(TaskTimeout), layers:
        told.append("never")
    assert told == ["TaskTimeout"]


@pytest.mark.fault("middleware_fails")
def test_a_layer_that_was_not_entered_is_not_left(on):
    told = []

    class Unentered(Closing):
        def __enter__(self):
            raise ValueError

    with Layers([lambda _: Closing(told, "entered"), lambda _: Unentered(told, "unentered")], None):
        pass
    assert told == ["entered"]


class Closing:
    def __init__(self, told, name=""):
        self.told, self.name = told, name

    def __enter__(self):
        pass

    def __exit__(self, kind, *_):
        self.told.append(kind.__name__ if kind else self.name)


@pytest.mark.parametrize("function", [samples.see_inherited, samples.see_inherited_async])
def test_a_function_sees_what_middleware_set_in_its_thread_or_task(database, configure, told, tasks, function):
    Task.objects.enqueue(function)
    configure(MIDDLEWARE=TWO)
    [lease] = claim(tasks.worker_id)
    attempt = Attempt(lease, monotonic())
    is_async = function is samples.see_inherited_async
    outcome = asyncio.run(run_attempt_async(attempt)) if is_async else copy_context().run(run_attempt, attempt)
    assert outcome == Completed(lease, " outer inner")
    assert told == ["outer begins 1", "inner begins 1", "inner ends SUCCESS", "outer ends SUCCESS"]
    assert attempt.report is not None
    assert attempt.report.move.target is Status.SUCCESS


def test_an_empty_list_enters_no_function_and_makes_no_object(database, tasks, configure):
    configure(MIDDLEWARE=[HERE + "Idle"])
    Task.objects.enqueue(plain.add, [1, 2])  # what is found once a process is found
    [lease] = claim(tasks.worker_id)
    run_attempt(Attempt(lease, monotonic()))
    entered = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename == FILE:
            entered.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        Task.objects.enqueue(plain.add, [1, 2])
        run_attempt(Attempt(lease, monotonic()))
    finally:
        sys.setprofile(None)
    assert entered == []
    assert hooks("default", "enqueue") is hooks("default", "attempt") == ()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tests.middleware.nowhere.At", "cannot be used: ModuleNotFoundError"),
        (HERE + "Unmakable", "cannot be used: OSError: no socket"),
        (HERE + "NoMiddleware", "is no subclass of django_tasks_retry.middleware.Middleware"),
        (HERE + "HERE", "is no subclass"),
    ],
)
def test_what_cannot_be_middleware_is_refused_by_check_enqueue_and_worker(database, configure, path, words):
    configure(MIDDLEWARE=[path])
    [error] = [each for each in run_checks() if each.id == "django_tasks_retry.E007"]
    assert words in error.msg
    for verb in (lambda: Task.objects.enqueue(plain.noop), lambda: refuse_unsafe_start(WorkerOptions())):
        with pytest.raises(InvalidOptions, match="MIDDLEWARE"):
            verb()


@pytest.mark.parametrize("value", ["tests.middleware.samples.Telling", [1], {"a": 1}])
def test_a_value_that_is_no_list_of_paths_is_refused(configure, value):
    configure(MIDDLEWARE=value)
    with pytest.raises(InvalidOptions, match="give a list of the paths of classes"):
        options("default")


def test_middleware_learns_of_the_start_and_end_of_processes_though_another_fails(configure, told, caplog):
    configure(MIDDLEWARE=[HERE + "FailingLife", HERE + "Life"])
    names = ["worker_started", "child_started", "child_ending"]
    for name in names:
        run_hooks(name, "host:1", "default")
    assert told == [f"{name} host:1" for name in names]
    assert caplog.text.count("FailingLife") >= 3
