"""OPTIONS that cannot be understood: found by the system checks, each with the key that is wrong."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.test import override_settings

from django_tasks_retry import registry
from django_tasks_retry.checks import check_backoff_schedules, check_command_name, task_databases
from django_tasks_retry.compat import task_backends
from django_tasks_retry.conf import KEYS, options, read_options
from django_tasks_retry.errors import InvalidOptions
from django_tasks_retry.rules.backoff import FixedDelays
from django_tasks_retry.rules.policy import RetryPolicy
from tests import tasks

BACKEND = "django_tasks_retry.backend.RetryBackend"


def found(**raw):
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": raw}}):
        # As the system check of the tasks framework asks each backend.
        return [message for message in task_backends["default"].check() if message.id == "django_tasks_retry.E005"]


def test_no_options_are_fine():
    assert found() == []


def test_an_unknown_key_gets_a_suggestion():
    [error] = found(MAX_ATTEMPS=3)
    assert error.msg == "TASKS['default']['OPTIONS'] has the unknown key 'MAX_ATTEMPS'. Did you mean 'MAX_ATTEMPTS'?"


def test_an_unknown_key_without_likeness():
    [error] = found(COLOUR="red")
    assert error.msg == "TASKS['default']['OPTIONS'] has the unknown key 'COLOUR'."


@pytest.mark.parametrize(
    ("key", "value", "keys"),
    [
        ("COLOUR", "red", "BACKLOG, "),
        ("BACKLOG", {"emails": {"most": 5}}, "An entry has the keys max_pending."),
        ("LANES", {"tenant-*": {"most": 5}}, "An entry has the keys concurrency, rate, "),
    ],
)
def test_the_hint_lists_the_keys_of_the_level_that_is_wrong(key, value, keys):
    [error] = found(**{key: value})
    assert keys.lower() in error.hint.lower()
    assert ("MAX_ATTEMPTS" in error.hint) == (key == "COLOUR")


@pytest.mark.parametrize(("old", "new"), [("PATIENCE", "PRIORITY_AGING"), ("LOG_LINES", "ATTEMPT_LOG_LINES")])
def test_an_option_that_was_renamed_is_answered_with_its_name(old, new):
    with pytest.raises(InvalidOptions, match=f"unknown key '{old}'. It is called '{new}'."):
        read_options({old: 10}, "default")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DATABASE", "nowhere"),
        ("LEASE", 0.1),
        ("LEASE", 100_000),
        ("LEASE", "60"),
        ("MAX_ATTEMPTS", 0),
        ("MAX_ATTEMPTS", "5"),
        ("TIMEOUT", -1),
        ("TIMEOUT", float("nan")),
        ("RETRY_BASE", -1),
        ("RETRY_BASE", "1.5"),
        ("RETRY_CAP", 0.1),
        ("RETRY_FACTOR", 0),
        ("RETRY_JITTER", 1.5),
        ("MAX_ARGS_SIZE", 0),
        ("MAX_ARGS_SIZE", 2**40),
        ("MAX_RESULT_SIZE", 1.5),
        ("KEEP_SUCCESS", 0),
        ("KEEP_FAILED", -1),
        ("KEEP_CANCELLED", "week"),
    ],
)
def test_a_value_that_makes_no_sense(key, value):
    [error] = found(**{key: value})
    assert (key in error.msg) or (key.startswith("RETRY_") and key.removeprefix("RETRY_").lower() in error.msg)
    with pytest.raises(InvalidOptions):
        read_options({key: value}, "default")


def test_every_key_is_a_name_in_capitals():
    assert all(key == name.upper() for key, name in KEYS.items())


def test_an_unknown_backend_gets_a_suggestion():
    with pytest.raises(InvalidOptions, match=r"TASKS has no backend 'defualt'\. Did you mean 'default'\?"):
        options("defualt")


def test_options_follow_the_settings():
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"LEASE": 7}}}):
        assert options().lease == 7
    assert options().lease == 60


def test_the_guard_is_looked_for_in_every_database_that_holds_tasks():
    with override_settings(
        TASKS={
            "default": {"BACKEND": BACKEND},
            "far": {"BACKEND": BACKEND, "OPTIONS": {"DATABASE": "postgresql"}},
            "broken": {"BACKEND": BACKEND, "OPTIONS": {"DATABSE": "x"}},
            "other": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
        }
    ):
        assert task_databases() == {"default", "postgresql"}


@pytest.mark.parametrize(("max_attempts", "warned"), [(None, False), (3, True), (4, False), (9, False)])
def test_delays_that_no_attempt_reaches_are_a_warning(monkeypatch, max_attempts, warned):
    policy = RetryPolicy(backoff=FixedDelays((300, 900, 3600)), max_attempts=max_attempts)
    registry.known_paths()
    monkeypatch.setattr(tasks.scheduled.func, "retry_policy", policy)
    warnings = [message for message in check_backoff_schedules() if "tests.tasks.scheduled" in message.msg]
    assert [message.id for message in warnings] == ["django_tasks_retry.W003"] * warned


def test_a_second_command_of_the_same_name_is_warned_of(monkeypatch):
    monkeypatch.setattr(apps, "is_installed", lambda name: name == "channels")
    [message] = check_command_name()
    assert message.id == "django_tasks_retry.W005"
    assert "INSTALLED_APPS" in message.msg
