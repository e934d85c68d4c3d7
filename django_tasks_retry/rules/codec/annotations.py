"""The codec that an annotation asks for."""

import dataclasses
import inspect
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import Any

from .values import INTEGER_KEY, SCALARS, Choice, Codec, EnumMember, Fields, Foreign, Items, Unresolved, Values

LISTS = {list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable}
SETS = {set: set, frozenset: frozenset, abc.Set: frozenset, abc.MutableSet: set}
MAPPINGS = {dict, abc.Mapping, abc.MutableMapping}
makers: list[Callable[[type], Codec | None]] = []
"""Codecs of further classes: a higher layer adds that of Django's models."""


def codec_of(annotation: Any) -> Codec | None:
    """Return the codec of an annotation. None if plain JSON says it all, or nothing is known of it."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, Codec):
        return annotation
    if origin in {typing.Union, types.UnionType}:
        return choice_of(parts)
    if origin in {typing.Annotated, typing.Required, typing.NotRequired}:
        return codec_of(parts[0])
    if inner := getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None):
        return codec_of(inner)  # a NewType, or a type statement
    kind = origin or annotation
    return class_codec(kind, parts) if isinstance(kind, type) else None


def choice_of(parts: Sequence[Any]) -> Codec | None:
    options = [codec_of(part) for part in parts if part is not type(None)]
    codecs = [codec for codec in options if codec is not None]
    if len(options) == 1:
        return options[0]
    return Choice(codecs, may_be_plain=len(codecs) < len(options)) if codecs else None


@cache
def class_codec(kind: Any, parts: tuple[Any, ...]) -> Codec | None:
    if kind in MAPPINGS:
        key, value = map(codec_of, parts or (str, Any))
        key = INTEGER_KEY if parts and parts[0] is int else key
        return Values(key, value) if key or value else None
    if kind in LISTS or kind in SETS or kind is tuple:
        return items_of(kind, parts)
    if kind in SCALARS:
        return SCALARS[kind]
    return EnumMember(kind) if issubclass(kind, Enum) else composite_of(kind)


def items_of(kind: Any, parts: Sequence[Any]) -> Codec | None:
    if kind is tuple and parts and parts[-1] is not ...:
        return Items(tuple, None, [codec_of(part) for part in parts])
    item = codec_of(parts[0]) if parts else None
    if kind in LISTS:
        return Items(list, item) if item else None
    return Items(SETS.get(kind, tuple), item)


def composite_of(kind: Any) -> Codec | None:
    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if dataclasses.is_dataclass(kind) or is_named_tuple or typing.is_typeddict(kind):
        return Fields(kind, fields_of)
    if hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json"):
        return Foreign(kind, lambda it: it.model_dump_json(by_alias=True, round_trip=True), kind.model_validate_json)
    if hasattr(kind, "__struct_fields__") and (msgspec := sys.modules.get("msgspec")):
        return Foreign(kind, msgspec.json.encode, lambda text: msgspec.json.decode(text, type=kind))
    return next((codec for make in makers if (codec := make(kind)) is not None), None)


def fields_of(kind: Any) -> dict[str, Codec | None]:
    hints = annotations_of(kind)
    named = [each.name for each in dataclasses.fields(kind) if each.init] if dataclasses.is_dataclass(kind) else hints
    return {name: codec_of(hints.get(name)) for name in getattr(kind, "_fields", named)}


def annotations_of(owner: Any) -> dict[str, Any]:
    """Return the annotations of a function or class. One that cannot be resolved costs none of its neighbours."""
    with suppress(Exception):
        return typing.get_type_hints(owner, include_extras=True)
    found: dict[str, Any] = {}
    for each in reversed(inspect.getmro(owner)) if isinstance(owner, type) else (owner,):
        with suppress(Exception):  # a callable that is no function has none
            names = getattr(each, "__globals__", None) or vars(sys.modules[each.__module__])
            found |= {name: resolved(text, names) for name, text in inspect.get_annotations(each).items()}
    return found


def resolved(annotation: Any, names: dict[str, Any]) -> Any:
    alone: Any = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(alone, globalns=names, include_extras=True)["it"]
    except Exception as error:  # noqa: BLE001 - an annotation is code
        return Unresolved(annotation, error)
