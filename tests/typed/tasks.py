"""Tasks with typed parameters and results. They note what they are called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, NewType, TypedDict
from uuid import UUID

from django.contrib.auth.models import Group, User
from django.db import transaction

from django_tasks_retry import call, lane, retry
from django_tasks_retry.compat import task

if TYPE_CHECKING:
    from django.contrib.auth.models import Permission

seen: list[Any] = []
"""The arguments of the calls, in order."""


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1


class Kind(StrEnum):
    GIFT = "gift"


class Shape(Enum):
    SQUARE = (4, 90)


class Point(NamedTuple):
    x: int
    on: date


class Row(TypedDict, total=False):
    on: date
    name: str


OrderId = NewType("OrderId", UUID)


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    due: date = None
    children: list[Line] = field(default_factory=list)
    colors: set[Color] = field(default_factory=set)


@task
def take_datetime(value: datetime) -> datetime:
    seen.append(value)
    return value


@task
def take_date(value: date | None) -> date | None:
    seen.append(value)
    return value


@task
def take_time(value: time) -> time:
    seen.append(value)
    return value


@task
def take_timedelta(value: timedelta) -> timedelta:
    seen.append(value)
    return value


@task
def take_uuid(value: UUID) -> UUID:
    seen.append(value)
    return value


@task
def take_order_id(value: OrderId) -> OrderId:
    seen.append(value)
    return value


@task
def take_decimal(value: Decimal) -> Decimal:
    seen.append(value)
    return value


@task
def take_color(value: Color) -> Color:
    seen.append(value)
    return value


@task
def take_size(value: Size) -> Size:
    seen.append(value)
    return value


@task
def take_kind(value: Kind) -> Kind:
    seen.append(value)
    return value


@task
def take_shape(value: Shape) -> Shape:
    seen.append(value)
    return value


@task
def take_line(value: Line) -> Line:
    seen.append(value)
    return value


@task
def take_point(value: Point) -> Point:
    seen.append(value)
    return value


@task
def take_row(value: Row) -> Row:
    seen.append(value)
    return value


@task
def take_set(value: set[str]) -> frozenset[str]:
    seen.append(value)
    return frozenset(value)


@task
def take_tuple(value: tuple[int, date]) -> tuple[int, date]:
    seen.append(value)
    return value


@task
def take_open_tuple(value: tuple[UUID, ...]) -> tuple[UUID, ...]:
    seen.append(value)
    return value


@task
def take_list(value: list[UUID]) -> list[UUID]:
    seen.append(value)
    return value


@task
def take_mapping(value: Mapping[str, Decimal]) -> dict[str, Decimal]:
    seen.append(value)
    return dict(value)


@task
def take_dates(value: dict[date, list[Decimal]]) -> dict[date, list[Decimal]]:
    seen.append(value)
    return value


@task
def take_counts(value: dict[int, str]) -> dict[int, str]:
    seen.append(value)
    return value


@task
def take_either(value: UUID | date | str) -> UUID | date | str:
    seen.append(value)
    return value


@task
def take_any(first: Any, second: Any = None, *rest: date, when: datetime = None, **others: UUID) -> None:  # noqa: RUF013 - as people write it
    seen.append((first, second, *rest, when, others))


@task
def take_unresolved(value: Permission, on: date) -> None:
    seen.append((value, on))


@task
def take_plain(value: Any, data: dict[str, Any] = {}) -> Any:  # noqa: B006 - as people write it
    seen.append(value)
    return value


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@task
@transaction.atomic
@passing_on
def decorated(value: date) -> date:
    seen.append(value)
    return value


@task
def greet(group: Group, friends: list[Group] | None = None) -> Group:
    seen.append([group, *(friends or [])])
    return group


@task
def greet_all(groups: list[Group], first: Group) -> None:
    seen.append([first, *groups])


@task
async def agreet(group: Group) -> str:
    seen.append(group)
    return group.name


@task
@lane("group-{group}", concurrency=1)
def in_lane(group: Group) -> None:
    """Runs in the lane of its group."""


@task
def greet_either(who: Group | User) -> None:
    seen.append(who)


@task
@retry(max_attempts=3)
def lie(n: int) -> Decimal:
    """Returns what its annotation does not promise."""
    return n  # type: ignore[return-value]


@task
def endless() -> Decimal:
    return Decimal("Infinity")


def price_of(day: date) -> Decimal:
    seen.append(day)
    return Decimal("9.90")


@task(takes_context=True)
def flow(context: Any, day: date) -> list[Any]:
    price = context.step("price", price_of, day)
    context.sleep("a while", 1)
    sizes = list(context.gather("colors", [call(take_color, Color.RED), call(take_date, day)]))
    seen.append([price, *sizes])
    return [day.isoformat()]


@task
def later(before: date, days: timedelta) -> date:
    return before + days
