"""Failure groups: failures with one fingerprint, found and counted at a cost that does not grow with what is stored."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models.fields.json import KT

from ...clock import now
from ...models import Task
from ...utc import adapted
from ..database import as_moment
from ..engines import engine_for
from ..lease import as_uuid
from .summaries import CAP

MAX_GROUPS = 2000  # The most groups that are read. More than these differ by values that should not separate failures.
COUNTED = 100_000  # the most failures of a single group that are counted
LOOKED_AT = 10_000  # the number of a group's newest failures whose retries are followed
CHUNK = 500  # groups whose texts are read at once


@dataclass(frozen=True, slots=True)
class GroupHead:
    """A group before it is counted: its latest task, and when that failed."""

    fingerprint: str
    sample: UUID
    last_failed_at: datetime


@dataclass(frozen=True, slots=True)
class GroupText:
    """The searchable texts of a group, from its latest task."""

    fingerprint: str
    func_path: str
    queue: str
    exception: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class GroupFigures(GroupText):
    """Failures with one fingerprint, described by the latest. `open` counts those that were not retried."""

    sample: UUID
    last_failed_at: datetime
    first_failed_at: datetime | None
    failed: int
    open: int
    failed_today: int
    failed_this_hour: int
    retrying: int

    @property
    def is_large(self) -> bool:
        return max(self.failed, self.retrying) > CAP


@dataclass(frozen=True, slots=True)
class GroupOutcomes:
    """Outcomes of a group: failures up to COUNTED + 1, and what became of the newest `looked_at`."""

    failed: int
    looked_at: int
    retried: int
    succeeded: int

    @property
    def open(self) -> int:
        return self.looked_at - self.retried

    @property
    def is_partial(self) -> bool:
        return self.failed > self.looked_at


def group_heads(using: str) -> list[GroupHead]:
    """Up to MAX_GROUPS groups, the latest failure first."""
    rows = engine_for(using).rows("failure_heads", {"groups": MAX_GROUPS})
    heads = [read_head(row) for row in rows if row["fingerprint"]]
    return sorted(heads, key=lambda head: head.last_failed_at, reverse=True)


def group_head(fingerprint: str, using: str) -> GroupHead | None:
    """Return the group with this fingerprint; None if no task failed so, or waits for another attempt since."""
    [row] = engine_for(using).rows("failure_head", {"fingerprint": fingerprint})
    return read_head(row) if row["failed_id"] or row["waiting_id"] else None


def read_head(row: Mapping[str, Any]) -> GroupHead:
    times = [as_moment(row[name]) for name in ("failed_at", "waiting_since") if row[name]]
    return GroupHead(row["fingerprint"], as_uuid(row["failed_id"] or row["waiting_id"]), max(times))


def describe_groups(heads: Sequence[GroupHead], using: str) -> list[GroupFigures]:
    """The groups in the order of their heads. Large groups are counted again, up to COUNTED, and then estimated."""
    groups = counted_groups(heads, CAP + 1, using)
    if not (large := {each.fingerprint for each in groups if each.is_large}):
        return groups
    known = estimate_groups(using)
    again = counted_groups([head for head in heads if head.fingerprint in large], COUNTED + 1, using)
    better = [replace(each, failed=max(each.failed, known.get(each.fingerprint, 0))) for each in again]
    by_fingerprint = {each.fingerprint: each for each in better}
    return [by_fingerprint.get(each.fingerprint, each) for each in groups]


def counted_groups(heads: Sequence[GroupHead], cap: int, using: str) -> list[GroupFigures]:
    if not heads:
        return []
    connection, current = connections[using], now(using)
    parameters = {
        "shown": as_shown(heads),
        "cap": cap,
        "day_ago": adapted(current - timedelta(days=1), connection),
        "hour_ago": adapted(current - timedelta(hours=1), connection),
    }
    rows = {row["fingerprint"]: row for row in engine_for(using).rows("failures", parameters)}
    return [read_group(head, rows[head.fingerprint]) for head in heads if head.fingerprint in rows]


def group_texts(heads: Sequence[GroupHead], using: str) -> Iterator[GroupText]:
    """Yield texts of groups in no order. Nothing is counted."""
    fingerprints = {head.sample: head.fingerprint for head in heads}
    samples = list(fingerprints)
    error: list[Any] = [KT(f"last_error__{name}") for name in ("exception", "code", "message")]
    for start in range(0, len(samples), CHUNK):
        tasks = Task.objects.using(using).filter(pk__in=samples[start : start + CHUNK])
        for sample, *texts in tasks.values_list("pk", "func_path", "queue", *error):
            yield GroupText(fingerprints[sample], *(str(text or "") for text in texts))


def failed_since(heads: Sequence[GroupHead], since: datetime, using: str) -> int:
    """Return how many tasks of these groups failed since then, of each group up to CAP + 1."""
    lately = [head for head in heads if head.last_failed_at > since]
    parameters = {"shown": as_shown(lately), "cap": CAP + 1, "since": adapted(since, connections[using])}
    return int(engine_for(using).fetch("failed_since", parameters)[0][0]) if lately else 0


def group_outcomes(fingerprint: str, using: str) -> GroupOutcomes:
    parameters = {"fingerprint": fingerprint, "cap": COUNTED + 1, "newest": LOOKED_AT}
    [row] = engine_for(using).rows("failure_outcomes", parameters)
    return GroupOutcomes(**row)


def estimate_groups(using: str) -> dict[str, int]:
    """Estimate failures for each common fingerprint; empty if the database keeps no such statistics."""
    return engine_for(using).estimate_failures()


def read_group(head: GroupHead, row: Mapping[str, Any]) -> GroupFigures:
    first = row["first_failed_at"] and as_moment(row["first_failed_at"])
    texts = {name: row[name] or "" for name in ("exception", "code", "message")}
    known = {"sample": head.sample, "last_failed_at": head.last_failed_at, "first_failed_at": first}
    return GroupFigures(**{**row, **known, **texts})


def as_shown(heads: Sequence[GroupHead]) -> str:
    return json.dumps({head.fingerprint: head.sample.hex for head in heads})
