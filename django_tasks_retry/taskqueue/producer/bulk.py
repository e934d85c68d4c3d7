"""Bulk: a long list of calls, of which the next chunk is checked while the server writes the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from django.db import transaction

from ...errors import InvalidCall
from ...middleware import hooks
from ...models import Task
from ..database import database
from .backlog import is_capped, store
from .insert import insert_each


def store_each(chunks: Iterator[list[Task]]) -> list[Task]:
    """All or nothing, in the order of the calls."""
    first = next(chunks)
    using = home_of(first)
    left: list[Task] = []
    with transaction.atomic(using=using):
        stored = insert_each(plain_ones(chain([first], chunks), left), using)
        return stored + store(left, using) if left else stored


def plain_ones(chunks: Iterable[list[Task]], left: list[Task]) -> Iterator[list[Task]]:
    """Chunks until one needs more than to be written. It is left with all that follow, to be stored together."""
    first: list[Task] = []
    for chunk in chunks:
        first = first or chunk[:1]
        home_of([*first, *chunk])
        if left or not is_plain(chunk):
            left += chunk
        else:
            yield chunk


def is_plain(tasks: Sequence[Task]) -> bool:
    """Whether no code of the project, no cap and no unique key has a say in them."""
    if any(task.unique_key for task in tasks) or is_capped(tasks):
        return False
    return not any(hooks(backend, "enqueue") for backend in {task.backend for task in tasks})


def home_of(tasks: Sequence[Task]) -> str:
    """The one database of these tasks: no transaction spans two, so what is enqueued together must live together."""
    homes = {backend: database(backend) for backend in {task.backend for task in tasks}}
    if len(set(homes.values())) > 1:
        places = ", ".join(f"{backend!r} in the database {using!r}" for backend, using in sorted(homes.items()))
        raise InvalidCall(
            f"enqueue_many() stores all tasks or none, and these live in several databases: {places}. "
            "Call enqueue_many() once for each database."
        )
    return next(iter(homes.values()))
