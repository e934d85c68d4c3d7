from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.db import connections

from django_tasks_retry.checks import check_database_settings, check_databases
from django_tasks_retry.compat import CORE_HAS_TASKS, InvalidTask, task_backends
from tests import tasks
from tests.router import CurrentDatabase

OURS = "django_tasks_retry.backend.RetryBackend"
E010 = "django_tasks_retry.E010"


def messages() -> dict[str, str]:
    found = task_backends["default"].check()
    assert all(message.hint for message in found)
    return {message.id: message.msg for message in found}


def test_a_default_configuration_has_nothing_to_complain_about(settings):
    settings.TASKS = {"default": {"BACKEND": OURS}}
    assert messages() == {}


def test_an_app_that_is_not_installed_is_an_error(settings):
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app not in {"django_tasks_retry", "tests"}]
    assert "not installed" in messages()["django_tasks_retry.E004"]


def test_an_unknown_option_is_an_error_with_a_suggestion(settings):
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"MAX_ATEMPTS": 3}}}
    assert "Did you mean 'MAX_ATTEMPTS'?" in messages()["django_tasks_retry.E005"]


def test_a_mistyped_queue_of_a_task_is_refused_with_the_right_name(settings):
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["default", "emails"]}}
    with pytest.raises(InvalidTask, match=r"Queue 'emials' .* has default, emails\. Did you mean 'emails'\?"):
        tasks.noop.using(queue_name="emials")


def test_sqlite_that_begins_its_transactions_deferred_is_a_warning_of_every_check(settings, monkeypatch):
    assert check_database_settings() == []
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", {})
    monkeypatch.setattr(CurrentDatabase, "current", "default")
    [warning] = check_database_settings()
    assert warning.id == "django_tasks_retry.W001"
    assert warning.hint == "Set DATABASES['default']['OPTIONS']['transaction_mode'] = 'IMMEDIATE'."


@pytest.mark.parametrize("queue", ["", "x" * 65, 7])
def test_a_name_that_no_queue_can_have_is_an_error(settings, queue):
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["default", queue]}}
    assert repr(queue) in messages()["django_tasks_retry.E006"]


@pytest.mark.skipif(not CORE_HAS_TASKS, reason="the backport is all there is before Django 6")
def test_the_backport_beside_the_real_thing_is_a_warning(settings, monkeypatch):
    from django.apps import apps

    monkeypatch.setattr(apps, "is_installed", lambda name: True)
    assert "beside" in messages()["django_tasks_retry.W004"]


def test_the_checks_run_with_all_others(settings, database):
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"MAX_ATEMPTS": 3}}}
    assert "django_tasks_retry.E005" in {message.id for message in run_checks()}


@pytest.mark.parametrize(
    ("encoding", "ids"), [("LATIN1", {E010}), ("SQL_ASCII", {E010}), ("UTF8", {"django_tasks_retry.W010"})]
)
def test_a_database_that_cannot_store_every_text_is_refused_before_it_has_tables(committed, encoding, ids):
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite stores Unicode")
    connection, name = connections[committed], f"dtr_{encoding.lower()}"
    place = dict(connection.settings_dict)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    try:
        connection.close()
        connection.settings_dict["NAME"] = name
        assert {message.id for message in check_databases([committed])} == ids
    finally:
        connection.close()
        connection.settings_dict.update(place)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")
