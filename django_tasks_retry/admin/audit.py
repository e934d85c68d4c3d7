"""Who decided what, in Django's own log. The queue keeps its events besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext as _

from .display.formatting import line

SAID = 500
EACH = 100
"""Up to so many objects are logged one by one; more are logged as what they are, one decision."""


def log(request: HttpRequest, model: type[models.Model], objects: Sequence[tuple[str, str]], said: str) -> None:
    """Write the decision about (id, name) pairs."""
    kind, said = ContentType.objects.get_for_model(model, for_concrete_model=False), line(said, SAID)
    if len(objects) > EACH:
        summary = _("%(count)s objects, from %(first)s to %(last)s") % {
            "count": len(objects), "first": objects[0][1], "last": objects[-1][1],
        }  # fmt: skip
        objects = [("", summary)]
    LogEntry.objects.bulk_create([entry(request, kind, key, name, said) for key, name in objects])


def entry(request: HttpRequest, kind: ContentType, key: str, name: str, said: str) -> LogEntry:
    user: Any = request.user
    return LogEntry(
        user_id=user.pk,
        content_type=kind,
        object_id=key or None,
        object_repr=name[:200],
        action_flag=CHANGE,
        change_message=said,
    )
