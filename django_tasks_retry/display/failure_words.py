"""Failures in words: the error, its message without what differs from call to call, and the place in the project."""

from __future__ import annotations

from ..rules.fingerprint import general
from ..rules.frames import frames_of, innermost_project_frame
from ..rules.names import short_name
from ..taskqueue.operator.failure_groups import FailureGroup, describe_groups, group_head
from .formatting import one_line
from .redact import redact_text

MAX_MESSAGE = 2000


def error_words(group: FailureGroup) -> str:
    """The exception's name without its module, or the code where there was no exception."""
    return one_line(short_name(group.exception) or group.code, 80)


def message_words(group: FailureGroup, *, can_see_payload: bool) -> str:
    return one_line(general(redact_text(group.message[:MAX_MESSAGE])), 160) if can_see_payload else ""


def group_words(fingerprint: str, using: str, *, can_see_payload: bool) -> str:
    """Error and message of a group; its fingerprint where there is no such group any more."""
    head = group_head(fingerprint, using)
    described = describe_groups([head], using) if head else []
    for group in described:
        words = (error_words(group), message_words(group, can_see_payload=can_see_payload))
        return ": ".join(word for word in words if word)
    return one_line(fingerprint, 40)


def place_in_project(traceback: str) -> str:
    """Where the project's own code was when it failed; empty where only libraries were."""
    frame = innermost_project_frame(frames_of(traceback))
    if frame is None or not frame.is_project:
        return ""
    return one_line(f"{frame.short_file}:{frame.line} {frame.function}", 120)
