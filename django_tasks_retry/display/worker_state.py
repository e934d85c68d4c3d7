"""Whether a worker is alive, in words."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from ..models import Worker
from ..taskqueue.consumer.workers import ALIVE_SECONDS


def state_of(worker: Worker, now: datetime) -> tuple[str, str]:
    if worker.stopped_at:
        return "stopped", _("stopped")
    if (now - worker.heartbeat_at).total_seconds() > ALIVE_SECONDS:
        return "lost", _("not responding")
    if worker.stop_asked_at:
        return "stopping", _("finishing")
    return "alive", _("alive")
