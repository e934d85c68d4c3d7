"""What operators did last to queues and workers."""

from __future__ import annotations

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
    "worker.stop_asked": gettext_lazy("asked to stop"),
}


def latest_operator_events(scope: Scope, kind: str, *, can_see_payload: bool) -> list[dict[str, Any]]:
    """Those whose kind begins so, newest first."""
    events = list(OperatorEvent.objects.using(scope.using).filter(kind__startswith=kind).order_by("-id")[:MAX_EVENTS])
    names = actor_names({event.actor for event in events})
    return [
        {
            "ts": event.ts,
            "action": KIND_NAMES.get(event.kind, event.kind),
            "subject": one_line(event.subject, 128),
            "by": names[event.actor],
            "reason": visible_reason(event.reason, can_see_payload=can_see_payload),
        }
        for event in events
    ]
