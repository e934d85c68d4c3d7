"""The search over groups of failures: every word must stand in the error, the message, the task or the queue."""

from __future__ import annotations

from collections.abc import Sequence

from ...display.redact import redact_text
from ...taskqueue.operator.failure_groups import GroupText, Head, group_texts

MAX_WORDS = 10
MAX_MESSAGE = 2000


def matching_heads(heads: Sequence[Head], query: str, using: str, *, can_see_payload: bool) -> list[Head]:
    """In the same order. Messages are searched for those who may see them, as they see them."""
    words = query.lower().split()[:MAX_WORDS]
    if not words:
        return list(heads)
    found = {
        group.fingerprint
        for group in group_texts(heads, using)
        if all(word in searched_text(group, can_see_payload=can_see_payload) for word in words)
    }
    return [head for head in heads if head.fingerprint in found]


def searched_text(group: GroupText, *, can_see_payload: bool) -> str:
    message = redact_text(group.message[:MAX_MESSAGE]) if can_see_payload else ""
    return f"{group.exception} {group.code} {group.func_path} {group.queue} {message}".lower()
