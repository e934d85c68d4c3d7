"""Layers: the hooks of middleware around an enqueue or an attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from .base import Layer

logger = logging.getLogger("django_tasks_retry.middleware")
T = TypeVar("T")


def never(_: BaseException) -> bool:
    return False


class Layers(Generic[T]):
    """Hooks around a subject: entered in order, left in reverse. None can fail it, nor swallow what it raises.

    `interrupts` tells an exception that is meant for whatever runs in this thread; it is passed on.
    """

    def __init__(
        self,
        around: Sequence[Callable[[T], Layer]],
        subject: T,
        interrupts: Callable[[BaseException], bool] = never,
    ) -> None:
        self.around, self.subject, self.interrupts = around, subject, interrupts
        self.entered: list[tuple[Callable[[T], Layer], Layer]] = []

    def __enter__(self) -> T:
        try:
            for hook in self.around:
                self.enter(hook)
        except BaseException as interruption:
            self.leave(interruption)
            raise
        return self.subject

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.leave(error)

    def enter(self, hook: Callable[[T], Layer]) -> None:
        try:
            layer = hook(self.subject)
            layer.__enter__()
            self.entered.append((hook, layer))
        except BaseException as error:
            self.note(error, hook)

    def leave(self, error: BaseException | None) -> None:
        interruption: BaseException | None = None
        while self.entered:
            hook, layer = self.entered.pop()
            try:
                layer.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
            except BaseException as raised:
                try:
                    self.note(raised, hook, error)
                except BaseException as meant_for_others:
                    interruption = meant_for_others
        if interruption is not None:
            raise interruption

    def note(self, error: BaseException, hook: Callable[..., Any], passing: BaseException | None = None) -> None:
        if error is passing:
            return
        if isinstance(error, KeyboardInterrupt) or self.interrupts(error):
            raise error
        logger.error("middleware %s failed and was passed over: %r", hook.__qualname__, error, exc_info=error)
