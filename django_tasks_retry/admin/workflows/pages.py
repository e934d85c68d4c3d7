"""The pages of a batch and of a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ...display.explanations.waiting import batch_counts
from ...display.formatting import format_number
from ...display.scope import Scope, current_scope
from ...models import Task
from ...rules.names import short_id
from ...taskqueue.workflows.wake import keys_of
from ..bulk.actions import CANCEL, RETRY, Action
from ..bulk.confirm import BulkActionAdmin, select_all
from ..tasks.related import relation, some_tasks
from .tree import run_context


class WorkflowAdmin(BulkActionAdmin):
    """The part of the console that shows tasks which belong together."""

    def get_workflow_urls(self) -> list[Any]:
        return [
            self.page_url("batch/<uuid:batch>/", self.batch_view, "batch"),
            self.post_url("batch/<uuid:batch>/retry/", self.batch_action(RETRY), "batch_retry"),
            self.post_url("batch/<uuid:batch>/cancel/", self.batch_action(CANCEL), "batch_cancel"),
            self.page_url("run/<uuid:run>/", self.run_view, "run"),
        ]

    def batch_view(self, request: HttpRequest, batch: UUID) -> HttpResponse:
        """How far it has come: done, failed, open; who waits for it; retry the failed."""
        if request.method != "GET" or not self.has_view_permission(request):
            raise PermissionDenied
        scope = current_scope()
        context = {
            **batch_context(batch, scope),
            "can_retry": RETRY.is_allowed(request),
            "can_cancel": CANCEL.is_allowed(request),
            "tasks_url": self.url("changelist"),
        }
        if not context["counts"].total:
            text = _("No task of this batch is stored: it had none, or all were deleted.")
            return self.render_notice(request, _("No such batch"), text, 404)
        return self.render_page(request, "batch", _("Batch %(id)s") % {"id": short_id(batch)}, context)

    def batch_action(self, action: Action) -> Any:
        """The confirmation page: retry what failed and was not retried, or cancel what has not ended."""

        def view(request: HttpRequest, batch: UUID) -> HttpResponse:
            if not (action.is_allowed(request) and self.has_view_permission(request)):
                raise PermissionDenied
            wanted = {"status": "failed", "retried": "no"} if action is RETRY else {}
            status = "" if action is RETRY else " status:pending,running"
            params = {"q": f"batch:{batch}{status}", **wanted}
            return self.confirmation_view(request, action, select_all(action, request.user, params))

        return view

    def run_view(self, request: HttpRequest, run: UUID) -> HttpResponse:
        """All that one cause set off, as a tree."""
        if request.method != "GET" or not self.has_view_permission(request):
            raise PermissionDenied
        context = run_context(run, current_scope())
        if not context["nodes"]:
            text = _("No task of this run is stored: all were deleted.")
            return self.render_notice(request, _("No such run"), text, 404)
        context["tasks_url"] = self.url("changelist")
        return self.render_page(request, "run", _("Run %(id)s") % {"id": short_id(run)}, context)


def batch_context(batch: UUID, scope: Scope) -> dict[str, Any]:
    counts = batch_counts(batch, scope.using)
    rows = [
        (_("Done"), counts.done, "success"),
        (_("Failed"), counts.failed, "failed"),
        (_("Cancelled"), counts.cancelled, "cancelled"),
        (_("Open"), counts.open, "pending,running"),
    ]
    return {
        "batch": batch,
        "counts": counts,
        "ended": counts.total - counts.open,
        "total": format_number(counts.total),
        "rows": [
            (name, format_number(count), urlencode({"q": f"batch:{batch} status:{status}"}) if count else "")
            for name, count, status in rows
        ],
        "waiting": relation("", waiting_for(batch, scope.using)),
        "parents": relation("", parents_of(batch, scope.using)),
    }


def waiting_for(batch: UUID, using: str) -> list[Task]:
    return [*some_tasks(using).suspended().filter(waits_for__in=keys_of([batch]))[:10]]


def parents_of(batch: UUID, using: str) -> list[Task]:
    first = Task.objects.using(using).filter(batch=batch).order_by("pk").values_list("parent_id", flat=True).first()
    return [*some_tasks(using).filter(pk=first)] if first else []
