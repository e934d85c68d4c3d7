"""Names of lanes, filled in from the arguments of a call."""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from string import Formatter
from typing import Any

from ...errors import InvalidCall
from ..payload import checked_name

MAX_LANE = 100
RESERVED = ("queue:", "function:")  # begins the name of what is limited as a whole: a queue, a function


@cache
def fields_of(template: str) -> tuple[str, ...]:
    """Return the arguments that a template names. Raises ValueError if it is no template."""
    return tuple(field for _, field, _, _ in Formatter().parse(template) if field is not None)


def wrong_with(template: str, parameters: frozenset[str] | None) -> str:
    """Return why this template cannot be filled from these parameters; None if they are not known."""
    try:
        named = fields_of(template)
    except ValueError as error:
        return f"{error}"
    for field in named:
        if not field.isidentifier():
            return f"{{{field}}} is no name of an argument"
        if parameters is not None and field not in parameters:
            return f"the function has no argument {field!r} (it has {', '.join(sorted(parameters)) or 'none'})"
    return ""


def fill_lane(template: str, arguments: Mapping[str, Any]) -> str:
    """The name of the lane of this call."""
    try:
        named = {name: plain(value) for name, value in arguments.items()}
        return template.format_map(named) if fields_of(template) else template
    except KeyError as missing:
        raise InvalidCall(
            f"The lane {template!r} needs the argument {missing}, which this call does not give."
        ) from None
    except (ValueError, IndexError, AttributeError) as error:
        raise InvalidCall(f"The lane {template!r} cannot be filled in: {error}.") from None


def plain(value: Any) -> Any:
    """Return the primary key of an instance, of which the argument is a reference."""
    return value["pk"] if isinstance(value, dict) and {"$ref", "pk"} <= value.keys() else value


def checked_lane(name: str) -> str:
    if isinstance(name, str) and name.startswith(RESERVED):
        raise InvalidCall(f"lane={name!r}: {' and '.join(RESERVED)} begin the names of whole queues and functions.")
    return checked_name(name, "lane", MAX_LANE)


def name_of_function(path: str) -> str:
    """The lane of a function that names none. Paths that are too long end in a digest."""
    return path if len(path) <= MAX_LANE else f"{path[: MAX_LANE - 13]}…{sha256(path.encode()).hexdigest()[:12]}"


@cache
def matcher(template: str) -> re.Pattern[str]:
    """Matches the names that a template makes."""
    literal = [re.escape(text) + ("" if field is None else ".*") for text, field, _, _ in Formatter().parse(template)]
    return re.compile("".join(literal), re.DOTALL)
