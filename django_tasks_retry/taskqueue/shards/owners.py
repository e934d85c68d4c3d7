"""Owners: the shard of each bucket of keys. A process remembers them, and an enqueue asks the owner itself."""

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any
from zlib import crc32

from django.db import DatabaseError, transaction

from ...conf import configured_backends, forgotten, is_sharded, options, shard_backends
from ...errors import InvalidOptions, ShardAway
from ...models import Schedule, Shard, ShardBucket, Task
from ..database import database
from .answers import check_answers, in_time, is_up

BUCKETS = 1024
REMEMBERED_SECONDS = 5.0
UNKNOWN = (-1, 0)
Version = tuple[int, int]
"""The version of a bucket's row, and its owner: the larger is the newer."""


def hashed(key: str) -> int:
    return crc32(key.encode()) % BUCKETS


class Owners:
    """Owners of one backend's buckets, as this process remembers them. The shard itself knows better."""

    def __init__(self, shards: Sequence[str]) -> None:
        self.shards = shards
        self.rows: list[Version] = [UNKNOWN] * BUCKETS
        self.draining: frozenset[int] = frozenset()
        self.read_at = float("-inf")
        self.lock = threading.Lock()

    def of(self, bucket: int) -> str:
        owner = self.rows[bucket][1]
        if owner >= len(self.shards):
            raise InvalidOptions(
                f"A key belongs to the shard number {owner}, which SHARDS of this process does not have yet. "
                "Deploy the settings to all processes before `tasks shards add`."
            )
        return self.shards[owner]

    def learn(self, rows: Iterable[tuple[int, int, int]]) -> None:
        for bucket, version, owner in rows:
            self.rows[bucket] = max(self.rows[bucket], (version, owner))

    def read(self) -> None:
        """Read the copy of any shard that answers and has one."""
        for shard in filter(is_up, self.shards):
            try:
                found, draining = in_time(shard, partial(copy_in, shard))
            except ShardAway:
                continue
            if len(found) == BUCKETS:
                self.learn(found)
                self.draining, self.read_at = draining, monotonic()
                return
        check_answers(self.shards[0])
        begin_owners(self.shards)
        self.read()

    def push(self, shard: str, buckets: Iterable[int]) -> None:
        """Tell a shard what it has missed."""
        write_rows(database(shard), {bucket: self.rows[bucket] for bucket in buckets})


def copy_in(shard: str) -> tuple[list[tuple[int, int, int]], frozenset[int]]:
    """Return the copy of this shard, and the numbers of those that take no new work."""
    using = database(shard)
    draining = Shard.objects.using(using).filter(is_draining=True).values_list("number", flat=True)
    known = ShardBucket.objects.using(using).filter(bucket__lt=BUCKETS)
    return list(known.values_list("bucket", "version", "owner")), frozenset(draining)


@forgotten
def known_owners(backend: str) -> Owners:
    shards = shard_backends(backend)
    known = _known.get(shards[0])
    if known is None or known.shards != shards:
        known = _known[shards[0]] = Owners(shards)
    with known.lock:
        if monotonic() - known.read_at > REMEMBERED_SECONDS:
            known.read()
    return known


_known: dict[str, Owners] = {}
os.register_at_fork(after_in_child=_known.clear)
known_owners.cache_clear = _known.clear  # type: ignore[attr-defined]


def begin_owners(shards: Sequence[str]) -> None:
    """Write the first owners, decided in the first shard: all of them, or it alone if it has tasks from before."""
    using = database(shards[0])
    names = options(shards[0]).shards
    with transaction.atomic(using=using):
        is_new = not (Task.objects.using(using).exists() or Schedule.objects.using(using).exists())
        count = len(shards) if is_new else 1
        rows = [ShardBucket(bucket=bucket, owner=bucket % count) for bucket in range(BUCKETS)]
        ShardBucket.objects.using(using).bulk_create(rows, ignore_conflicts=True)
    decided = ShardBucket.objects.using(using).values_list("bucket", "version", "owner")
    begun = {bucket: (version, owner) for bucket, version, owner in decided}
    for shard in filter(is_up, shards):
        with suppress(DatabaseError):  # which has no tables yet
            write_rows(database(shard), begun)
            write_names(database(shard), names)


def begin_after_migrate(using: str, **_: Any) -> None:
    """Give a database that has just got its tables a copy of the owners, so that its workers need ask nobody else.

    If the first shard has no tables yet, nobody can decide: the `migrate` of that one does it.
    """
    for backend in configured_backends():
        if is_sharded(backend) and database(backend) == using:
            with suppress(ShardAway, DatabaseError):
                owners = known_owners(backend)
                owners.push(backend, range(BUCKETS))
                write_names(using, options(backend).shards)


def write_rows(using: str, rows: dict[int, Version]) -> None:
    """Write rows that are newer than those of this database."""
    stored = ShardBucket.objects.using(using)
    fresh = [ShardBucket(bucket=bucket, version=version, owner=owner) for bucket, (version, owner) in rows.items()]
    stored.bulk_create(fresh, ignore_conflicts=True)
    by_version: dict[Version, list[int]] = {}
    for bucket, each in rows.items():
        by_version.setdefault(each, []).append(bucket)
    for (version, owner), buckets in by_version.items():
        stored.filter(bucket__in=buckets, version__lt=version).update(version=version, owner=owner)


def write_names(using: str, names: Sequence[str]) -> None:
    rows = [Shard(number=number, name=name) for number, name in enumerate(names)]
    Shard.objects.using(using).bulk_create(rows, ignore_conflicts=True)


def wrong_names(backend: str) -> dict[int, tuple[str, str]]:
    """Return numbers whose name in the database is another one than in SHARDS: both names."""
    named = dict(enumerate(options(backend).shards))
    stored = dict(Shard.objects.using(database(backend)).values_list("number", "name"))
    return {number: (name, named.get(number, "")) for number, name in stored.items() if named.get(number) != name}


def home_of(key: str, backend: str) -> str:
    """Return the backend of the shard to which a key belongs, as far as this process knows."""
    return known_owners(backend).of(hashed(key))


def is_owner(key: str, backend: str) -> bool:
    """Return whether this shard owns the bucket of a key, by its own word. Asks no other, and starts no thread."""
    shards = shard_backends(backend)
    row = ShardBucket.objects.using(database(backend)).filter(bucket=hashed(key)).first()
    return row is not None and row.owner == shards.index(backend)
