"""Sentry and OpenTelemetry: with a slow collector, or sent to the file of effects only when they are flushed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
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


class SlowExporter(SpanExporter):
    """Takes as long as the slow collector of Sentry, for one span at a time."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        from .tasks.marks import mark

        time.sleep(0.5)
        for span in spans:
            mark("span", span.name)
        return SpanExportResult.SUCCESS


if "WORKER_COLLECTOR" in os.environ:
    sentry_sdk.init(dsn=os.environ["WORKER_COLLECTOR"], auto_session_tracking=False)
    provider = TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(SlowExporter(), max_export_batch_size=1, schedule_delay_millis=60_000)
    )
    trace.set_tracer_provider(provider)
else:
    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=SentWhenFlushed, auto_session_tracking=False)
