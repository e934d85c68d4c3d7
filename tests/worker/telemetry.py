"""Sentry, with a transport that sends nothing before it is flushed, and then to the file of effects."""

from __future__ import annotations

from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport


class SentWhenFlushed(Transport):
    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.kept: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        if (event := envelope.get_event()) is not None:
            self.kept.append(event)

    def flush(self, timeout: float, callback: Any = None) -> None:
        from .tasks.marks import mark  # settings are read before the apps, and so before tasks, are ready

        for event in self.kept:
            values = event.get("exception", {}).get("values", [{}])
            mark("sentry", event.get("logger"), values[-1].get("type"))
        self.kept.clear()


sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=SentWhenFlushed, auto_session_tracking=False)
