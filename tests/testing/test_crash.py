from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.core import mail

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from tests import tasks as plain
from tests.backend import samples

CHARGED: list[int] = []


@pytest.fixture(autouse=True)
def _forget():
    CHARGED.clear()


@task
def charge(order_id: int) -> None:
    CHARGED.append(order_id)


@task
def charge_once(order_id: int) -> None:
    if order_id not in CHARGED:
        CHARGED.append(order_id)


@task
def count_group(name: str) -> None:
    Group.objects.create(name=f"{name} {Group.objects.count()}")


@task
@retry(atomic=True)
def count_group_atomically(name: str) -> None:
    Group.objects.create(name=f"{name} {Group.objects.count()}")


@task
@retry(atomic=True)
def mail_atomically() -> None:
    mail.outbox.append(mail.EmailMessage("subject"))


def test_a_task_that_adds_a_row_each_time_is_not_idempotent(database, tasks):
    report = tasks.crash(count_group, "a")
    assert not report.idempotent
    assert (report.before["mails"], report.after_crash["auth.Group"], report.after_recovery["auth.Group"]) == (0, 1, 2)
    assert report.history == ["lost", "lost", "successful"]
    assert "not idempotent: the second run changed what the first had done" in str(report)


def test_a_task_that_looks_before_it_adds_is_idempotent(database, tasks):
    report = tasks.crash(samples.get_or_add_group, "a")
    assert report.idempotent, report
    assert "the crash left no trace" in str(report)


def test_an_atomic_task_is_undone_by_the_crash(database, tasks):
    report = tasks.crash(count_group_atomically, "a")
    assert report.idempotent, report
    assert report.after_crash == report.before
    assert report.after_recovery["auth.Group"] == 1


def test_an_atomic_task_cannot_take_back_a_mail(database, tasks):
    report = tasks.crash(mail_atomically)
    assert not report.idempotent
    assert (report.after_crash["mails"], report.after_recovery["mails"]) == (1, 2)


def test_a_second_run_that_fails_is_reported(database, tasks):
    report = tasks.crash(samples.add_group, "a")
    assert not report.idempotent
    assert "IntegrityError" in report.verdict
    assert report.history == ["lost", "lost", "failed"]


@pytest.mark.parametrize(("task", "idempotent"), [(charge, False), (charge_once, True)])
def test_effects_elsewhere_are_observed_by_the_tests_own_function(database, tasks, task, idempotent):
    report = tasks.crash(task, order_id=7, observe=lambda: list(CHARGED))
    assert report.idempotent is idempotent
    assert report.before == []


def test_a_task_without_an_observed_effect_is_told_so(database, tasks):
    report = tasks.crash(charge, 7)
    assert not report.observed
    assert "pass observe=" in str(report)


def test_a_task_that_fails_by_itself_cannot_be_crashed(database, tasks):
    with pytest.raises(AssertionError, match=r"explode cannot be crashed.*ValueError\('boom'\)"):
        tasks.crash(plain.explode)


def test_other_due_tasks_do_not_get_in_the_way(database, tasks):
    plain.noop.enqueue()
    assert tasks.crash(samples.get_or_add_group, "a").idempotent
