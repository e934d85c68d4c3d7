"""The pages of functions: how often each runs and fails, how long it waits and runs, what fails and what changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import registry
from ..analysis import late
from ..analysis.objectives import figures_of, what_ate
from ..clock import now
from ..display.formatting import (
    NO_VALUE,
    format_decimal,
    format_duration,
    format_number,
    format_percentage,
    one_line,
    task_name,
)
from ..display.scope import Scope, current_scope
from ..models import Task, TaskFunction
from ..taskqueue import statistics
from ..taskqueue.statistics import BOUNDS, RAN, WAITED, Counts, counts_since, read_budgets, sums_since
from .base import TaskPermissionMixin
from .failures import change_context, failure_rows
from .parts.charts import chart_context, chosen_scale, histogram, read_activity, shares

SPAN = timedelta(hours=24)
SAMPLE = 1000
SHARES = (0.5, 0.95, 0.99)
MAX_FUNCTIONS = 500
OWN = "django_tasks_retry."  # functions of the package, which run the workflows of the project: they are not listed
KINDS = (
    "retried", "step", "pending", "cancelled", "lost", "failed", "released", "folded", "running", "waiting", "released",
    "success",
)  # fmt: skip
"""How the causes of waits are drawn, in their order."""

MAX_GROUPS = 10
MINUTES = SPAN.total_seconds() / 60


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds at p50, p95 and p99: exact for the newest tasks, or estimated from buckets for all attempts of a day."""

    sampled: int
    wait: tuple[float, ...]
    run: tuple[float, ...]
    is_estimate: bool = False
    waited: Sequence[int] = ()
    ran: Sequence[int] = ()  # attempts of a day in the buckets of the workers' histograms


def counts_of_a_day(scope: Scope, func_path: str = "") -> list[Counts]:
    return counts_since(scope.now - SPAN, scope.using, "func_path", func_path=func_path)


def read_times(using: str, func_path: str) -> Times:
    """Return exact times if the newest tasks cover the whole day; else an estimate."""
    newest, day = newest_times(using, func_path), times_of_a_day(using, func_path)
    return day if day.sampled > newest.sampled else replace(newest, waited=day.waited, ran=day.ran)


def times_of_a_day(using: str, func_path: str) -> Times:
    """Estimate the percentiles from the workers' histograms."""
    rows = sums_since(now(using) - SPAN, using, "func_path", columns=(*RAN, *WAITED), func_path=func_path)
    sums = next(iter(rows), {})
    ran, waited = [sums.get(name, 0) for name in RAN], [sums.get(name, 0) for name in WAITED]
    if not (sum(ran) and sum(waited)):
        return Times(0, (), (), is_estimate=True, waited=waited, ran=ran)
    wait, run = (tuple(quantile(counts, share) for share in SHARES) for counts in (waited, ran))
    return Times(sum(waited), wait, run, is_estimate=True, waited=waited, ran=ran)


def quantile(counts: Sequence[int], share: float) -> float:
    """Return a quantile as if the attempts of a bucket were spread evenly in it, at most the last bound."""
    rank, below = share * sum(counts), 0
    for n, count in enumerate(counts[: len(BOUNDS)]):
        if below + count >= rank and count:
            start = BOUNDS[n - 1] if n else 0.0
            return start + (BOUNDS[n] - start) * (rank - below) / count
        below += count
    return BOUNDS[-1]


def newest_times(using: str, func_path: str) -> Times:
    """Measure the newest finished tasks of the function among the newest of all: no index exists for functions."""
    floor = statistics.newest_before(statistics.LOOK_BACK, using) or UUID(int=0)
    tasks = Task.objects.using(using).finished().filter(pk__gte=floor, func_path=func_path)
    ended = tasks.filter(last_attempt_at__isnull=False, finished_at__isnull=False).order_by("-pk")
    rows: list[Any] = list(ended.values_list("eta", "last_attempt_at", "finished_at")[:SAMPLE])
    waits = [max(0.0, (began - due).total_seconds()) for due, began, _end in rows]
    runs = [max(0.0, (end - began).total_seconds()) for _due, began, end in rows]
    return Times(len(rows), percentiles(waits), percentiles(runs))


def percentiles(seconds: Sequence[float]) -> tuple[float, ...]:
    """Return the nearest ranks; an empty tuple for no values."""
    ordered = sorted(seconds)
    return tuple(ordered[max(0, ceil(share * len(ordered)) - 1)] for share in SHARES) if ordered else ()


@admin.register(TaskFunction)
class FunctionAdmin(TaskPermissionMixin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show all functions, or the one that `?function=` names."""
        if "function" in request.GET:
            return self.function_view(request, request.GET["function"])
        known = set(registry.project_paths())
        scope = current_scope()
        counted = counts_of_a_day(scope)
        counts = {each.func_path: each for each in counted if not each.func_path.startswith(OWN)}
        unused = [Counts(path) for path in sorted(known - counts.keys())]
        rows = [function_row(each) | {"is_known": each.func_path in known} for each in [*counts.values(), *unused]]
        not_shown = max(0, len(rows) - MAX_FUNCTIONS)
        budgets, chosen = read_budgets(scope.backend), request.GET.get("objective", "")
        eaters = [what_ate(each.objective, scope) for each in budgets if each.objective.label == chosen]
        context = {
            "functions": rows[:MAX_FUNCTIONS],
            "not_shown": not_shown,
            "budgets": [
                {**figures_of(each), "label": each.objective.label, "is_burning": each.is_burning} for each in budgets
            ],
            "objective": one_line(chosen, 200),
            "causes": eaters and causes_context(eaters[0]),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "functions", _("Functions"), context)

    def function_view(self, request: HttpRequest, func_path: str) -> HttpResponse:
        scope = current_scope()
        counts = counts_of_a_day(scope, func_path)
        if not counts and registry.find(func_path) is None:
            raise Http404
        activity, times = read_activity(scope, chosen_scale(request), func_path), read_times(scope.using, func_path)
        context = {
            **chart_context(activity),
            **self.failures(func_path, scope, can_see_payload=self.has_payload_permission(request)),
            "late": late_context(func_path, scope) if "late" in request.GET else None,
            "row": function_row(counts[0] if counts else Counts(func_path)),
            "is_known": registry.find(func_path) is not None,
            "times": [
                (_("Wait, from due to started"), formatted(times.wait, times)),
                (_("Run"), formatted(times.run, times)),
            ],
            "sampled": sample_text(times),
            "distribution": list(zip(bucket_names(), times.waited, times.ran, strict=False)),
            "histograms": [(_("Wait"), histogram(times.waited)), (_("Run"), histogram(times.ran))],
            "path": one_line(func_path, 255),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "function", task_name(func_path), context)

    def failures(self, func_path: str, scope: Scope, *, can_see_payload: bool) -> dict[str, Any]:
        heads = statistics.group_heads(scope.using)
        ours = {each.fingerprint for each in statistics.group_texts(heads, scope.using) if each.func_path == func_path}
        newest = [head for head in heads if head.fingerprint in ours][:MAX_GROUPS]
        groups = statistics.describe_groups(newest, scope.using)
        context: dict[str, Any] = {"groups": failure_rows(groups, scope, can_see_payload=can_see_payload)}
        if groups:
            context |= change_context(groups[0].fingerprint, scope, can_see_payload=can_see_payload)
        return context


def late_context(func_path: str, scope: Scope) -> list[tuple[str, dict[str, Any]]]:
    """Return what the newest tasks of each queue waited for, with the percentiles as a title."""
    text, found = _("Wait in queue %(queue)s: median %(median)s, 95 %% within %(p95)s"), []
    for each in late.overall(scope, SPAN, func_path=func_path):
        times = {"median": format_duration(each.median), "p95": format_duration(each.p95)}
        parts = [(cause, "", share) for cause, share in each.causes.items()]
        found.append((text % {"queue": one_line(each.queue, 64), **times}, causes_context(parts)))
    return found


def causes_context(parts: Iterable[tuple[str, str, float]]) -> dict[str, Any]:
    """Return causes of waits and their shares as a bar and its legend."""
    kinds = dict(zip(late.CAUSES, KINDS, strict=True))
    drawn = [(late.cause_text(cause, about), share, kinds[cause]) for cause, about, share in parts]
    return {
        "shares": shares([(text, round(100 * share), kind) for text, share, kind in drawn]),
        "rows": [(format_percentage(share, 1), text, kind) for text, share, kind in drawn],
    }


def function_row(counts: Counts) -> dict[str, Any]:
    mean = counts.mean_seconds
    return {
        "path": counts.func_path,
        "name": task_name(counts.func_path),
        "full_name": one_line(counts.func_path, 255),
        "attempts": format_number(counts.attempts),
        "rate": format_decimal(counts.attempts / MINUTES),
        "failing": format_percentage(counts.failures, counts.attempts),
        "is_failing": 0 < counts.attempts <= counts.failures * 2,
        "mean": NO_VALUE if mean is None else format_duration(mean),
    }


def bucket_names() -> list[str]:
    bounds = [format_duration(bound) for bound in BOUNDS]
    return [*(f"≤ {bound}" for bound in bounds), f"> {bounds[-1]}"]


def formatted(seconds: Sequence[float], times: Times) -> list[str]:
    """Format percentiles. Histograms end at their last bound: such a value is at least as long."""
    texts = [
        f"≥ {format_duration(each)}" if times.is_estimate and each >= BOUNDS[-1] else format_duration(each)
        for each in seconds
    ]
    return texts or [NO_VALUE] * len(SHARES)


def sample_text(times: Times) -> str:
    """Say which attempts the percentiles describe."""
    values = {"count": format_number(times.sampled), "most": format_number(statistics.LOOK_BACK)}
    if times.is_estimate:
        return _("%(count)s attempts in 24 hours, estimated from the workers' histograms.") % values
    text = ngettext(
        "The newest %(count)s finished task of this function, among the newest %(most)s tasks.",
        "The newest %(count)s finished tasks of this function, among the newest %(most)s tasks.",
        times.sampled,
    )
    return text % values
