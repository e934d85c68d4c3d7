"""Placement: what a promise is about lives in one database; the rest lives anywhere that answers."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from uuid import UUID

import pytest
from django.db import transaction

from django_tasks_retry import call
from django_tasks_retry.compat import TaskResultDoesNotExist, task_backends
from django_tasks_retry.conf import configured_backends
from django_tasks_retry.errors import InvalidCall, PartlyEnqueued, ShardAway
from django_tasks_retry.models import Schedule, ShardBucket, Signal, Task
from django_tasks_retry.rules.names import shard_of
from django_tasks_retry.taskqueue import cancel_one, retry_one, signal
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.shards import owners
from django_tasks_retry.taskqueue.shards.placement import NotHere
from tests import tasks
from tests.shards.conftest import GONE, NAMES, key_of, owner_of

LIMITED = {"LANES": {"tenant-*": {"concurrency": 1}, "queue:crm": {"concurrency": 2}}}


def homes(found):
    """The databases in which these tasks are, by the tables themselves; each is in one, and its id says so."""
    places = []
    for task in found:
        [place] = [name for name in NAMES if Task.objects.using(name).filter(pk=task.pk).exists()]
        assert NAMES[shard_of(task.pk)] == place
        places.append(place)
    return places


def enqueue(**options):
    return Task.objects.enqueue(tasks.add, (1, 2), **options)


def test_calls_without_a_key_are_spread_over_all_shards(sharded):
    assert set(homes([enqueue() for _ in range(40)])) == set(NAMES)


def test_a_unique_key_has_one_holder_in_all_shards(sharded):
    for n in range(12):
        first, second = (enqueue(unique_key=f"k{n}") for _ in range(2))
        assert first.pk == second.pk
        assert homes([first]) == [owner_of(f"default:k{n}")]


@pytest.mark.parametrize("limited", [{"lane": "tenant-7"}, {"queue": "crm"}])
def test_what_is_limited_lives_in_one_shard(sharded, limited):
    sharded(**LIMITED)
    assert len(set(homes([enqueue(unique_key=f"k{n}", **limited) for n in range(12)]))) == 1


def test_calls_of_one_shard_key_live_together(sharded):
    asked = tasks.add.using(shard_key="tenant-7")
    found = [Task(pk=UUID(asked.enqueue(1, n).id)) for n in range(12)]
    assert set(homes(found)) == {owner_of("tenant-7")}


def test_a_call_in_a_transaction_of_a_shard_is_stored_with_it_or_not_at_all(sharded):
    for name in NAMES:
        with transaction.atomic(using=name):
            kept = enqueue()
        assert homes([kept]) == [name]
        with transaction.atomic(using=name):
            lost = enqueue(shard_key="elsewhere")
            transaction.set_rollback(True, using=name)
        assert not any(Task.objects.using(each).filter(pk=lost.pk).exists() for each in NAMES)


def test_a_key_of_another_shard_is_refused_in_a_transaction(sharded):
    key = key_of("q1", queue="default")
    with transaction.atomic(using="q0"):
        with pytest.raises(InvalidCall, match="'q1'"):
            enqueue(unique_key=key)
        enqueue()
    assert homes([enqueue(unique_key=key)]) == ["q1"]


def test_a_list_without_keys_is_stored_in_one_shard(sharded):
    for _ in range(5):
        assert len(set(homes(Task.objects.enqueue_many([call(tasks.add, 1, n) for n in range(5)])))) == 1


def test_a_list_with_keys_is_split_and_comes_back_in_order(sharded):
    calls = [call(tasks.add, 1, n).using(unique_key=f"k{n}" if n % 2 else None) for n in range(30)]
    stored = Task.objects.enqueue_many(calls)
    assert [task.args[1] for task in stored] == list(range(30))
    assert homes(stored)[1::2] == [owner_of(f"default:k{n}") for n in range(1, 30, 2)]
    assert len(set(homes(stored))) == 3


def test_a_long_list_and_a_stream_are_whole(sharded):
    assert len(set(homes(Task.objects.enqueue_many([call(tasks.add, 1, n) for n in range(1200)])[::100]))) == 1
    before = sum(Task.objects.using(name).count() for name in NAMES)
    assert Task.objects.enqueue_many((call(tasks.add, 1, n) for n in range(50)), returning=False) == 50
    assert sum(Task.objects.using(name).count() for name in NAMES) == before + 50


def test_a_batch_lives_with_its_callback(sharded):
    for _ in range(4):
        members = Task.objects.enqueue_many([call(tasks.add, 1, 2)] * 3, then=call(tasks.add, 1, 2))
        [place] = set(homes(members))
        callback = Task.objects.using(place).get(pk=members[0].batch)
        assert homes([callback]) == [place]


def test_a_retry_lives_with_its_task(sharded):
    for _ in range(4):
        task = enqueue()
        cancel_one(task)
        assert homes([task, retry_one(task)])[0] == homes([retry_one(task)])[0]


def test_a_result_is_found_by_its_id_alone(sharded):
    for result in [tasks.add.enqueue(1, n) for n in range(12)]:
        assert task_backends["default"].get_result(result.id).args == result.args
        assert result.backend == "default"
        result.refresh()
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(str(new_id("default@q1")))


def test_a_signal_is_heard_in_every_shard(sharded):
    assert signal("paid", 5)
    assert not signal("paid", 5)
    assert all(Signal.objects.using(name).get().payload == 5 for name in NAMES)


def test_tasks_from_before_the_split_keep_their_keys(sharded):
    sharded("q0")
    before = enqueue(unique_key=(key := "k1"))
    assert configured_backends() == ("default",)
    sharded()
    assert enqueue(unique_key=key).pk == before.pk
    assert {owner_of(f"default:k{n}") for n in range(20)} == {"q0"}


def test_while_a_shard_is_away_the_others_take_what_may_live_there(sharded):
    enqueue()
    sharded("q0", "q1", GONE)
    key = key_of("q2", queue="default")
    assert {NAMES[shard_of(enqueue().pk)] for _ in range(20)} == {"q0", "q1"}
    began = monotonic()
    with pytest.raises(ShardAway, match=GONE):
        enqueue(unique_key=key)
    with pytest.raises(ShardAway, match=GONE):
        task_backends["default"].get_result(str(new_id("default@gone")))
    with pytest.raises(ShardAway, match=GONE):
        signal("paid")
    assert monotonic() - began < 1


def test_nothing_of_a_list_is_stored_if_a_shard_of_it_is_away(sharded):
    enqueue()
    sharded("q0", "q1", GONE)
    calls = [call(tasks.add, 1, n).using(unique_key=key_of(name, queue="default")) for n, name in enumerate(NAMES)]
    before = sum(Task.objects.using(name).count() for name in NAMES)
    with pytest.raises(ShardAway):
        Task.objects.enqueue_many(calls)
    assert sum(Task.objects.using(name).count() for name in NAMES) == before


def test_a_list_that_is_cut_between_two_shards_says_what_it_has_stored(sharded):
    calls = [
        call(tasks.add, 1, n).using(unique_key=key_of(name, queue="default"), on_conflict="raise")
        for n, name in enumerate(["q0", "q1"])
    ]
    taken = Task.objects.enqueue_many(calls[1:])
    with pytest.raises(PartlyEnqueued) as error:
        Task.objects.enqueue_many(calls)
    assert homes(error.value.tasks) == ["q0"]
    assert homes(taken) == ["q1"]


def test_a_schedule_made_by_code_is_of_the_shard_that_its_name_belongs_to(sharded):
    for n in range(6):
        made = Schedule.objects.create(name=f"nightly-{n}", task=tasks.add, args=[1, 2], every=timedelta(hours=1))
        assert made._state.db == owner_of(f"nightly-{n}")


def test_rows_of_buckets_that_do_not_exist_change_nothing(sharded):
    owners.known_owners("default")
    ShardBucket.objects.using("q0").create(bucket=5000, owner=99)
    owners._known.clear()
    assert len(owners.known_owners("default").rows) == owners.BUCKETS


def test_an_owner_that_settings_do_not_have_is_named_and_nothing_else(sharded):
    key = key_of("q1")
    for alias in NAMES:
        ShardBucket.objects.using(alias).filter(bucket=owners.hashed(key)).update(owner=99, version=9)
    assert not owners.is_owner(key, "default")
    assert "number 99" in str(NotHere("default", [(1, 9, 99)], ["k"]))
