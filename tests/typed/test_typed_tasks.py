"""Typed arguments and results through the whole life of a task, on both databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import call, chain
from django_tasks_retry.errors import InvalidPayload, WrongArguments
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.testing import Tasks
from tests.steps import enqueue, enqueue_unchecked, now_of
from tests.typed import tasks
from tests.typed.tasks import Color, Line, seen
from tests.typed.test_codec import STORED

DAY = date(2026, 1, 2)
ID = UUID("018f3c1e-0000-7000-8000-000000000001")
BY_TYPE: dict[str, Any] = {
    "datetime": tasks.take_datetime, "date": tasks.take_date, "time": tasks.take_time,
    "timedelta": tasks.take_timedelta, "UUID": tasks.take_uuid, "Decimal": tasks.take_decimal,
    "Color": tasks.take_color, "Size": tasks.take_size, "Kind": tasks.take_kind, "Shape": tasks.take_shape,
    "Line": tasks.take_line, "Point": tasks.take_point, "Row": tasks.take_row,
}  # fmt: skip
CASES = [(BY_TYPE[each.__name__], value) for each, value, _ in STORED if getattr(each, "__name__", "") in BY_TYPE]
CASES += [
    (tasks.take_order_id, ID),
    (tasks.take_date, None),
    (tasks.take_tuple, (1, DAY)),
    (tasks.take_open_tuple, (ID, ID)),
    (tasks.take_list, [ID]),
    (tasks.take_mapping, {"b": Decimal("1.10"), "a": Decimal(2)}),
    (tasks.take_dates, {DAY: [Decimal(1)]}),
    (tasks.take_counts, {7: "a"}),
    (tasks.take_either, ID),
    (tasks.take_either, str(ID)),
    (tasks.take_either, DAY),
    (tasks.decorated, DAY),
]


@pytest.mark.parametrize(("task", "value"), CASES, ids=map(str, range(len(CASES))))
@pytest.mark.parametrize("door", ["framework", "manager", "keyword"])
def test_a_typed_argument_comes_back_and_so_does_the_result(harness: Tasks, door: str, task: Any, value: Any) -> None:
    if door == "framework":
        result_id = task.enqueue(value).id
    else:
        given = {"args": [value]} if door == "manager" else {"kwargs": {"value": value}}
        result_id = str(Task.objects.enqueue(task, **given).pk)
    harness.run_due()
    assert [(each, type(each)) for each in seen] == [(value, type(value))]
    found = task.get_result(result_id).return_value
    assert (found, type(found)) == (value, type(value))


def test_a_set_is_stored_in_one_order(harness: Tasks) -> None:
    row = enqueue(tasks.take_set, {"b", "a", "c"})
    assert row.args == [["a", "b", "c"]]
    harness.run_due()
    assert seen == [{"a", "b", "c"}]
    assert tasks.take_set.get_result(str(row.pk)).return_value == frozenset("abc")


def test_variable_and_default_parameters_are_typed_too(harness: Tasks) -> None:
    tasks.take_any.enqueue(1, None, DAY, DAY, when=None, a=ID)
    tasks.take_any.enqueue(1, when=datetime(2026, 1, 2, tzinfo=UTC))
    harness.run_due()
    assert seen == [(1, None, DAY, DAY, None, {"a": ID}), (1, None, datetime(2026, 1, 2, tzinfo=UTC), {})]


def test_json_for_a_typed_parameter_is_checked_when_it_is_enqueued(harness: Tasks) -> None:
    tasks.take_date.enqueue("2026-01-02")
    harness.run_due()
    assert seen == [DAY]
    with pytest.raises(InvalidPayload, match=r"args\[0\] is 'soon', which does not fit the annotation date"):
        tasks.take_date.enqueue("soon")
    with pytest.raises(InvalidPayload, match=r"kwargs\['value'\]\['price'\] is 'x'"):
        Task.objects.enqueue(tasks.take_line, kwargs={"value": {"sku": "a", "price": "x"}})
    assert Task.objects.count() == 1


@pytest.mark.parametrize("value", [b"bytes", object(), len, Line, open])
def test_unknown_types_stay_refused(harness: Tasks, value: Any) -> None:
    with pytest.raises(InvalidPayload, match="which is not JSON"):
        enqueue(tasks.take_plain, value)


def test_a_value_without_an_annotation_is_refused_with_the_remedy(harness: Tasks) -> None:
    with pytest.raises(InvalidPayload, match=r"args\[0\]\['on'\] is a date.*Or annotate the parameter with its type\."):
        enqueue(tasks.take_plain, {"on": DAY})


def test_an_annotation_that_cannot_be_resolved_costs_no_other(harness: Tasks) -> None:
    enqueue(tasks.take_unresolved, 7, DAY)
    harness.run_due()
    assert seen == [(7, DAY)]
    with pytest.raises(InvalidPayload, match="its annotation 'Permission' cannot be read: name 'Permission' is not"):
        enqueue(tasks.take_unresolved, ID, DAY)


def test_a_call_that_does_not_fit_is_refused_as_ever(harness: Tasks) -> None:
    with pytest.raises(WrongArguments):
        enqueue(tasks.take_date, DAY, DAY)


def test_arguments_that_fit_no_longer_fail_the_task_at_once(harness: Tasks) -> None:
    row = enqueue_unchecked(tasks.take_uuid, ["abc"])
    harness.run_due()
    error = now_of(row).last_error
    assert (error["code"], error["attempt"]) == ("BAD_ARGUMENTS", 1)
    assert "args[0] is 'abc', which does not fit the annotation UUID" in error["message"]


def test_a_later_format_waits_for_a_worker_that_reads_it(harness: Tasks) -> None:
    row = enqueue_unchecked(tasks.take_either, [{"$type": "UUID", "value": str(ID), "$v": 2}])
    harness.run_due(limit=1)
    assert (now_of(row).status, now_of(row).refunds >= 1) == ("PENDING", True)


def test_a_result_that_its_annotation_does_not_promise_is_stored_as_it_is(harness: Tasks) -> None:
    row = enqueue(tasks.lie, 5)
    harness.run_due()
    assert tasks.lie.get_result(str(row.pk)).return_value == Decimal(5)
    assert now_of(row).attempts == 1


def test_a_result_that_cannot_be_stored_fails_at_once(harness: Tasks) -> None:
    row = enqueue(tasks.endless)
    harness.run_due()
    error = now_of(row).last_error
    assert (error["code"], error["attempt"]) == ("RESULT_NOT_SERIALIZABLE", 1)
    assert "it is not finite" in error["message"]


# Instances


def test_an_instance_is_stored_by_reference_and_loaded_when_it_runs(harness: Tasks) -> None:
    group = Group.objects.create(name="before")
    row = enqueue(tasks.greet, group)
    assert {"$ref": "auth.group", "pk": group.pk, "$v": 1}.items() <= row.args[0].items()
    Group.objects.update(name="after")
    harness.run_due()
    assert [(each, each.name) for each in seen[0]] == [(group, "after")]
    assert tasks.greet.get_result(str(row.pk)).return_value == group


def test_many_instances_take_one_query(harness: Tasks, database: str) -> None:
    groups = [Group.objects.create(name=f"{n}") for n in range(30)]
    enqueue(tasks.greet_all, groups, groups[0])
    with CaptureQueriesContext(connections[database]) as queries:
        harness.run_due()
    assert seen == [[groups[0], *groups]]
    assert sum('FROM "auth_group"' in each["sql"] for each in queries) == 1


def test_an_instance_that_is_gone_is_a_final_failure_that_says_so(harness: Tasks) -> None:
    group = Group.objects.create(name="short")
    row = enqueue(tasks.greet, group)
    pk = group.pk
    group.delete()
    harness.run_due()
    task = now_of(row)
    assert (task.status, task.attempts, task.last_error["code"]) == ("FAILED", 1, "ABORTED")
    assert f"auth.group {pk} is gone" in task.last_error["message"]
    assert seen == []


def test_a_result_whose_instance_is_gone_is_its_reference(harness: Tasks) -> None:
    group = Group.objects.create(name="short")
    row = enqueue(tasks.greet, group)
    harness.run_due()
    pk = group.pk
    group.delete()
    assert tasks.greet.get_result(str(row.pk)).return_value["pk"] == pk


def test_a_coroutine_is_given_its_instance(harness: Tasks) -> None:
    enqueue(tasks.agreet, group := Group.objects.create(name="a"))
    harness.run_due()
    assert seen == [group]


def test_an_instance_that_is_not_saved_is_refused(harness: Tasks) -> None:
    with pytest.raises(InvalidPayload, match="it is not saved"):
        enqueue(tasks.greet, Group(name="new"))
    with pytest.raises(InvalidPayload, match="give an instance"):
        enqueue(tasks.greet, 7)


def test_one_of_several_models_is_told_by_its_label(harness: Tasks) -> None:
    user = User.objects.create(username="ana")
    enqueue(tasks.greet_either, user)
    harness.run_due()
    assert seen == [user]


def test_a_reference_to_another_model_is_refused(harness: Tasks) -> None:
    with pytest.raises(InvalidPayload, match=r"it is a auth\.user"):
        enqueue(tasks.greet, {"$ref": "auth.user", "pk": 1})


def test_a_lane_is_named_after_the_primary_key_of_an_instance(harness: Tasks) -> None:
    group = Group.objects.create(name="a")
    assert enqueue(tasks.in_lane, group).lane == f"group-{group.pk}"


# Beside other features


def test_a_retry_repeats_a_typed_call(harness: Tasks) -> None:
    row = enqueue(tasks.take_date, DAY)
    harness.run_due()
    now_of(row).retry(by="test", reason="again")
    harness.run_due()
    assert seen == [DAY, DAY]


def test_a_workflow_remembers_typed_steps_and_results(harness: Tasks) -> None:
    enqueue(tasks.flow, DAY)
    harness.run_until_idle()
    assert seen.count(DAY) == 2  # the step, once; the member
    assert seen[-1] == [Decimal("9.90"), Color.RED, DAY]


def test_a_chain_passes_typed_results_on(harness: Tasks) -> None:
    row = chain(call(tasks.take_date, DAY), call(tasks.later, timedelta(days=3))).enqueue()
    harness.run_until_idle()
    assert now_of(row).outcome.result == "2026-01-05"


def test_a_schedule_keeps_typed_arguments(harness: Tasks) -> None:
    schedule = Schedule.objects.create(name="daily", task=tasks.take_date, every=60, args=[DAY])
    assert schedule.args == ["2026-01-02"]
    schedule.change(priority=5)
    schedule.run_now()
    harness.run_due()
    assert seen == [DAY]


def test_many_calls_at_once_are_typed(harness: Tasks) -> None:
    Task.objects.enqueue_many([(tasks.take_date, [DAY]), call(tasks.take_color, Color.BLUE)])
    harness.run_due()
    assert seen == [DAY, Color.BLUE]


def test_the_harness_compares_typed_arguments(harness: Tasks) -> None:
    tasks.take_date.enqueue(DAY)
    harness.assert_enqueued(tasks.take_date, DAY)
    harness.assert_enqueued(tasks.take_date, value="2026-01-02")
    with pytest.raises(AssertionError, match="2026-01-02"):
        harness.assert_enqueued(tasks.take_date, date(2026, 1, 3))
