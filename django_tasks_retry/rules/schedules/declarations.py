"""Schedules that stand in code: what `@schedule` attaches to a function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, Never, TypeAlias, TypeVar

from ...errors import InvalidSchedule

F = TypeVar("F", bound=Callable[..., Any])
Overlap: TypeAlias = Literal["skip", "queue", "allow"]
SCHEDULES_ATTRIBUTE = "schedules"


@dataclass(frozen=True, kw_only=True)
class ScheduleDeclaration:
    """A declared schedule, unchecked: an error while a module is imported would take all of its tasks away."""

    name: str | None = None
    cron: str = ""
    every: float | timedelta | None = None
    timezone: str | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    overlap: Overlap = "skip"
    misfire_grace: float | timedelta | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    queue: str | None = None
    priority: int | None = None


KEYS = frozenset(one.name for one in fields(ScheduleDeclaration)) - {"name"}
RENAMED = {"late": "misfire_grace"}


def check_keys(given: Iterable[str]) -> None:
    for key in given:
        if key not in KEYS:
            close = [RENAMED[key]] if key in RENAMED else get_close_matches(key, KEYS, n=1)
            raise InvalidSchedule(f"A schedule has no {key!r}.{f' Did you mean {close[0]!r}?' if close else ''}")


def schedule(  # noqa: PLR0913 - the options of a schedule
    cron: str = "",
    *,
    name: str | None = None,
    every: float | timedelta | None = None,
    timezone: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    overlap: Overlap = "skip",
    misfire_grace: float | timedelta | None = None,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    queue: str | None = None,
    priority: int | None = None,
    **unknown: Never,
) -> Callable[[F], F]:
    """Enqueue the function at each instant of a cron expression, or `every` so often. Stands below `@task`.

    Several may stand on one function; then each but one needs a `name`. The `timezone` is the project's if it is
    left out. While the previous run has not finished, `overlap` skips the slot, queues it behind that run, or allows
    both. A slot that could not be enqueued within `misfire_grace` is given up. System checks say what is wrong.
    """
    check_keys(unknown)
    declared = ScheduleDeclaration(
        name=name, cron=cron, every=every, timezone=timezone, args=args, kwargs=kwargs or {}, overlap=overlap,
        misfire_grace=misfire_grace, starts_at=starts_at, ends_at=ends_at, queue=queue, priority=priority,
    )  # fmt: skip

    def decorate(function: F) -> F:
        if hasattr(function, "enqueue"):
            raise InvalidSchedule("@schedule stands above @task: write it below, next to the function.")
        # As they are read from above.
        setattr(function, SCHEDULES_ATTRIBUTE, (declared, *declarations_of(function)))
        return function

    return decorate


def declarations_of(function: Callable[..., Any]) -> tuple[ScheduleDeclaration, ...]:
    found = getattr(function, SCHEDULES_ATTRIBUTE, ())
    return found if isinstance(found, tuple) and all(isinstance(one, ScheduleDeclaration) for one in found) else ()
