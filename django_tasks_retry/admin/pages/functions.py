"""The pages of functions: how often each runs and fails, how long it waits and runs, what fails and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ... import registry
from ...analysis import functions
from ...display.formatting import NO_VALUE, format_decimal, format_duration, format_number, format_percentage, one_line
from ...display.scope import Scope, current_scope
from ...models import TaskFunction
from ...rules.names import short_name
from ...taskqueue.operator import failure_groups
from ..base import TaskPermissionMixin
from .activity import SCALES, read_activity
from .charts import attempts_chart
from .failures import failure_rows
from .what_changed import change_context

MAX_FUNCTIONS = 500
MAX_GROUPS = 10
MINUTES = functions.SPAN.total_seconds() / 60


@dataclass(frozen=True, slots=True)
class FunctionRow:
    path: str
    name: str
    full_name: str
    is_known: bool
    attempts: str
    rate: str
    failing: str
    mean: str


@admin.register(TaskFunction)
class FunctionAdmin(TaskPermissionMixin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """All functions; `?function=` shows one, whatever it is called."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if "function" in request.GET:
            return self.function_view(request, request.GET["function"])
        known = set(registry.known_paths())
        counts = {each.func_path: each for each in functions.read_counts(current_scope().using)}
        unused = [functions.Counts(path, 0, 0, 0, 0.0) for path in sorted(known - counts.keys())]
        rows = [function_row(each, known) for each in [*counts.values(), *unused]]
        context = {"functions": rows[:MAX_FUNCTIONS], "not_shown": max(0, len(rows) - MAX_FUNCTIONS)}
        return self.render_page(request, "functions", _("Functions"), context)

    def function_view(self, request: HttpRequest, func_path: str) -> HttpResponse:
        scope = current_scope()
        counts = functions.read_counts(scope.using, func_path)
        if not counts and registry.find(func_path) is None:
            raise Http404
        span = request.GET.get("span", "1h")
        context = {
            **self.figures(func_path, counts, scope, span if span in SCALES else "1h"),
            **self.failures(func_path, scope, can_see_payload=self.has_payload_permission(request)),
            "path": one_line(func_path, 255),
            "tasks_url": self.url("changelist", model="task"),
        }
        return self.render_page(request, "function", one_line(short_name(func_path), 80), context)

    def figures(self, func_path: str, counts: Sequence[functions.Counts], scope: Scope, span: str) -> dict[str, Any]:
        activity = read_activity(scope, SCALES[span], func_path)
        times = functions.read_times(scope.using, func_path)
        return {
            "row": function_row(counts[0] if counts else functions.Counts(func_path, 0, 0, 0, 0.0), set()),
            "is_known": registry.find(func_path) is not None,
            "chart": attempts_chart(activity.total),
            "scale": activity.scale,
            "scales": [(name, scale.label, name == span) for name, scale in SCALES.items()],
            "times": [(_("Wait, from due to started"), formatted(times.wait)), (_("Run"), formatted(times.run))],
            "sampled": sample_text(times),
        }

    def failures(self, func_path: str, scope: Scope, *, can_see_payload: bool) -> dict[str, Any]:
        heads = failure_groups.group_heads(scope.using)
        ours = {
            each.fingerprint for each in failure_groups.group_texts(heads, scope.using) if each.func_path == func_path
        }
        newest = [head for head in heads if head.fingerprint in ours][:MAX_GROUPS]
        groups = failure_groups.describe_groups(newest, scope.using)
        context: dict[str, Any] = {"groups": failure_rows(groups, scope, can_see_payload=can_see_payload)}
        if groups:
            context |= change_context(groups[0].fingerprint, scope, can_see_payload=can_see_payload)
        return context


def function_row(counts: functions.Counts, known: set[str]) -> FunctionRow:
    mean = counts.mean_seconds
    return FunctionRow(
        path=counts.func_path,
        name=one_line(short_name(counts.func_path), 80),
        full_name=one_line(counts.func_path, 255),
        is_known=counts.func_path in known,
        attempts=format_number(counts.attempts),
        rate=format_decimal(counts.attempts / MINUTES),
        failing=format_percentage(counts.failures, counts.attempts),
        mean=NO_VALUE if mean is None else format_duration(mean),
    )


def formatted(seconds: Sequence[float]) -> list[str]:
    return [format_duration(each) for each in seconds] or [NO_VALUE] * len(functions.SHARES)


def sample_text(times: functions.Times) -> str:
    """What the percentiles are of."""
    values = {"count": format_number(times.sampled), "most": format_number(functions.LOOK_BACK)}
    if times.is_estimate:
        return _("Of %(count)s attempts in 24 hours, estimated from the workers' histograms.") % values
    text = ngettext(
        "Of the newest %(count)s finished task of this function, among the newest %(most)s of all.",
        "Of the newest %(count)s finished tasks of this function, among the newest %(most)s of all.",
        times.sampled,
    )
    return text % values
