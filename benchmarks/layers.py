"""Middleware whose cost is measured: one that overrides nothing, and OpenTelemetry that exports to nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from django_tasks_retry.contrib.otel import Tracing
from django_tasks_retry.middleware import Middleware


class Idle(Middleware):
    """Nothing."""


class Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Traced(Tracing):
    def __init__(self) -> None:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nowhere()))
        self.tracer = provider.get_tracer("benchmarks")
