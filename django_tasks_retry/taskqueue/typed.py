"""Typed arguments and results: written when a call is enqueued or has returned, read when it runs or is asked for."""

import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, models, router

from .. import registry
from ..errors import Abort, InvalidPayload
from ..rules.codec.annotations import annotations_of, codec_of, makers
from ..rules.codec.values import JSON_TYPES, VERSION, Codec, Load, check_version, read, written
from ..rules.payload import Place

REFERENCE = "$ref"


class TypedCall(NamedTuple):
    """The codecs of a function's parameters."""

    by_place: Sequence[Codec | None]
    further: Codec | None
    by_name: Mapping[str, Codec | None]
    others: Codec | None

    def write(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return self.each(args, kwargs, written)

    def read(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return what the function is called with. Instances are loaded, all of one model by one query."""
        load = Instances([args, kwargs])
        return self.each(args, kwargs, lambda codec, value, where: read(codec, value, where, load))

    def each(
        self, args: Iterable[Any], kwargs: Mapping[str, Any], convert: Callable[[Codec | None, Any, Place], Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        places = len(self.by_place)
        return [
            convert(self.by_place[i] if i < places else self.further, value, ("args", i))
            for i, value in enumerate(args)
        ], {
            name: convert(self.by_name.get(name, self.others), value, ("kwargs", name))
            for name, value in kwargs.items()
        }  # fmt: skip


@cache
def typed_call(function: Callable[..., Any], *, takes_context: bool) -> TypedCall | None:
    """Return the codecs of a function's parameters. None if all of them take JSON as it is."""
    function = behind(function)
    hints = annotations_of(function)
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())[takes_context:]
    codecs = {each.name: codec_of(hints.get(each.name)) for each in parameters}
    if not any(codecs.values()):
        return None
    by_name = [each.name for each in parameters if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}]
    by_place = [each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return TypedCall(
        [codecs[name] for name in by_place],
        next((codecs[each.name] for each in parameters if each.kind is each.VAR_POSITIONAL), None),
        {name: codecs[name] for name in by_name},
        next((codecs[each.name] for each in parameters if each.kind is each.VAR_KEYWORD), None),
    )


def behind(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind decorators that pass everything on, such as `transaction.atomic`."""
    while hasattr(function, "__wrapped__") and passes_on(function):
        function = function.__wrapped__
    return function


def passes_on(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return all(each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} for each in parameters)


# Results


def return_codec(function: Callable[..., Any] | None) -> Codec | None:
    """Return the codec of what a function returns. Those of local functions, which come and go, are not kept."""
    if function is None:
        return None
    is_local = "<" in getattr(function, "__qualname__", "<")
    return annotated_return.__wrapped__(function) if is_local else annotated_return(function)


@cache
def annotated_return(function: Callable[..., Any]) -> Codec | None:
    return codec_of(annotations_of(behind(function)).get("return"))


def write_returned(function: Callable[..., Any] | None, value: Any, where: str) -> Any:
    """Return the JSON of what a function returned. JSON that its annotation does not promise stays as it is."""
    codec = None if value is None else return_codec(function)
    if codec is None:
        return value
    try:
        return codec.write(value, where)
    except InvalidPayload:
        if isinstance(value, JSON_TYPES):
            return value
        raise


def read_returned(function: Callable[..., Any] | None, data: Any, load: Load | None = None) -> Any:
    """Return what the function returned; the stored JSON, if its annotation has changed so that it no longer fits."""
    codec = None if data is None else return_codec(function)
    if codec is None:
        return data
    try:
        return codec.read(data, "The result", load or Instances(data))
    except InvalidPayload:
        return data


def function_of(path: str) -> Callable[..., Any] | None:
    task = registry.find(path)
    return task.func if task else None


# Instances of models


class Instance(Codec):
    """An instance of a model, by reference: its label and its primary key."""

    def dump(self, value: Any, where: Place) -> Any:
        if value.pk is None or value._state.adding:
            raise ValueError("it is not saved")
        pk = value.pk if type(value.pk) in {int, str} else value._meta.pk.value_to_string(value)
        # The database that save() would choose: not the replica that it was read from.
        alias = router.db_for_write(type(value), instance=value)
        elsewhere = {} if alias == DEFAULT_DB_ALIAS else {"db": alias}
        return {REFERENCE: value._meta.label_lower, "pk": pk, "$v": VERSION, **elsewhere}

    def rewrite(self, value: Any, where: Place) -> Any:
        if not isinstance(value, Mapping) or not {REFERENCE, "pk"} <= value.keys():
            raise TypeError("give an instance")
        check_version(value, where)
        if not issubclass(apps.get_model(value[REFERENCE]), self.kind):
            raise TypeError(f"it is a {value[REFERENCE]}")
        return dict(value)

    def load(self, data: Any, where: Place, load: Load) -> Any:
        return load(self.rewrite(data, where))


makers.append(lambda kind: Instance(kind) if issubclass(kind, models.Model) else None)


def model_references(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        if REFERENCE in data and "pk" in data:
            yield data
        data = data.values()
    elif not isinstance(data, list | tuple):
        return
    for each in data:
        yield from model_references(each)


class Instances:
    """The instances that references in some JSON name, loaded by one query for each model and database."""

    def __init__(self, data: Any) -> None:
        wanted: dict[tuple[str, type[models.Model]], dict[str, Any]] = defaultdict(dict)
        for reference in model_references(data):
            try:
                model = apps.get_model(reference[REFERENCE])
                key = reference.get("db", DEFAULT_DB_ALIAS), model
                wanted[key][key_of(reference)] = model._meta.pk.to_python(reference["pk"])
            except (LookupError, ValueError, TypeError, AttributeError, ValidationError):
                continue  # somebody's own JSON
        self.found: dict[str, models.Model] = {}
        for (alias, model), pks in wanted.items():
            rows = model._base_manager.using(alias).in_bulk(list(pks.values()))
            self.found |= {key: rows[pk] for key, pk in pks.items() if pk in rows}

    def __call__(self, reference: Mapping[str, Any]) -> models.Model:
        found = self.found.get(key_of(reference))
        if found is None:
            named = f"{reference[REFERENCE]} {reference['pk']}"
            raise Abort(f"{named} is gone: it was deleted after the task was enqueued.")
        return found


def key_of(reference: Mapping[str, Any]) -> str:
    return json.dumps([reference.get("db", DEFAULT_DB_ALIAS), reference[REFERENCE], reference["pk"]])
