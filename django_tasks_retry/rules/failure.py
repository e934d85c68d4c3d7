"""A failed attempt, captured as bounded text. Capturing never fails, whatever the exception does."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ..errors import Abort, TaskTimeout, UnstorableResult
from .names import name_of
from .payload import clip, storable

NAME_LIMIT = 1000
MESSAGE_LIMIT = 2048
TRACEBACK_LIMIT = 16 * 1024


class Code(StrEnum):
    EXCEPTION = "EXCEPTION"
    TIMEOUT = "TIMEOUT"
    ABORTED = "ABORTED"
    BAD_ARGUMENTS = "BAD_ARGUMENTS"
    RESULT_NOT_SERIALIZABLE = "RESULT_NOT_SERIALIZABLE"
    LEASE_LOST = "LEASE_LOST"
    CRASHED = "CRASHED"
    UNREADABLE = "UNREADABLE"


PERMANENT = frozenset({Code.ABORTED, Code.BAD_ARGUMENTS, Code.RESULT_NOT_SERIALIZABLE, Code.CRASHED, Code.UNREADABLE})
"""Codes that no further attempt can mend: it would only repeat the effect."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is recorded of an exception: text only, bounded, storable in either database."""

    message: str
    code: Code
    exception: str
    traceback: str

    def as_dict(self) -> dict[str, str]:
        return {
            "message": self.message, "code": self.code.value, "exception": self.exception, "traceback": self.traceback,
        }  # fmt: skip


LOST = Failure("The worker was lost and no attempt is left.", Code.LEASE_LOST, exception="", traceback="")
"""The failure of a task whose last attempt lost its lease."""


def capture(error: BaseException, code: Code | None = None) -> Failure:
    kind = type(error)
    name = storable(name_of(kind)[:200])
    return Failure(
        message=bounded(lambda: str(error), MESSAGE_LIMIT, f"<{name} whose text cannot be made>"),
        code=code or code_of(error),
        exception=bounded(lambda: f"{kind.__module__}.{kind.__qualname__}"[:200], NAME_LIMIT, name),
        traceback=bounded(lambda: format_traceback(error), TRACEBACK_LIMIT, "<traceback cannot be made>"),
    )


def format_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def bounded(make: Callable[[], str], limit: int, fallback: str) -> str:
    try:
        text = str.__str__(make())  # which may be of a class of its own, too
        # Cut before escaping: a 50 MB message must not be scanned as a whole.
        cut = max(0, len(text) - limit * 8)
        return clip(storable(text[: limit * 4] + text[-limit * 4 :] if cut else text), limit, cut)
    except BaseException:  # the error's own code runs here and may raise anything
        return fallback


def code_of(error: BaseException) -> Code:
    # By its class: isinstance() would ask the error itself.
    if issubclass(type(error), TaskTimeout):
        return Code.TIMEOUT
    if issubclass(type(error), UnstorableResult):
        return Code.RESULT_NOT_SERIALIZABLE
    return Code.ABORTED if issubclass(type(error), Abort) else Code.EXCEPTION
