"""Arguments, results and texts in the one form that both databases store and give back unchanged."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias
from uuid import UUID

from ..errors import InvalidCall, InvalidPayload, TaskCancelled, TaskTimeout
from .names import name_of
from .redact import redact_text

MAX_DEPTH = 64
MOST_BYTES = 16 * 1024 * 1024  # the limit of any value; the options set lower ones
EVERYTHING = slice(None)
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
MOST_GROWTH = 10  # the factor by which JSON may take more bytes than a budget has counted, with room for brackets


class Budget:
    """Bytes that a value may take as JSON, counted while it is walked, never more than it will take in the end."""

    __slots__ = ("left", "limit", "what")

    def __init__(self, limit: int, what: str) -> None:
        self.left = self.limit = limit
        self.what = what

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise too_large(self.what, self.limit)

    def surely_holds(self) -> bool:
        """Return whether the value surely fits, so that it need not be encoded to be measured.

        A character takes at most six bytes, a number eight times as many as were counted.
        """
        return (self.limit - self.left) * MOST_GROWTH + MOST_GROWTH <= self.limit


def too_large(what: str, limit: int) -> InvalidPayload:
    return InvalidPayload(f"{what} takes more than {limit:,} bytes as JSON. Store the data and pass its id.")


Place: TypeAlias = "str | tuple[Place, int | str]"
"""A name, or an index or key of another place: put into words only if something is wrong there."""


def path_text(where: Place) -> str:
    if isinstance(where, str):
        return where
    whole, part = where
    return f"{path_text(whole)}[{short(part)!r}]" if isinstance(part, str) else f"{path_text(whole)}[{part}]"


def canonical(value: Any, where: Place, budget: Budget | None = None, depth: int = 0) -> Any:
    """The value as plain JSON, or InvalidPayload naming the place that is not.

    The built-in class of a value counts, whatever a subclass makes of it; the work is bounded by the budget.
    """
    form = FORMS.get(type(value)) or form_of(value, where)
    return form(value, where, budget or Budget(MOST_BYTES, path_text(where)), depth)


Form: TypeAlias = Callable[[Any, Place, Budget, int], Any]


def form_of(value: Any, where: Place) -> Form:
    """The form of a value whose class is derived from a built-in one, or is some other mapping."""
    kind = type(value)
    for base, form in FORMS.items():
        if issubclass(kind, base):
            return form
    with own_code(where):
        if issubclass(kind, Mapping):
            return canonical_mapping
    name = name_of(kind)
    raise InvalidPayload(
        f"Unsupported type: {path_text(where)} is {article(name)} {name}, which is not JSON. "
        f"{instead_of(kind)}{annotate(kind, where)}"
    )


def annotate(kind: type, where: Place) -> str:
    """Advise an annotation, if there is one that lets values of this class in."""
    while not isinstance(where, str):
        where = where[0]
    subject = ANNOTATED.get(where)
    bases: tuple[type, ...] = BASES.__get__(kind)
    is_typed = any(base in TYPED or {"_meta", "__dataclass_fields__"} & vars(base).keys() for base in bases)
    return f" Or annotate {subject} with its type." if subject and is_typed else ""


ANNOTATED = {"args": "the parameter", "kwargs": "the parameter", "The return value": "the function's return"}
TYPED = (UUID, Decimal, date, time, timedelta, set, frozenset, Enum)
"""Classes whose values an annotation lets in; see rules/codec."""

ISO = (datetime, date, time)  # `datetime` before `date`, which it is derived from
INSTEAD: dict[type, str] = {
    **{kind: f"Pass str(value), and read it with {kind.__name__}(text)." for kind in (UUID, Decimal)},
    **{kind: f"Pass value.isoformat(), and read it with {kind.__name__}.fromisoformat(text)." for kind in ISO},
    **dict.fromkeys((set, frozenset), "Pass a list, such as sorted(value)."),
    timedelta: "Pass value.total_seconds().",
    bytes: "Store the bytes and pass their key, or encode them as base64.",
    Enum: "Pass its value.",
    PurePath: "Pass str(value).",
}
"""Advice for common values that are not JSON."""


def instead_of(kind: type) -> str:
    bases: tuple[type, ...] = BASES.__get__(kind)
    for known, advice in INSTEAD.items():
        if known in bases:
            return advice
    if any("_meta" in vars(base) for base in bases):  # a model of Django's
        return "Pass its primary key, and load it in the task."
    return "Pass plain data, such as a primary key or an ISO date."


BASES = type.__dict__["__mro__"]


def article(name: str) -> str:
    """Return the article for a class name: an Order, a UUID, an Upload."""
    return "an" if re.match(r"_*(?:[AEIOaeio]|[Uu](?!ni)[nplr])", name) else "a"


@contextmanager
def own_code(where: Place) -> Iterator[None]:
    """Around what calls methods of a value's own class: whatever they raise, the value cannot be stored."""
    try:
        yield
    except (InvalidPayload, TaskTimeout, TaskCancelled):
        raise
    except Exception as error:
        text = f"{path_text(where)} cannot be read: its own code raised {name_of(type(error))}. Pass plain data."
        raise InvalidPayload(text) from error


def canonical_constant(value: Any, _where: Place, budget: Budget, _depth: int) -> Any:
    budget.spend(4)
    return value


def canonical_text(text: str, where: Place, budget: Budget, _depth: int) -> str:
    budget.spend(str.__len__(text) + 2)
    return checked_text(text, where)


def canonical_int(number: int, where: Place, budget: Budget, _depth: int) -> int:
    bits = int.bit_length(number)
    if bits > 4096:
        raise InvalidPayload(f"{path_text(where)} is an integer of {bits} bits; at most 4096 can be stored.")
    budget.spend(bits * 3 // 10 or 1)
    return int.__int__(number)


def canonical_float(number: float, where: Place, budget: Budget, depth: int) -> float | int:
    number = float.__float__(number)
    if not math.isfinite(number):
        raise InvalidPayload(f"{path_text(where)} is {number!r}, which JSON cannot express. Pass None or a string.")
    # PostgreSQL's jsonb gives a float written with an exponent back as an integer, and knows no negative zero.
    if abs(number) >= 1e16:
        return canonical_int(int(number), where, budget, depth)
    budget.spend(3)
    return number + 0.0


def canonical_list(value: list[Any], where: Place, budget: Budget, depth: int) -> list[Any]:
    check_depth(where, depth)
    budget.spend(list.__len__(value) + 1)
    copied = list.__getitem__(value, EVERYTHING)
    return [canonical(item, (where, i), budget, depth + 1) for i, item in enumerate(copied)]


def canonical_tuple(value: tuple[Any, ...], where: Place, budget: Budget, depth: int) -> list[Any]:
    check_depth(where, depth)
    budget.spend(tuple.__len__(value) + 1)
    return [canonical(item, (where, i), budget, depth + 1) for i, item in enumerate(tuple.__iter__(value))]


def canonical_object(value: dict[Any, Any], where: Place, budget: Budget, depth: int) -> dict[str, Any]:
    check_depth(where, depth)
    budget.spend(2 * dict.__len__(value) + 1)
    try:
        pairs = list(dict.items(value))  # in one step, for other threads may be filling the dictionary
    except RuntimeError as error:
        raise InvalidPayload(f"{path_text(where)} was changed while it was read. Return a copy of it.") from error
    items = {checked_key(key, where, budget): item for key, item in pairs}
    # The order in which PostgreSQL's jsonb keeps keys, so that SQLite gives back the same.
    ordered = sorted(items, key=lambda key: (len(key.encode()), key.encode())) if len(items) > 1 else items
    return {key: canonical(items[key], (where, key), budget, depth + 1) for key in ordered}


def canonical_mapping(value: Mapping[Any, Any], where: Place, budget: Budget, depth: int) -> dict[str, Any]:
    items: dict[Any, Any] = {}
    with own_code(where):
        for key in value:
            items[key] = value[key]
            if len(items) * 5 > budget.left:  # however long it goes on
                raise too_large(budget.what, budget.limit)
    return canonical_object(items, where, budget, depth)


def check_depth(where: Place, depth: int) -> None:
    if depth == MAX_DEPTH:
        text = f"{path_text(where)} is nested deeper than {MAX_DEPTH} levels. Pass a flatter value or an id."
        raise InvalidPayload(text)


def checked_key(key: Any, where: Place, budget: Budget) -> str:
    if type(key) is str and not UNSTORABLE.search(key):
        budget.spend(len(key) + 2)
        return key
    place = f"a key of {path_text(where)}"
    if not issubclass(type(key), str):
        with own_code(place):
            shown = short(repr(key))
        name = name_of(type(key))
        text = f"{path_text(where)} has the key {shown}, {article(name)} {name}."
        raise InvalidPayload(f"{text} JSON keys are strings: convert it with str().")
    return canonical_text(key, place, budget, 0)


def short(text: str) -> str:
    """Shorten a text for messages: a path names every key on its way."""
    return text if len(text) <= 40 else f"{text[:40]}…"


def checked_name(name: object, field: str, longest: int, refusal: type[Exception] = InvalidCall) -> str:
    """Return the name, if a database can store it in so many characters."""
    if not isinstance(name, str) or not 1 <= len(name) <= longest:
        raise refusal(f"{field}={name!r:.140}: give a text of 1 to {longest} characters.")
    return checked_text(name, field)


def checked_text(text: str, where: Place) -> str:
    if bad := UNSTORABLE.search(text):
        what = f"{path_text(where)} holds the character U+{ord(bad.group()):04X} at position {bad.start()}"
        advice = "Remove it, or encode the bytes as base64."
        raise InvalidPayload(f"{what}, which a database cannot store. {advice}")
    return str.__str__(text)  # the text itself, also if it is the member of an enumeration


# `bool` before `int`, which it is derived from.
FORMS: dict[type, Form] = {
    type(None): canonical_constant,
    bool: canonical_constant,
    str: canonical_text,
    int: canonical_int,
    float: canonical_float,
    list: canonical_list,
    tuple: canonical_tuple,
    dict: canonical_object,
}


def encode_of(encoder: json.JSONEncoder) -> Callable[[Any], str]:
    """Its `encode`, with the part that is written in C made once: made anew for each value, it takes most of the time.

    It does not look for circles, which nothing canonical has.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    flags = (encoder.sort_keys, encoder.skipkeys, encoder.allow_nan)
    separators = (encoder.key_separator, encoder.item_separator)
    encode = make(None, encoder.default, json.encoder.encode_basestring, None, *separators, *flags)
    return lambda value: "".join(encode(value, 0))


dump = encode_of(json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def check_size(text: str, limit: int, where: str) -> str:
    if len(text) > limit or len(text.encode()) > limit:
        raise too_large(where, limit)
    return text


def encoded(value: Any, what: str, limit: int) -> tuple[Any, str]:
    """Return the value as it will be read, and its text. InvalidPayload if it cannot be stored in so many bytes."""
    stored = canonical(value, what, Budget(limit, what))
    return stored, check_size(dump(stored), limit, what)


def storable(text: str) -> str:
    """Escape what a database cannot store; nothing is lost."""
    return UNSTORABLE.sub(lambda bad: f"\\u{ord(bad.group()):04x}", text)


def noted(text: str) -> str:
    """Return a remark of a person or of code as it is stored: without secrets, and cut."""
    return clip(storable(redact_text(text)), 2048)


def clip(text: str, limit: int, cut: int = 0) -> str:
    """Cut a text to `limit` bytes: its head and tail, with a mark that tells how much was cut, now and before."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    mark = f"\n… {len(raw) - limit + cut:,} bytes cut …\n"
    head, tail = limit // 3, limit - limit // 3 - len(mark.encode())
    if tail <= 0:
        return raw[:limit].decode(errors="ignore")
    return raw[:head].decode(errors="ignore") + mark + raw[-tail:].decode(errors="ignore")
