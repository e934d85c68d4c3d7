"""The results of a batch, read from the database a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Count, Exists, OuterRef, Q

from ...errors import InvalidCall, MembersFailed, MembersGone
from ...models import Task, TaskQuerySet, TaskResult
from ...payloads import opened
from ...rules.status import UNFINISHED, Status
from ..database import database
from ..shards import shard_of_id
from ..typed import Instances, function_of, read_returned, return_codec
from .members import members_of, without_success

PAGE = 1000
ERRORS = ("raise", "return")
R_co = TypeVar("R_co", covariant=True)


class Results(Generic[R_co]):
    """The results of the members, one after the other; for a member that was retried, that of its last retry.

    Iterate as often as you like: each time the database is asked anew, for a thousand at once. With
    `errors="return"` a member that did not succeed is a `MemberFailed`.
    """

    def __init__(self, batch: UUID, using: str) -> None:
        self.batch, self.using = batch, using

    @property
    def originals(self) -> TaskQuerySet:
        """The members without their retries."""
        # Only a retry is compared with others: a planner may join all members with all (4 s for 5,000).
        earlier = Task.objects.filter(pk=OuterRef("retry_of"), batch=OuterRef("batch"))
        return members_of(self.batch, self.using).filter(Q(retry_of=None) | ~Exists(earlier)).order_by("pk")

    def __len__(self) -> int:
        return self.originals.count()

    def __iter__(self) -> Iterator[R_co]:
        last: UUID | None = None
        while page := self.page_after(last):
            yield from self.values_of(page)
            last = page[-1]

    async def __aiter__(self) -> AsyncIterator[R_co]:
        last: UUID | None = None
        while page := await sync_to_async(self.page_after)(last):
            for value in await sync_to_async(self.values_of)(page):
                yield value
            last = page[-1]

    def __getitem__(self, place: int) -> R_co:
        """One result by its place, counted from the first call."""
        size = len(self)
        found = place if place >= 0 else size + place
        if not 0 <= found < size:
            raise IndexError(f"The batch has {size:,} results; there is no number {place}.")
        return self.values_of(list(self.originals.values_list("pk", flat=True)[found : found + 1]))[0]

    def __repr__(self) -> str:
        return f"<Results of batch {self.batch}>"

    def page_after(self, last: UUID | None) -> list[UUID]:
        members = self.originals if last is None else self.originals.filter(pk__gt=last)
        return list(members.values_list("pk", flat=True)[:PAGE])

    def values_of(self, page: Sequence[UUID]) -> list[R_co]:
        latest = self.latest_of(page)
        outcomes = TaskResult.objects.using(self.using).in_bulk(list(latest.values()))
        rows = Task.objects.using(self.using).filter(pk__in=outcomes).values_list("pk", "func_path", "backend")
        functions = {}
        for pk, path, backend in rows:
            functions[pk] = function_of(path)
            outcomes[pk].result = opened(outcomes[pk].result, backend, pk)
        load = Instances([each.result for pk, each in outcomes.items() if return_codec(functions.get(pk))])
        return [value_of(pk, outcomes.get(pk), functions.get(pk), load) for pk in (latest[each] for each in page)]

    def latest_of(self, page: Sequence[UUID]) -> dict[UUID, UUID]:
        latest, newer = {pk: pk for pk in page}, dict(zip(page, page, strict=True))
        while newer:
            retries = members_of(self.batch, self.using).filter(retry_of__in=list(newer)).order_by("pk")
            last = {newer[of]: pk for pk, of in retries.values_list("pk", "retry_of_id")}
            latest |= last
            newer = {pk: member for member, pk in last.items()}
        return latest


@dataclass(frozen=True, slots=True)
class MemberFailed:
    """Stands in the results for a member that did not succeed."""

    task_id: UUID
    status: Status | None
    message: str
    exception: str = ""

    def __bool__(self) -> bool:
        return False


def value_of(task_id: UUID, outcome: TaskResult | None, function: Callable[..., Any] | None, load: Instances) -> Any:
    if outcome is None:
        return MemberFailed(task_id, None, "its result is gone")
    if outcome.status == Status.SUCCESS:
        return read_returned(function, outcome.result, load)
    error = outcome.error or {}
    return MemberFailed(task_id, Status(outcome.status), error.get("message", ""), error.get("exception", ""))


def check_errors(errors: str) -> None:
    if errors not in ERRORS:
        raise InvalidCall(f"errors={errors!r}: give 'raise' or 'return'.")


def results_of(batch: UUID, count: int, errors: str, using: str) -> Results[Any]:
    """Return the results. Raise MembersFailed if some did not succeed and the caller does not take errors."""
    results: Results[Any] = Results(batch, using)
    stored = len(results)
    if stored < count:
        raise MembersGone(count - stored, count)
    if errors == "raise":
        check_success(batch, using)
    return results


def check_success(batch: UUID, using: str) -> None:
    failed = without_success(batch, using)
    ids = list(failed.values_list("pk", flat=True)[:10])
    if ids:
        outcome = TaskResult.objects.using(using).filter(pk=ids[0]).first()
        error = (outcome and outcome.error) or {}
        raise MembersFailed(failed.count(), ids, error.get("message", ""))


class BatchCounts(NamedTuple):
    """The number of a batch's members in each state."""

    open: int
    done: int
    failed: int
    cancelled: int

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def ended(self) -> float:
        """Return the share of members that have ended, from 0 to 1. A batch without members has ended."""
        return 1 - self.open / self.total if self.total else 1.0


def batch_counts(batch: UUID, using: str) -> BatchCounts:
    """Count the members by the index of the batch, which holds no other tasks. Retries count beside what they retry."""
    return counts_of(members_of(batch, using))


def counts_of(members: TaskQuerySet) -> BatchCounts:
    found = dict(members.order_by().values_list("status").annotate(Count("pk")))
    return BatchCounts(
        sum(found.get(status, 0) for status in UNFINISHED),
        found.get(Status.SUCCESS, 0),
        found.get(Status.FAILED, 0),
        found.get(Status.CANCELLED, 0),
    )


class Batch(NamedTuple):
    """The tasks of one `gather` or `enqueue_many(…, then=…)`, for pages of your own."""

    id: UUID
    using: str

    @classmethod
    def find(cls, of: Task | UUID | str, backend: str) -> Batch:
        batch = of.batch if isinstance(of, Task) else of
        if batch is None:
            raise InvalidCall(f"Task {of} is no member of a batch.")
        found = UUID(str(batch))
        return cls(found, database(shard_of_id(found, backend)))

    def progress(self) -> BatchCounts:
        """Count the members by state. A retry takes the place of the member that it retries."""
        later = Task.objects.filter(retry_of=OuterRef("pk"), batch=OuterRef("batch"))
        return counts_of(members_of(self.id, self.using).exclude(Exists(later)))

    async def aprogress(self) -> BatchCounts:
        """See progress()."""
        return await sync_to_async(self.progress)()
