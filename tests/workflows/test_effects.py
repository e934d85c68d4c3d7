"""Effects: intended before, recorded after, unknown in between, and never repeated without a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError

from django_tasks_retry import retry, taskqueue
from django_tasks_retry.compat import task
from django_tasks_retry.display.problems import find_problems
from django_tasks_retry.display.scope import current_scope, read_standing
from django_tasks_retry.errors import IllegalMove, InvalidCall
from django_tasks_retry.models import OperatorEvent, Signal, Step, Task
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.workflows import answer_effect, unknown_effects
from django_tasks_retry.testing import Tasks
from django_tasks_retry.testing.crash import Killed, lose_the_worker, run_or_die
from tests.admin.conftest import _shop, operator, session_with  # noqa: F401
from tests.cli.conftest import tasks_command
from tests.steps import now_of
from tests.workflows.test_faults import Disturbed

provider: dict[str, str] = {}
"""The books of a payment provider, by key."""
charges: list[str] = []
trouble: list[Callable[[str], None]] = []
"""Called once, in the middle of the next charge."""


@pytest.fixture(autouse=True)
def _provider() -> None:
    provider.clear()
    charges.clear()
    trouble.clear()


def charge(key: str) -> str:
    charges.append(key)
    for each in trouble[:]:
        trouble.remove(each)
        each(key)
    provider[key] = f"receipt {len(charges)}"
    return provider[key]


async def acharge(key: str) -> str:
    return charge(key)


async def afind(key: str) -> str | None:
    return provider.get(key)


@task(takes_context=True)
@retry(backoff=[1] * 9)
def pay(context: Any, order: int, how: str = "ask") -> str:
    resolve = provider.get if how == "resolve" else None
    unknown = "ask" if how == "resolve" else how
    return context.effect("charge", charge, f"order-{order}", key=f"order-{order}", resolve=resolve, unknown=unknown)


@task(takes_context=True)
@retry(backoff=[1])
async def apay(context: Any, order: int) -> str:
    return await context.aeffect("charge", acharge, f"order-{order}", key=f"order-{order}", resolve=afind)


@task(takes_context=True)
def pay_group(context: Any, name: str, how: str) -> None:
    """The database stands for the provider, so that the kit can take it back."""
    resolve = {"resolve": lambda key: True if Group.objects.filter(name=key).exists() else None}.get(how)
    unknown = how if how in ("repeat", "ask") else "ask"
    context.effect("group", lambda: Group.objects.create(name=f"{name}{Group.objects.count()}") and None,
                   key=f"{name}0", resolve=resolve, unknown=unknown)  # fmt: skip


@task(takes_context=True)
@retry(atomic=True)
def pay_in_a_transaction(context: Any) -> None:
    context.effect("charge", charge, "x")


def before_it_is_booked(_key: str) -> None:
    raise ConnectionError("no answer")


def after_it_is_booked(key: str) -> None:
    provider[key] = "receipt 1"
    raise ConnectionError("no answer")


def steps() -> list[tuple[str, str]]:
    return list(Step.objects.order_by("pk").values_list("name", "kind"))


def test_an_intent_is_written_before_the_call_and_the_outcome_after(harness):
    seen: list[Any] = []
    trouble.append(lambda _key: seen.extend(steps()))
    Task.objects.enqueue(pay, [1])
    [result] = harness.run_until_idle()
    assert seen == [("charge:intent-1", "intent")]
    assert steps() == [("charge:intent-1", "intent"), ("charge", "effect")]
    assert result.return_value == "receipt 1"


def test_what_is_recorded_is_not_called_again(harness):
    stored = Task.objects.enqueue(pay, [1])
    harness.run_until_idle()
    retried = Task.objects.get(pk=stored.pk).retry(resume=True)
    harness.run_until_idle()
    assert now_of(retried).status == Status.SUCCESS
    assert charges == ["order-1"]


@pytest.mark.parametrize(("when", "calls"), [(before_it_is_booked, 2), (after_it_is_booked, 1)])
def test_resolve_is_asked_first_and_the_call_repeated_only_if_it_did_not_happen(harness, when, calls):
    trouble.append(when)
    stored = Task.objects.enqueue(pay, [1, "resolve"])
    harness.run_until_idle()
    assert now_of(stored).status == Status.SUCCESS
    assert len(charges) == calls
    intents = Step.objects.filter(kind="intent").order_by("pk").values_list("result__because", flat=True)
    assert list(intents) == ["", "resolve"][:calls]


@pytest.mark.parametrize(("how", "calls", "result"), [("repeat", 2, "receipt 2"), ("skip", 1, None)])
def test_a_policy_decides_where_nobody_can_be_asked(harness, how, calls, result):
    trouble.append(before_it_is_booked)
    stored = Task.objects.enqueue(pay, [1, how])
    harness.run_until_idle()
    assert (now_of(stored).outcome.result, len(charges)) == (result, calls)


def test_by_default_the_task_stops_and_asks_a_person(harness):
    trouble.append(after_it_is_booked)
    stored = Task.objects.enqueue(pay, [1])
    harness.run_until_idle()
    assert now_of(stored).status == Status.PENDING
    [unknown] = unknown_effects(harness.using)
    assert (unknown.task.pk, unknown.name, unknown.key, unknown.is_asked) == (stored.pk, "charge", "order-1", True)
    answer_effect(
        now_of(stored), "charge", happened=True, result="found it", by="ann", reason="in the books", backend="default"
    )
    harness.run_until_idle()
    assert now_of(stored).outcome.result == "found it"
    assert charges == ["order-1"]
    assert unknown_effects(harness.using) == []
    event = OperatorEvent.objects.get(kind="effect.answered")
    assert (event.subject, event.actor, event.reason) == (str(stored.pk), "ann", "in the books")
    assert Signal.objects.get().actor == "ann"


def test_a_signal_that_says_neither_is_no_answer(harness):
    trouble.append(after_it_is_booked)
    stored = Task.objects.enqueue(pay, [1])
    harness.run_until_idle()
    taskqueue.signal(now_of(stored).waits_for.removeprefix("signal:"), {"approved": True}, by="ann")
    harness.run_until_idle()
    assert (now_of(stored).status, charges) == (Status.FAILED, ["order-1"])
    assert [unknown.task.pk for unknown in unknown_effects(harness.using)] == [stored.pk]


def test_an_answer_is_for_one_intent_alone(harness):
    stored = Task.objects.enqueue(pay, [1])
    for _time in range(2):
        trouble.append(before_it_is_booked)
        harness.run_until_idle()
        answer_effect(now_of(stored), "charge", happened=False, by="ann", reason="not in the books", backend="default")
        with pytest.raises(IllegalMove, match="answered before"):
            answer_effect(now_of(stored), "charge", happened=True, by="bob", reason="?", backend="default")
    harness.run_until_idle()
    assert now_of(stored).outcome.result == "receipt 3"
    with pytest.raises(IllegalMove, match="asks nobody"):
        answer_effect(now_of(stored), "charge", happened=True, by="ann", reason="late", backend="default")


def test_coroutines_have_the_same(harness):
    trouble.append(after_it_is_booked)
    stored = Task.objects.enqueue(apay, [1])
    harness.run_until_idle()
    assert (now_of(stored).outcome.result, charges) == ("receipt 1", ["order-1"])
    assert asyncio.iscoroutinefunction(acharge)


def test_mistakes_are_told(harness):
    stored = [
        Task.objects.enqueue(pay_in_a_transaction, max_attempts=1),
        Task.objects.enqueue(pay, [1, "perhaps"], max_attempts=1),
    ]
    harness.run_until_idle()
    told = [now_of(each).last_error["message"] for each in stored]
    assert "stands in a transaction" in told[0]
    assert "unknown='perhaps': give one of ask, repeat, skip." in told[1]
    assert charges == []
    assert InvalidCall.__name__ in now_of(stored[1]).last_error["exception"]


@pytest.mark.parametrize("how", ["resolve", "ask", "repeat"])
def test_the_kit_kills_between_the_intent_and_the_outcome(harness, how):
    report = harness.check_idempotent(pay_group, "g", how, observe=Group.objects.count)
    before = [crash for crash in report.crashes if crash.place.startswith("before")]
    assert before, report
    assert report.idempotent == (how != "repeat"), report
    assert any(crash.is_asked for crash in report.crashes) == (how == "ask")
    assert ("A person was asked" in str(report)) == (how == "ask")
    assert not Task.objects.exists()


@pytest.mark.parametrize("when", ["before", "after", "killed"])
def test_it_is_called_once_for_each_reason_wherever_a_statement_fails(committed, when):
    """At every statement of the attempt: each call beyond the first has an intent that says why."""
    harness = Tasks()
    nth = seen = 0
    while seen >= nth:
        nth += 1
        charges.clear()
        provider.clear()
        stored = Task.objects.enqueue(pay, [nth, "resolve"], max_attempts=9)
        seen = run_disturbed(harness, nth, when)
        harness.run_until_idle()
        row = now_of(stored)
        assert row.status == Status.SUCCESS, (nth, when, row.last_error)
        intents = Step.objects.filter(task=stored, kind="intent").order_by("pk")
        assert len(charges) == 1, (nth, when)
        assert all(bool(step.result["because"]) == bool(n) for n, step in enumerate(intents))
    harness.close()
    assert nth > 3
    assert tasks_command("verify").code == 0


def run_disturbed(harness: Any, nth: int, when: str) -> int:
    [lease] = harness.claim_due()
    wrapper = Disturbed(nth, when)
    with suppress(Killed, DatabaseError):
        if not run_or_die(lease, wrapper, harness.using):
            lose_the_worker(harness)
            return wrapper.seen
    if now_of(Task(pk=lease.id)).status == Status.RUNNING:
        lose_the_worker(harness)
    return wrapper.seen


def test_shell_and_console_list_it_and_take_the_answer(harness, operator, session_with):  # noqa: F811
    trouble.append(after_it_is_booked)
    stored = Task.objects.enqueue(pay, [1])
    harness.run_until_idle()
    listed = tasks_command("effects", "--json")
    assert (listed.code, listed.record["task"], listed.record["key"]) == (1, str(stored.pk), "order-1")
    problems = find_problems(read_standing(current_scope()), can_see_payload=True)
    assert any("does not know whether its effect charge happened (key order-1)" in each.text for each in problems)
    page = f"/admin/django_tasks_retry/task/{stored.pk}/"
    assert "Did the effect charge happen?" in operator.get(f"{page}change/").content.decode()
    answer = {"effect": "charge", "happened": "yes", "reason": "booked"}
    assert session_with("view_task").post(f"{page}answer/", answer).status_code == 403
    assert operator.post(f"{page}answer/", answer).status_code == 302
    harness.run_until_idle()
    assert now_of(stored).status == Status.SUCCESS
    assert tasks_command("effects").code == 0
    trouble.append(before_it_is_booked)
    other = Task.objects.enqueue(pay, [2])
    harness.run_until_idle()
    assert tasks_command("effects", "retry", other.pk, "charge", "--reason", "not booked").code == 0
    harness.run_until_idle()
    assert (now_of(other).status, charges.count("order-2")) == (Status.SUCCESS, 2)
    refused = tasks_command("effects", "happened", other.pk, "charge", "--reason", "x", "--result", "1")
    assert refused.code == 5


def test_without_the_lease_neither_is_written(harness, travel):
    trouble.append(lambda _key: (travel(61), taskqueue.recover()))
    stored = Task.objects.enqueue(pay, [1])
    harness.run_due()
    assert [kind for _name, kind in steps()] == ["intent"] * len(steps())
    assert now_of(stored).status == Status.PENDING
