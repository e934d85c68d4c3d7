"""Moving buckets between shards, one owner at each instant.

Only the owner gives a bucket away, in one transaction of its own database: it passes over calls that are being written,
and finds no unfinished task of the bucket. A bucket with unfinished work stays until that has ended.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Q

from ...clock import Now, now
from ...conf import options, shard_backends, shard_number, shards_by_name
from ...errors import InvalidOptions, TaskQueueError
from ...models import Schedule, Shard, ShardBucket, Task
from ..database import UNREADABLE, database
from ..events import write_operator_event
from ..new_tasks import new_task
from ..reading import read_rows
from ..schedules import key_of
from ..shards import (
    BUCKETS,
    ask_all,
    belonging_all,
    check_answers,
    hashed,
    is_up,
    known_owners,
    write_names,
    write_rows,
)
from ..statistics import CAP

MOVING = "tasks shards"
"""Pauses a schedule while it is carried to another shard."""


@dataclass(frozen=True, slots=True)
class ShardStanding:
    """How one shard stands."""

    buckets: int
    is_draining: bool
    due: int
    oldest_seconds: float


def shard_standings(backend: str) -> tuple[dict[str, ShardStanding], list[str]]:
    """Return how each shard stands that answers, and the databases that do not."""
    return ask_all(backend, standing_of)


def standing_of(shard: str) -> ShardStanding:
    using, number = database(shard), shard_number(shard)
    due = Task.objects.using(using).due()
    first = due.order_by("eta").values_list("eta", flat=True).first()
    return ShardStanding(
        ShardBucket.objects.using(using).filter(owner=number).count(),
        Shard.objects.using(using).filter(number=number, is_draining=True).exists(),
        due[: CAP + 1].count(),
        (now(using) - first).total_seconds() if first else 0.0,
    )


def shard_named(name: str, backend: str) -> str:
    named = shards_by_name(backend)
    if name not in named:
        raise InvalidOptions(f"OPTIONS['SHARDS'] has no shard {name!r} ({', '.join(named) or 'it is not set'}).")
    return named[name]


def set_draining(shard: str, actor: str, *, is_draining: bool) -> None:
    """Say in every shard whether this one takes new work. All must answer: none may learn it late."""
    shards = shard_backends(shard)
    for each in shards:
        check_answers(each)
    known_owners(shard)
    for each in shards:
        using = database(each)
        write_names(using, options(shard).shards)
        Shard.objects.using(using).filter(number=shard_number(shard)).update(is_draining=is_draining)
        kind = "shard.drained" if is_draining else "shard.added"
        write_operator_event(kind, database(shard), actor, "", using)
    known_owners(shard).read()


def rebalance(backend: str) -> tuple[int, int]:
    """Give each shard that takes work its share of the buckets. Return how many moved, and how many are left to move.

    May be called again and again: buckets with unfinished work move when that has ended.
    """
    owners = known_owners(backend)
    owners.read()
    shards = shard_backends(backend)
    wanted = moves([owner for _, owner in owners.rows], set(range(len(shards))) - owners.draining)
    moved = 0
    for number, shard in enumerate(shards):
        mine = {bucket: to for bucket, to in wanted.items() if owners.rows[bucket][1] == number and is_up(shards[to])}
        if is_up(shard):
            moved += give_away(shard, mine) if mine else 0
            carry_schedules(shard)
    return moved, len(wanted) - moved


def moves(owners: Sequence[int], active: Collection[int]) -> dict[int, int]:
    """Return a new owner for as few buckets as possible, so that the active shards have equally many."""
    held = Counter(dict.fromkeys(active, 0))
    share = -(-BUCKETS // len(active))
    moving = []
    for bucket, owner in enumerate(owners):
        if owner in active and held[owner] < share:
            held[owner] += 1
        else:
            moving.append(bucket)
    wanted = {}
    for bucket in moving:
        to = min(held, key=lambda number: (held[number], number))
        held[to] += 1
        wanted[bucket] = to
    return wanted


def give_away(shard: str, wanted: Mapping[int, int]) -> int:
    """Give those of these buckets away that have no unfinished work, and tell all shards. Return how many."""
    using, shards = database(shard), shard_backends(shard)
    stored = ShardBucket.objects.using(using).filter(bucket__in=wanted, owner=shard_number(shard))
    with transaction.atomic(using=using):
        mine = set(stored.select_for_update(skip_locked=True).values_list("bucket", flat=True))
        # A statement after the locks, so that it sees every call that was written before.
        free = mine - set(busy_buckets(shard, using))
        for to in set(wanted.values()):
            stored.filter(bucket__in=[each for each in free if wanted[each] == to]).update(
                owner=to, version=F("version") + 1
            )
        pause_schedules(shard, free, using)
    given = {row.bucket: (row.version, row.owner) for row in ShardBucket.objects.using(using).filter(bucket__in=free)}
    for each in filter(is_up, shards):
        write_rows(database(each), given)
    return len(given)


def busy_buckets(shard: str, using: str) -> Iterator[int]:
    """Yield buckets of unfinished tasks, and of unique keys that are taken for a time."""
    taken = Q(finished_at=None) | Q(unique_until__gt=Now())
    keys = Task.objects.using(using).filter(taken).order_by()
    columns = ("queue", "func_path", "lane", "unique_key", "schedule_id", "on_failure")
    for row in keys.values(*columns).distinct().iterator():
        yield from map(hashed, belonging_all(new_task(**row, backend=shard)))


def bucket_of(schedule: Schedule) -> int:
    try:
        return hashed(key_of(schedule))
    except (TaskQueueError, *UNREADABLE):
        return hashed(schedule.name)


def pause_schedules(shard: str, buckets: Collection[int], using: str) -> None:
    rows = read_rows(Schedule.objects.using(using).filter(backend=shard, paused_at=None).select_for_update())
    names = [row.name for row in rows if bucket_of(row) in buckets]
    Schedule.objects.using(using).filter(pk__in=names).update(paused_at=Now(), paused_by=MOVING)


def carry_schedules(shard: str) -> None:
    """Carry schedules to the owners of their buckets. Done again after a crash, it comes to the same."""
    using, shards = database(shard), shard_backends(shard)
    owners = dict(ShardBucket.objects.using(using).values_list("bucket", "owner"))
    for row in read_rows(Schedule.objects.using(using).filter(backend=shard)):
        to = shards[owners.get(bucket_of(row), shard_number(shard))]
        if to != shard and is_up(to):
            carry_schedule(row, using, to)


def carry_schedule(row: Schedule, using: str, to: str) -> None:
    pause_first = Schedule.objects.using(using).filter(pk=row.pk)
    if row.paused_at is None:
        pause_first.update(paused_at=Now(), paused_by=MOVING)
        row = pause_first.get()
    there = Schedule.objects.using(database(to))
    values = {field.attname: getattr(row, field.attname) for field in Schedule._meta.concrete_fields}
    # An audit looks for the slots since then: those before it have their tasks where it was.
    values |= {"backend": to, "updated_at": now(database(to))}
    if row.paused_by == MOVING:
        values |= {"paused_at": None, "paused_by": ""}
    there.bulk_create([Schedule(**values)], ignore_conflicts=True)
    if row.next_at is not None:  # a worker may have been quicker, and have planned it from now
        there.filter(pk=row.pk, next_at__gt=row.next_at).update(next_at=row.next_at)
    pause_first.delete()
