"""Arguments, results and texts in the one form that both databases store and give back unchanged."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidPayload

MAX_DEPTH = 64
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def canonical(value: Any, where: str, depth: int = 0) -> Any:
    """The value as plain JSON, or InvalidPayload naming the place that is not."""
    match value:
        case None | bool():
            return value
        case str():
            return checked_text(value, where)
        case int():
            return checked_int(value, where)
        case float():
            return canonical_float(value, where)
    if depth == MAX_DEPTH:
        raise InvalidPayload(f"{where} is nested deeper than {MAX_DEPTH} levels. Pass a flatter value or an id.")
    match value:
        case list() | tuple():
            return [canonical(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
        case Mapping():
            return canonical_object(value, where, depth)
    raise InvalidPayload(
        f"Unsupported type: {where} is a {type(value).__name__}, which is not JSON. "
        "Pass plain data, such as a primary key or an ISO date."
    )


def canonical_object(value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise InvalidPayload(
                f"{where} has the key {key!r}, a {type(key).__name__}. JSON keys are strings: convert it with str()."
            )
        checked_text(key, f"a key of {where}")
    # The order in which PostgreSQL's jsonb keeps keys, so that SQLite gives back the same.
    ordered = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
    return {key: canonical(value[key], f"{where}[{key!r}]", depth + 1) for key in ordered}


def checked_text(text: str, where: str) -> str:
    bad = UNSTORABLE.search(text)
    if bad:
        raise InvalidPayload(
            f"{where} holds the character U+{ord(bad.group()):04X} at position {bad.start()}, "
            "which a database cannot store. Remove it, or encode the bytes as base64."
        )
    return str.__str__(text)  # the text itself, also where it is the member of an enumeration


def checked_int(number: int, where: str) -> int:
    if number.bit_length() > 4096:
        raise InvalidPayload(f"{where} is an integer of {number.bit_length()} bits; at most 4096 can be stored.")
    return int(number)


def canonical_float(number: float, where: str) -> float | int:
    if not math.isfinite(number):
        raise InvalidPayload(f"{where} is {number!r}, which JSON cannot express. Pass None or a string.")
    # PostgreSQL's jsonb gives a float written with an exponent back as an integer, and knows no negative zero.
    if abs(number) >= 1e16:
        return int(number)
    return float(number) + 0.0


# Made once: json.dumps would make one for every call.
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dump(value: Any) -> str:
    return ENCODER.encode(value)


def check_size(text: str, limit: int, where: str) -> str:
    size = len(text.encode())
    if size > limit:
        raise InvalidPayload(
            f"{where} takes {size:,} bytes as JSON; the limit is {limit:,}. Store the data and pass its id."
        )
    return text


def storable(text: str) -> str:
    """Escape what a database cannot store; nothing is lost."""
    return UNSTORABLE.sub(lambda bad: f"\\u{ord(bad.group()):04x}", text)


def noted(text: str) -> str:
    """A remark of a person or of code, as it can be stored."""
    return clip(storable(text), 2048)


def clip(text: str, limit: int, cut: int = 0) -> str:
    """At most `limit` bytes: the head and the tail, with a mark that tells what was cut, now and before."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    mark = f"\n… {len(raw) - limit + cut:,} bytes cut …\n"
    head, tail = limit // 3, limit - limit // 3 - len(mark.encode())
    if tail <= 0:
        return raw[:limit].decode(errors="ignore")
    return raw[:head].decode(errors="ignore") + mark + raw[-tail:].decode(errors="ignore")
