"""Wrong names are refused with the right ones, and backends are known by their class."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.backend import RetryBackend
from django_tasks_retry.checks import task_databases
from django_tasks_retry.compat import Task as DjangoTask
from django_tasks_retry.conf import configured_backends
from django_tasks_retry.errors import UnknownBackend, UnknownQueue
from django_tasks_retry.models import Queue, Task
from django_tasks_retry.worker.options import WorkerOptions
from django_tasks_retry.worker.startup import prepare_connections, refuse_unsafe_start
from tests import tasks
from tests.steps import enqueue

DUMMY = f"{DjangoTask.__module__.partition('.base')[0]}.backends.dummy.DummyBackend"


class Tenants(RetryBackend):
    """As a project may have it."""


@pytest.fixture
def with_dummy(settings):
    settings.TASKS = settings.TASKS | {"dummy": {"BACKEND": DUMMY}}


def test_a_subclass_is_one_of_our_backends(settings):
    ours = settings.TASKS["default"]
    settings.TASKS = {
        "default": ours,
        "tenants": {"BACKEND": f"{__name__}.Tenants", "OPTIONS": {"DATABASE": "postgresql"}},
        "dummy": {"BACKEND": DUMMY},
        "missing": {"BACKEND": "django_tasks_retry.nowhere.Backend"},
        "no class": {"BACKEND": "os.path.join"},
    }
    assert configured_backends() == ("default", "tenants")
    assert task_databases() == {"default", "postgresql"}


def test_tasks_of_a_subclass_are_enqueued(database, settings):
    settings.TASKS = settings.TASKS | {"tenants": {"BACKEND": f"{__name__}.Tenants"}}
    assert Task.objects.enqueue(tasks.noop.using(backend="tenants")).backend == "tenants"


@pytest.mark.fault("mistyped_and_foreign_names")
def test_a_task_of_a_foreign_backend_is_not_stored(database, with_dummy):
    with pytest.raises(UnknownBackend, match=rf"TASKS\['dummy'\] is {DUMMY}, not a RetryBackend\. .* by 'default'"):
        Task.objects.enqueue(tasks.noop.using(backend="dummy"))
    with pytest.raises(UnknownBackend, match=r"TASKS has no backend 'defualt'.*Did you mean 'default'"):
        Task.objects.enqueue(tasks.noop, backend="defualt")
    assert not Task.objects.exists()


@pytest.mark.fault("mistyped_and_foreign_names")
def test_one_request_may_send_a_task_of_a_foreign_backend_to_ours(database, with_dummy):
    assert Task.objects.enqueue(tasks.noop.using(backend="dummy"), backend="default").backend == "default"


@pytest.mark.fault("mistyped_and_foreign_names")
@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("dummy", "not a RetryBackend. Tasks are kept by 'default'."),
        ("defualt", "TASKS has no backend 'defualt'. Tasks are kept by 'default'. Did you mean 'default'?"),
    ],
)
def test_a_worker_is_not_started_for_a_backend_that_is_not_ours(database, with_dummy, backend, words):
    with pytest.raises(UnknownBackend) as refused:
        prepare_connections(WorkerOptions(backend=backend))
    assert words in str(refused.value)


@pytest.mark.fault("mistyped_and_foreign_names")
def test_a_worker_says_what_to_write_where_no_backend_is_ours(database, settings):
    settings.TASKS = {"default": {"BACKEND": DUMMY}}
    with pytest.raises(UnknownBackend, match=r"add TASKS = .*RetryBackend"):
        prepare_connections(WorkerOptions())


@pytest.mark.fault("mistyped_and_foreign_names")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": ("emials",)}, "Did you mean 'emails'?"),
        ({"queues": ("default", "emial*")}, "'emial*' matches no queue of TASKS['default']['QUEUES']"),
        ({"exclude": ("blk",)}, "Did you mean 'bulk'?"),
    ],
)
def test_a_worker_is_not_started_for_queues_that_are_not_there(database, options, words):
    with pytest.raises(UnknownQueue) as refused:
        refuse_unsafe_start(WorkerOptions(**options))
    assert words in str(refused.value)


@pytest.mark.parametrize("queues", [("*",), ("em*", "bulk"), ("[de]*",)])
def test_a_worker_is_started_for_queues_that_are(database, queues):
    refuse_unsafe_start(WorkerOptions(queues=queues))


@pytest.mark.fault("mistyped_and_foreign_names")
def test_a_mistyped_queue_is_not_paused(database):
    with pytest.raises(UnknownQueue, match="Did you mean 'default'"):
        taskqueue.pause("defualt")
    assert not Queue.objects.exists()


@pytest.mark.fault("mistyped_and_foreign_names")
def test_a_queue_that_has_left_the_settings_is_paused_and_served_while_tasks_wait_there(database, settings):
    enqueue(queue="bulk")
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": ["default"]}}
    taskqueue.pause("bulk")
    refuse_unsafe_start(WorkerOptions(queues=("bulk",)))
    assert Queue.objects.paused().get().name == "bulk"


def test_where_no_queues_are_listed_any_name_will_do(database, settings):
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    taskqueue.pause("anything")
    assert Queue.objects.paused().get().name == "anything"
