"""Typed values as plain JSON and back, by the annotations of a parameter or a return value.

Scalars are texts in their usual form, collections are arrays and objects: people read them, SQL and other languages
write them. Other forms are objects of our own with `$v`, the version of the form. No name in the JSON is imported:
classes come from annotations.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias
from uuid import UUID

from django.utils.dateparse import parse_duration
from django.utils.duration import duration_iso_string

from ...errors import Abort, InvalidPayload, NewerFormat, TaskCancelled, TaskTimeout
from ..names import name_of
from ..payload import Place, path_text, short

VERSION = 1
CHOICE = "$type"
JSON_TYPES = (str, int, float, bool, list, tuple, dict)
Load: TypeAlias = Callable[[Mapping[str, Any]], Any]  # returns the instance that a reference names


def no_instances(_reference: Mapping[str, Any]) -> Any:
    raise TypeError("give an instance")


class Codec:
    """Writes values of one class as plain JSON, and reads them back. None is always None."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.name = name_of(kind)

    def holds(self, value: Any) -> bool:
        return isinstance(value, self.kind)

    def write(self, value: Any, where: Place) -> Any:
        """Return the JSON of a value, or of JSON that stands for one, as another language would enqueue it."""
        with misfits(self, value, where):
            return self.dump(value, where) if self.holds(value) else self.rewrite(value, where)

    def read(self, data: Any, where: Place, load: Load = no_instances) -> Any:
        with misfits(self, data, where):
            return self.load(data, where, load)

    def dump(self, value: Any, where: Place) -> Any:
        raise NotImplementedError

    def load(self, data: Any, where: Place, load: Load) -> Any:
        raise NotImplementedError

    def rewrite(self, value: Any, where: Place) -> Any:
        return self.dump(self.load(value, where, no_instances), where)


@contextmanager
def misfits(codec: Codec, value: Any, where: Place) -> Iterator[None]:
    """Around a conversion, which may be code of the project: whatever it raises, the value does not fit."""
    try:
        yield
    except (Abort, InvalidPayload, TaskTimeout, TaskCancelled):
        raise
    except Exception as error:
        kind = type(value)
        shown = short(repr(value)) if kind in JSON_TYPES else f"of the class {name_of(kind)}"
        raise InvalidPayload(
            f"{path_text(where)} is {shown}, which does not fit the annotation {codec.name}: "
            f"{name_of(type(error))}: {short(str(error))}."
        ) from error


def written(codec: Codec | None, value: Any, where: Place) -> Any:
    return value if codec is None or value is None else codec.write(value, where)


def read(codec: Codec | None, data: Any, where: Place, load: Load = no_instances) -> Any:
    return data if codec is None or data is None else codec.read(data, where, load)


class Scalar(Codec):
    """A value that has a text."""

    def __init__(self, kind: type, dump: Callable[[Any], str], load: Callable[[Any], Any], *forms: type) -> None:
        super().__init__(kind)
        self.to_text, self.parse, self.forms = dump, load, (str, *forms)

    def dump(self, value: Any, where: Place) -> Any:
        return self.to_text(value)

    def load(self, data: Any, where: Place, load: Load) -> Any:
        if type(data) not in self.forms:
            raise TypeError(f"give a {self.name}, or its text")
        return self.parse(data)


def read_date(text: str) -> date:
    """A datetime is a date, too, and comes back as it was."""
    return datetime.fromisoformat(text) if len(text) > len("2026-01-01") else date.fromisoformat(text)


def read_duration(data: str | float) -> timedelta:
    found = parse_duration(data) if isinstance(data, str) else timedelta(seconds=data)
    if found is None:
        raise ValueError("write it like P1DT2H")
    return found


def finite(number: Decimal) -> Decimal:
    if not number.is_finite():
        raise ValueError("it is not finite")
    return number


SCALARS: dict[Any, Codec] = {
    datetime: Scalar(datetime, datetime.isoformat, datetime.fromisoformat),
    date: Scalar(date, lambda value: value.isoformat(), read_date),
    time: Scalar(time, time.isoformat, time.fromisoformat),
    timedelta: Scalar(timedelta, duration_iso_string, read_duration, int, float),
    UUID: Scalar(UUID, str, UUID),
    Decimal: Scalar(Decimal, lambda value: str(finite(value)), lambda data: finite(Decimal(str(data))), int, float),
}
INTEGER_KEY = Scalar(int, str, int)


class EnumMember(Codec):
    """A member of an enumeration, by its value; by its name if some value is neither text nor number."""

    @cached_property
    def by_value(self) -> bool:
        return all(type(member.value) in {str, int} for member in self.kind.__members__.values())

    def dump(self, value: Any, where: Place) -> Any:
        return value.value if self.by_value else value.name

    def load(self, data: Any, where: Place, load: Load) -> Any:
        return self.kind(data) if self.by_value else self.kind[data]


class Items(Codec):
    """A collection, as an array: with one codec for all items, or one for each. Sets are sorted."""

    def __init__(self, kind: type, item: Codec | None, each: Sequence[Codec | None] | None = None) -> None:
        super().__init__(kind)
        self.item, self.each = item, each

    def pairs(self, value: Any) -> Iterator[tuple[int, Codec | None, Any]]:
        if not isinstance(value, list | tuple | set | frozenset):
            raise TypeError(f"give a {self.name}")
        if self.each is not None and len(value) != len(self.each):
            raise ValueError(f"it has {len(value)} items, not {len(self.each)}")
        for i, item in enumerate(value):
            yield i, self.item if self.each is None else self.each[i], item

    def dump(self, value: Any, where: Place) -> Any:
        items = [written(codec, item, (where, i)) for i, codec, item in self.pairs(value)]
        return in_order(items) if issubclass(self.kind, set | frozenset) else items

    rewrite = dump

    def load(self, data: Any, where: Place, load: Load) -> Any:
        return self.kind([read(codec, item, (where, i), load) for i, codec, item in self.pairs(data)])


def in_order(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=repr))


class Values(Codec):
    """A mapping, as an object."""

    def __init__(self, key: Codec | None, value: Codec | None) -> None:
        super().__init__(dict)
        self.key, self.value = key, value

    def dump(self, value: Any, where: Place) -> Any:
        pairs = [(written(self.key, key, where), each) for key, each in value.items()]
        return {key: written(self.value, each, (where, key)) for key, each in pairs}

    rewrite = dump

    def load(self, data: Any, where: Place, load: Load) -> Any:
        return {read(self.key, key, where): read(self.value, each, (where, key), load) for key, each in data.items()}


class Fields(Codec):
    """A dataclass, a named tuple or a typed dictionary, as an object. Its constructor reads it back."""

    def __init__(self, kind: type, find: Callable[[type], dict[str, Codec | None]]) -> None:
        super().__init__(kind)
        self.find = find

    @cached_property
    def fields(self) -> dict[str, Codec | None]:
        """Read when needed, for a class may contain itself."""
        return self.find(self.kind)

    def holds(self, value: Any) -> bool:
        return type(value) is self.kind

    def dump(self, value: Any, where: Place) -> Any:
        return self.rewrite({name: getattr(value, name) for name in self.fields}, where)

    def rewrite(self, value: Any, where: Place) -> Any:
        given = dict(zip(self.fields, value, strict=True)) if isinstance(value, list | tuple) else dict(value)
        return {name: written(self.fields.get(name), each, (where, name)) for name, each in given.items()}

    def load(self, data: Any, where: Place, load: Load) -> Any:
        known = self.fields
        return self.kind(**{name: read(known.get(name), each, (where, name), load) for name, each in data.items()})


class Foreign(Codec):
    """A class of a library with a JSON of its own: Pydantic's models, the structs of msgspec."""

    def __init__(self, kind: Any, dump: Callable[[Any], Any], parse: Callable[[str], Any]) -> None:
        super().__init__(kind)
        self.to_json, self.parse = dump, parse

    def dump(self, value: Any, where: Place) -> Any:
        data = json.loads(self.to_json(value))
        if self.parse(json.dumps(data)) != value:
            raise ValueError("its JSON does not give it back")
        return data

    def load(self, data: Any, where: Place, load: Load) -> Any:
        return self.parse(json.dumps(data))


class Choice(Codec):
    """One of several classes, named beside the value. Plain JSON stays as it is if the annotation allows any."""

    def __init__(self, codecs: Sequence[Codec], *, may_be_plain: bool) -> None:
        super().__init__(object)
        self.codecs, self.may_be_plain = codecs, may_be_plain
        self.name = " | ".join(each.name for each in codecs)

    def write(self, value: Any, where: Place) -> Any:
        if isinstance(value, Mapping) and CHOICE in value:
            return {**value, "value": self.named(value, where).write(value.get("value"), where)}
        nearest = sorted(self.codecs, key=lambda each: each.kind is not type(value))
        holders = [each for each in nearest if each.holds(value)] or ([] if self.may_be_plain else nearest)
        for codec in holders:
            with suppress(InvalidPayload):
                return {CHOICE: codec.name, "value": codec.write(value, where), "$v": VERSION}
        if self.may_be_plain:
            return value
        raise InvalidPayload(f"{path_text(where)} fits none of the annotations {self.name}.")

    def read(self, data: Any, where: Place, load: Load = no_instances) -> Any:
        if not (isinstance(data, Mapping) and CHOICE in data):
            return data
        check_version(data, where)
        return self.named(data, where).read(data.get("value"), where, load)

    def named(self, data: Mapping[str, Any], where: Place) -> Codec:
        for codec in self.codecs:
            if codec.name == data[CHOICE]:
                return codec
        raise InvalidPayload(f"{path_text(where)} has {CHOICE} {data[CHOICE]!r}, which is none of {self.name}.")


def check_version(data: Mapping[str, Any], where: Place) -> None:
    if data.get("$v", VERSION) != VERSION:
        raise NewerFormat(f"{path_text(where)} has the format {data['$v']!r}; this release reads {VERSION}.")


class Unresolved(Codec):
    """An annotation that names what cannot be found. Plain JSON passes."""

    def __init__(self, text: Any, error: Exception) -> None:
        super().__init__(object)
        self.text, self.error = text, error

    def write(self, value: Any, where: Place) -> Any:
        if isinstance(value, JSON_TYPES):
            return value
        raise InvalidPayload(
            f"{path_text(where)} is of the class {name_of(type(value))}, and its annotation {self.text!r} cannot be "
            f"read: {self.error}. Import its names in that module, outside of `if TYPE_CHECKING`."
        )

    def read(self, data: Any, where: Place, load: Load = no_instances) -> Any:
        return data
