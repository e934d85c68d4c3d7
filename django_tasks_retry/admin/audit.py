"""Operators' actions in Django's own log. The queue keeps its events besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext as _

from ..display.formatting import one_line
from ..display.redact import redact_text

MESSAGE_LIMIT = 500
MAX_ENTRIES = 100
"""Up to this many objects get an entry each; more get one entry for the whole action."""


def log_action(
    request: HttpRequest, model: type[models.Model], objects: Sequence[tuple[str, str]], action: str, reason: str
) -> None:
    """Log an action on objects, given as (id, name)."""
    content_type = ContentType.objects.get_for_model(model, for_concrete_model=False)
    message = one_line(f"{action}: {redact_text(reason)}" if reason else action, MESSAGE_LIMIT)
    if len(objects) > MAX_ENTRIES:
        summary = _("%(count)s objects, from %(first)s to %(last)s") % {
            "count": len(objects), "first": objects[0][1], "last": objects[-1][1],
        }  # fmt: skip
        objects = [("", summary)]
    LogEntry.objects.bulk_create([log_entry(request, content_type, key, name, message) for key, name in objects])


def log_entry(request: HttpRequest, content_type: ContentType, key: str, name: str, message: str) -> LogEntry:
    user: Any = request.user
    return LogEntry(
        user_id=user.pk,
        content_type=content_type,
        object_id=key or None,
        object_repr=name[:200],
        action_flag=CHANGE,
        change_message=message,
    )
