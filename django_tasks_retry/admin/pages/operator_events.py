"""What operators did last to queues and workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_lazy

from ...display.actors import actor_names
from ...display.formatting import one_line
from ...display.redact import visible_reason
from ...display.scope import Scope
from ...models import OperatorEvent

MAX_EVENTS = 10
KIND_NAMES: dict[str, Any] = {
    "queue.paused": gettext_lazy("paused"),
    "queue.resumed": gettext_lazy("resumed"),
    "lane.paused": gettext_lazy("paused"),
    "lane.resumed": gettext_lazy("resumed"),
    "lane.probing": gettext_lazy("probing"),
    "lane.limited": gettext_lazy("limited"),
    "worker.stop_asked": gettext_lazy("asked to stop"),
    "schedule.created": gettext_lazy("created"),
    "schedule.changed": gettext_lazy("changed"),
    "schedule.deleted": gettext_lazy("deleted"),
    "schedule.paused": gettext_lazy("paused"),
    "schedule.resumed": gettext_lazy("resumed"),
    "schedule.run_now": gettext_lazy("run now"),
    "schedule.skipped": gettext_lazy("skipped"),
    "schedule.missed": gettext_lazy("missed"),
    "schedule.vanished": gettext_lazy("stopped: not in the code"),
}
BY_RULE = {
    "schedule.skipped": gettext_lazy("the previous run still runs"),
    "schedule.missed": gettext_lazy("no worker enqueued it in time"),
    "schedule.vanished": gettext_lazy("no running worker lists it"),
}
"""Why, where nobody was asked for a reason."""


def latest_operator_events(scope: Scope, kind: str, *, can_see_payload: bool) -> list[dict[str, Any]]:
    """What people decided, of kinds that begin so, newest first. Kind by kind: there may be very many by rule."""
    kinds = [each for each in KIND_NAMES if each.startswith(kind) and each not in BY_RULE]
    stored = OperatorEvent.objects.using(scope.using).order_by("-id")
    found = [event for each in kinds for event in stored.filter(kind=each)[:MAX_EVENTS]]
    events = sorted(found, key=lambda event: event.pk, reverse=True)[:MAX_EVENTS]
    return event_rows(events, can_see_payload=can_see_payload)


def event_rows(events: Sequence[OperatorEvent], *, can_see_payload: bool) -> list[dict[str, Any]]:
    names = actor_names({event.actor for event in events})
    return [
        {
            "ts": event.ts,
            "action": KIND_NAMES.get(event.kind, event.kind),
            "subject": one_line(event.subject, 128),
            "by": names[event.actor],
            "reason": BY_RULE.get(event.kind) or visible_reason(event.reason, can_see_payload=can_see_payload),
        }
        for event in events
    ]
