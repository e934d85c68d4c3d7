"""Shell, console and metrics take no alias: they find the shard of a task, or ask all of them."""

from __future__ import annotations

import io
from http import HTTPStatus
from types import SimpleNamespace

import pytest
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.management import call_command
from django.test import RequestFactory
from django.urls import resolve, reverse

from django_tasks_retry import checks
from django_tasks_retry.metrics import scrape
from django_tasks_retry.models import Shard, Task
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.shards.conftest import GONE, NAMES


@pytest.fixture
def stored(sharded):
    """One task in each shard."""
    found = {}
    while len(found) < len(NAMES):
        task = Task.objects.enqueue(tasks.add, (1, 2))
        found[task._state.db] = task
    return found


def shell(*words):
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        call_command("tasks", *words, stdout=out, stderr=err)
    except SystemExit as exit_:
        code = exit_.code
    return out.getvalue(), err.getvalue(), code


class User(SimpleNamespace):
    pk = id = 1
    is_active = is_staff = is_authenticated = True
    is_anonymous = False

    def get_username(self):
        return "admin"

    def has_perm(self, *_):
        return True

    has_module_perms = has_perm


def page(name, *args, shard="", session=None):
    address = reverse(f"admin:django_tasks_retry_{name}", args=args)
    request = RequestFactory().get(address, {"shard": shard} if shard else {})
    request.user, request.session, request._messages = (
        User(),
        {} if session is None else session,
        CookieStorage(request),
    )
    found = resolve(address)
    return found.func(request, *found.args, **found.kwargs)


def test_the_shell_lists_shows_and_cancels_tasks_of_all_shards(stored):
    listed = shell("list", "--ids", "-n", "0")[0].split()
    assert {str(task.pk) for task in stored.values()} <= set(listed)
    for name, task in stored.items():
        assert str(task.pk) in shell("show", str(task.pk))[0]
        [named] = shell("list", "--shard", name, "--ids", str(task.pk))[0].split()
        assert named == str(task.pk)
    assert shell("cancel", "status:pending", "--reason", "over", "--yes")[2] == 0
    assert not any(Task.objects.using(name).exclude(status=Status.CANCELLED).exists() for name in NAMES)


def test_the_shell_answers_for_the_others_and_names_who_does_not(stored, sharded):
    sharded("q0", "q1", GONE)
    out, err, code = shell("list", "--ids", "-n", "0")
    assert str(stored["q1"].pk) in out
    assert GONE in err
    assert code == 69
    assert "away" in shell("shards")[0]
    _, err, code = shell("show", str(stored["q2"].pk))
    assert err.startswith(f"The shard {GONE!r} does not answer.")
    assert code == 5


def test_a_shard_is_drained_only_after_a_yes(stored):
    assert shell("shards", "drain", "q1")[2] == 2
    assert not Shard.objects.using("q0").get(name="q1").is_draining
    assert shell("shards", "drain", "q1", "--yes", "--wait", "0")[2] == 0
    assert "takes no new work" in shell("shards")[0]


def test_metrics_have_the_shard_as_a_label(stored, sharded):
    sharded("q0", "q1", GONE)
    text = scrape()
    assert 'django_tasks_due{queue="default",shard="q1"}' in text
    assert f'django_tasks_shard_up{{shard="{GONE}"}} 0' in text
    assert text.count("# TYPE django_tasks_due ") == 1


def test_the_console_finds_the_shard_of_a_task_and_lists_the_one_that_was_chosen(stored):
    session = {}
    for name, task in stored.items():
        assert str(task.pk) in page("task_change", task.pk).content.decode()
        assert page("task_changelist", shard=name, session=session).status_code == HTTPStatus.FOUND
        content = page("task_changelist", session=session).content.decode()
        assert str(task.pk) in content
        assert not any(str(other.pk) in content for other in stored.values() if other is not task)
        assert all(f"?shard={each}" in content for each in NAMES)


def test_the_console_says_which_shard_does_not_answer(stored, sharded):
    sharded("q0", "q1", GONE)
    away = page("task_change", stored["q2"].pk)
    assert away.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert GONE in away.content.decode()
    assert page("overview_changelist").status_code == HTTPStatus.OK


def test_another_order_of_shards_is_an_error_of_the_checks(stored, sharded):
    assert not list(checks.check_shards("q0"))
    sharded("q1", "q0", "q2")
    assert {found.id for found in checks.check_shards("q0")} == {"django_tasks_retry.E011"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"SHARDS": ["q0", "nowhere"]}, "not an alias"),
        ({"SHARDS": ["default", "q0"]}, "SQLite"),
        ({"SHARDS": ["q0", "q0"]}, "each of them once"),
        ({"SHARDS": ["q0", "q1"], "DATABASE": "q0"}, "leave DATABASE"),
    ],
)
def test_shards_that_cannot_be_are_errors_of_the_checks(sharded, settings, options, said):
    from django_tasks_retry.compat import task_backends

    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}
    [found] = [each for each in task_backends["default"].check() if each.id == "django_tasks_retry.E005"]
    assert said in found.msg


def test_shards_without_a_deadline_for_producers_are_a_warning(sharded):
    assert [each.id for each in checks.check_enqueue_timeout()] == ["django_tasks_retry.W011"]
    sharded(ENQUEUE_TIMEOUT=1)
    assert checks.check_enqueue_timeout() == []
