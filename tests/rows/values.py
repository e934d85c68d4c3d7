"""Values that a column's type admits, though no release writes them. By Django's name of the type."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import models

DEEP = "[" * 5000 + "]" * 5000
SELF, OTHER = "the row itself", "a sound row"
"""Stand-ins for keys that are known when the row is written."""


class Odd(NamedTuple):
    label: str
    value: Any
    sql: str = "%s"


TIMES = (
    "infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "0001-01-01 00:00:00+00", "1900-01-01 00:00:00+00",
    "1970-01-01 00:00:00+00", "9099-12-31 23:59:59.999999+00", "9999-12-31 23:59:59.999999+00",
    "294276-12-31 23:59:59+00",
)  # fmt: skip
SQLITE_TIMES = (
    "", "x", "2026-99-99 00:00:00", "0001-01-01 00:00:00", "1900-01-01 00:00:00", "1970-01-01 00:00:00.000000",
    "9099-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999", "20000-01-01 00:00:00",
)  # fmt: skip
TEXTS = (
    "", "*", "[", "<script>alert(1)</script>", "two\nlines", "\x01\x1b[2J", "%s %(a)s {0}", "'; --", "../../etc/passwd",
    "batch:nonsense", "signal:", "user:99999999999999999999",
)  # fmt: skip
DOCUMENTS = (
    "null", "5", "true", '""', '"x"', "[]", "{}", "[null]", "[5]", '["x"]', "[[1]]", '[{"a": 1}]', '{"a": 1}',
    '{"batch": 5, "count": "x"}', '{"error": 5, "terminal": 5, "process": 5, "left_behind": 5}',
    '{"eta": 5, "log": [5], "reason": {"a": 1}, "cause": 5}', '{"error": {"code": 5}, "log": 5, "process": {"a": []}}',
    "[1e5000]", "-1e5000", "9" * 5000, DEEP, '{"a": ' + DEEP + "}", f'"{"x" * 1_000_000}"', '"<script>"',
)  # fmt: skip
NUMBERS = ("NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "0", "-1")
BITS = {
    "SmallIntegerField": 15, "PositiveSmallIntegerField": 15, "IntegerField": 31, "PositiveIntegerField": 31,
    "BigIntegerField": 63, "BigAutoField": 63,
}  # fmt: skip
KEYS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", SELF, OTHER)


STORED_OTHERWISE = [
    Odd("text", "x"), Odd("empty text", ""), Odd("integer", 5), Odd("real", 0.5), Odd("endless", float("inf")),
    Odd("bytes", b"\0\xff"), Odd("no UTF-8", b"\xffx", "CAST(%s AS TEXT)"),
]  # fmt: skip
"""A column of SQLite stores values of any type, and texts in any encoding."""


def odd_values(field: models.Field[Any, Any], vendor: str) -> list[Odd]:
    """Return what this column can be made to hold, as far as its type is concerned."""
    kind = field.target_field if isinstance(field, models.ForeignKey) else field
    found = [Odd("NULL", None)]
    if vendor == "sqlite" and not (kind.primary_key and kind.get_internal_type() == "BigAutoField"):
        found += STORED_OTHERWISE
    match kind.get_internal_type():
        case "DateTimeField":
            found += [Odd(text, text) for text in (TIMES if vendor == "postgresql" else SQLITE_TIMES)]
        case "JSONField":
            found += [Odd(text[:60], text) for text in DOCUMENTS]
        case "FloatField":
            # In SQLite NaN would be a text, which its columns of numbers keep as it is.
            found += [number(text, vendor) for text in NUMBERS if vendor == "postgresql" or text != "NaN"]
        case "UUIDField":
            found += keys(vendor)
        case "BooleanField":
            found += [Odd(str(value), value) for value in (True, False)]
        case name if name in BITS:
            most = 2 ** BITS[name]
            found += [Odd(str(value), value) for value in (0, 1, -1, -most)]
            # SQLite counts on from the largest id, and whoever can write its file can do anything.
            found += [Odd(str(most - 1), most - 1)] if name != "BigAutoField" or vendor == "postgresql" else []
        case "CharField":
            found += texts(kind, vendor)
        case name:
            raise AssertionError(f"{field} is a {name}: say which values that type admits")
    return found


def number(text: str, vendor: str) -> Odd:
    """SQLite reads infinity as a number that is too large."""
    return Odd(text, text if vendor == "postgresql" else text.replace("Infinity", "9e999"))


def keys(vendor: str) -> list[Odd]:
    if vendor == "postgresql":
        return [Odd(text, text) for text in KEYS]
    return [*(Odd(text, text if " " in text else text.replace("-", "")) for text in KEYS)]


def texts(field: models.Field[Any, Any], vendor: str) -> list[Odd]:
    length = field.max_length or 0
    found = [Odd(repr(text), text) for text in TEXTS if len(text) <= length]
    found += [Odd("as long as can be", "x" * length), Odd("of four bytes each", "\U0001f600" * length)]
    if vendor != "postgresql":
        found += [Odd("NUL", "a\0b")]
    return found
