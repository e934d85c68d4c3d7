"""Announce: `task_enqueued` for every new task, whoever enqueued it; nothing where nobody hears it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ... import registry
from ...compat import is_heard, task_enqueued
from ...models import Task


def is_enqueue_heard() -> bool:
    return is_heard(task_enqueued, logging.DEBUG)


def tell_enqueued(tasks: Iterable[Task]) -> None:
    """Tasks that were there before, since they hold a unique key, are not told again."""
    if is_enqueue_heard():
        for task in tasks:
            if not task.already_enqueued:
                registry.announce(task)
