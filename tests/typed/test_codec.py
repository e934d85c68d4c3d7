"""Values of annotated types come back equal from readable JSON; what does not fit is refused with its place."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Optional
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.errors import InvalidPayload, NewerFormat
from django_tasks_retry.rules.codec.annotations import codec_of
from django_tasks_retry.rules.codec.values import read, written
from tests.typed import tasks
from tests.typed.tasks import Color, Kind, Line, Point, Row, Shape, Size

ID = UUID("018f3c1e-0000-7000-8000-000000000001")
NOON = datetime(2026, 11, 18, 12, 0, 0, 7, tzinfo=timezone(timedelta(hours=1)))
LINE = Line("a-1", Decimal("9.90"), date(2026, 1, 2), [Line("b", Decimal("1"))], {Color.RED, Color.BLUE})

STORED: list[tuple[Any, Any, Any]] = [
    (datetime, NOON, "2026-11-18T12:00:00.000007+01:00"),
    (datetime, datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
    (date, date(2026, 1, 2), "2026-01-02"),
    (date, datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
    (time, time(3, 4, 5, 6), "03:04:05.000006"),
    (timedelta, timedelta(days=1, hours=2), "P1DT02H00M00S"),
    (timedelta, timedelta(microseconds=-1), "-P0DT00H00M00.000001S"),
    (UUID, ID, str(ID)),
    (tasks.OrderId, ID, str(ID)),
    (Annotated[UUID, "an id"], ID, str(ID)),
    (Decimal, Decimal("9.90"), "9.90"),
    (Color, Color.RED, "red"),
    (Size, Size.SMALL, 1),
    (Kind, Kind.GIFT, "gift"),
    (Shape, Shape.SQUARE, "SQUARE"),
    (Optional[date], None, None),  # noqa: UP045 - as people write it
    (list[UUID], [ID], [str(ID)]),
    (set[int], {3, 1, 2}, [1, 2, 3]),
    (frozenset[Color], frozenset({Color.RED, Color.BLUE}), ["blue", "red"]),
    (tuple[int, date], (1, date(2026, 1, 2)), [1, "2026-01-02"]),
    (tuple[UUID, ...], (ID,), [str(ID)]),
    (tuple, (1, "a"), [1, "a"]),
    (dict[str, Decimal], {"a": Decimal("1.0")}, {"a": "1.0"}),
    (dict[int, str], {1: "a"}, {"1": "a"}),
    (dict[UUID, int], {ID: 1}, {str(ID): 1}),
    (Point, Point(1, date(2026, 1, 2)), {"x": 1, "on": "2026-01-02"}),
    (Row, {"on": date(2026, 1, 2)}, {"on": "2026-01-02"}),
    (
        Line,
        LINE,
        {
            "sku": "a-1",
            "price": "9.90",
            "due": "2026-01-02",
            "children": [{"sku": "b", "price": "1", "due": None, "children": [], "colors": []}],
            "colors": ["blue", "red"],
        },
    ),
    (UUID | str, ID, {"$type": "UUID", "value": str(ID), "$v": 1}),
    (UUID | str, str(ID), str(ID)),
    (date | datetime, datetime(2026, 1, 2), {"$type": "datetime", "value": "2026-01-02T00:00:00", "$v": 1}),
    (Color | Kind | None, Kind.GIFT, {"$type": "Kind", "value": "gift", "$v": 1}),
    (list[int | Decimal], [1, Decimal("1")], [1, {"$type": "Decimal", "value": "1", "$v": 1}]),
]


@pytest.mark.parametrize(("annotation", "value", "stored"), STORED, ids=map(str, range(len(STORED))))
def test_a_value_is_stored_as_readable_json_and_comes_back_as_its_type(
    annotation: Any, value: Any, stored: Any
) -> None:
    codec = codec_of(annotation)
    found = written(codec, value, "value")
    assert json.loads(json.dumps(found)) == stored
    back = read(codec, stored, "value")
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(("annotation", "value", "stored"), STORED, ids=map(str, range(len(STORED))))
def test_what_is_stored_may_be_enqueued_again(annotation: Any, value: Any, stored: Any) -> None:
    assert written(codec_of(annotation), stored, "value") == stored


@pytest.mark.parametrize(
    "annotation", [None, Any, int, str, bool, list, dict, list[int], dict[str, Any], "text", [int], object, Ellipsis]
)
def test_annotations_that_json_says_all_of_cost_nothing(annotation: Any) -> None:
    assert codec_of(annotation) is None


REFUSED: list[tuple[Any, Any, str]] = [
    (datetime, "tomorrow", "value is 'tomorrow', which does not fit the annotation datetime: ValueError"),
    (datetime, 5, "value is 5, which does not fit the annotation datetime"),
    (UUID, "abc", "value is 'abc', which does not fit the annotation UUID"),
    (Decimal, Decimal("NaN"), "value is of the class Decimal, which does not fit the annotation Decimal"),
    (Decimal, Decimal("Infinity"), "it is not finite"),
    (Decimal, True, "value is True"),
    (Color, "green", "value is 'green', which does not fit the annotation Color"),
    (list[UUID], ["abc"], "value[0] is 'abc'"),
    (list[UUID], "abc", "value is 'abc', which does not fit the annotation list"),
    (dict[str, Decimal], {"a": "x"}, "value['a'] is 'x'"),
    (tuple[int, date], (1,), "it has 1 items, not 2"),
    (Line, {"price": "x"}, "value['price'] is 'x'"),
    (date | UUID, "x", "value fits none of the annotations date | UUID"),
    (UUID | str, {"$type": "Elsewhere", "value": 1}, "value has $type 'Elsewhere', which is none of UUID"),
]


@pytest.mark.parametrize(("annotation", "value", "words"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(annotation: Any, value: Any, words: str) -> None:
    with pytest.raises(InvalidPayload) as refusal:
        written(codec_of(annotation), value, "value")
    assert words in str(refusal.value)


def test_a_subclass_with_more_fields_is_refused() -> None:
    class Longer(Line):
        pass

    with pytest.raises(InvalidPayload, match="of the class Longer"):
        written(codec_of(Line), Longer("a", Decimal(1)), "value")


def test_a_later_format_is_told_apart_from_a_wrong_value() -> None:
    with pytest.raises(NewerFormat, match="format 2"):
        read(codec_of(UUID | str), {"$type": "UUID", "value": str(ID), "$v": 2}, "value")


@given(st.datetimes(timezones=st.none() | st.timezones()))
def test_every_instant_comes_back(moment: datetime) -> None:
    codec = codec_of(datetime)
    # Compared as text: no instant of another zone equals one in the hour that a change of clocks leaves out.
    assert read(codec, written(codec, moment, "value"), "value").isoformat() == moment.isoformat()


@given(st.timedeltas())
def test_every_duration_comes_back(duration: timedelta) -> None:
    codec = codec_of(timedelta)
    assert read(codec, written(codec, duration, "value"), "value") == duration


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_every_number_comes_back_digit_by_digit(number: Decimal) -> None:
    codec = codec_of(Decimal)
    assert str(read(codec, written(codec, number, "value"), "value")) == str(number)
