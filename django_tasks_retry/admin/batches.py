"""The pages of a batch and of a run, and the tasks that are related to a task."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..display.formatting import format_number, format_percentage
from ..display.scope import Scope, current_scope
from ..models import Task
from ..rules.names import short_id
from ..selection.actions import CANCEL, RETRY, Action
from ..taskqueue.workflows import batch_counts, keys_of
from .bulk import BulkActionAdmin
from .parts.charts import shares
from .parts.selection import select_all
from .parts.waterfall import chain_names, related_task, waterfall

MAX_RELATED = 10
BEHIND = 1000  # tasks of a run behind one, among which its children are looked for
RELATED = ("pk", "func_path", "status", "retry_of_id")


class WorkflowAdmin(BulkActionAdmin):
    """Show tasks that belong together: batches and runs."""

    def get_workflow_urls(self) -> list[Any]:
        return [
            self.page_url("batch/<uuid:batch>/", self.batch_view, "batch", read_only=True, from_replica=True),
            self.post_url("batch/<uuid:batch>/retry/", self.batch_action(RETRY), "batch_retry", RETRY.permission),
            self.post_url("batch/<uuid:batch>/cancel/", self.batch_action(CANCEL), "batch_cancel", CANCEL.permission),
            self.page_url("run/<uuid:run>/", self.run_view, "run", read_only=True, from_replica=True),
        ]

    def batch_view(self, request: HttpRequest, batch: UUID) -> HttpResponse:
        """Show the progress of a batch, the tasks that wait for it, and its actions."""
        context = batch_context(batch, current_scope())
        if not context["counts"].total:
            text = _("No task of this batch is stored: it had none, or all were deleted.")
            return self.render_notice(request, _("No such batch"), text, 404)
        return self.render_page(request, "batch", _("Batch %(id)s") % {"id": short_id(batch)}, context)

    def batch_action(self, action: Action) -> Any:
        """Return the view that asks before retrying the failed members, or cancelling the unfinished ones."""

        def view(request: HttpRequest, batch: UUID) -> HttpResponse:
            params = {"q": f"batch:{batch} status:pending,running"}
            if action is RETRY:
                params = {"q": f"batch:{batch}", "status": "failed", "retried": "no"}
            return self.confirmation_view(request, action, select_all(action.name, request.user, params))

        return view

    def run_view(self, request: HttpRequest, run: UUID) -> HttpResponse:
        """Show the tasks that one cause enqueued, as a waterfall."""
        drawing = waterfall(run, current_scope())
        if drawing is None:
            text = _("No task of this run is stored: all were deleted.")
            return self.render_notice(request, _("No such run"), text, 404)
        return self.render_page(
            request, "run", _("Run %(id)s") % {"id": short_id(run)}, {"run": run, "waterfall": drawing}
        )


def batch_context(batch: UUID, scope: Scope) -> dict[str, Any]:
    counts = batch_counts(batch, scope.using)
    members = Task.objects.using(scope.using).filter(batch=batch).order_by("pk")
    parent = members.values_list("parent_id", flat=True).first()
    rows = [
        (_("Done"), counts.done, "success"),
        (_("Failed"), counts.failed, "failed"),
        (_("Cancelled"), counts.cancelled, "cancelled"),
        (_("Open"), counts.open, "pending,running"),
    ]
    parts = [(name, count, status.partition(",")[0]) for name, count, status in rows]
    return {
        "batch": batch,
        "counts": counts,
        "ended": counts.total - counts.open,
        "total": format_number(counts.total),
        "rows": [
            (name, format_number(count), urlencode({"q": f"batch:{batch} status:{status}"}) if count else "")
            for name, count, status in rows
        ],
        "shares": shares(parts),
        "summary": ", ".join(
            f"{name}: {format_percentage(count, counts.total)}" for name, count, _status in rows if count
        ),
        "waiting": relation("", some_tasks(scope.using).suspended().filter(waits_for__in=keys_of([batch]))[:10]),
        "parents": relation("", some_tasks(scope.using).filter(pk=parent)),
    }


def related_tasks(task: Task, using: str) -> list[dict[str, Any]]:
    """Return the related tasks. Each kind is found by an index of tasks that have such a relation."""
    tasks = some_tasks(using)
    found = [
        relation(_("Retry of"), tasks.filter(pk=task.retry_of_id) if task.retry_of_id else ()),
        relation(_("Parent"), tasks.filter(pk=task.parent_id) if task.parent_id else ()),
        relation(_("Children"), children_of(task, using)),
    ]
    return [each for each in found if each["tasks"]]


def children_of(task: Task, using: str) -> list[Task]:
    """Return the first children, which follow the task in its run. No index leads from a parent to its children."""
    behind = some_tasks(using).filter(run_id=task.run_id, pk__gt=task.pk).exclude(run_id=F("id")).order_by("pk")
    found = [each for each in behind.only(*RELATED, "parent_id")[:BEHIND] if each.parent_id == task.pk]
    return found[: MAX_RELATED + 1]


def retries_of(task: Task, using: str) -> dict[str, Any] | None:
    """Return the retries of the task, the newest first; None if there are none."""
    retries = relation(_("Retried as"), some_tasks(using).filter(retry_of=task.pk)[: MAX_RELATED + 1])
    return retries if retries["tasks"] else None


def some_tasks(using: str) -> Any:
    return Task.objects.using(using).order_by("-pk").only(*RELATED)


def relation(name: str, tasks: Iterable[Task]) -> dict[str, Any]:
    found = list(tasks)
    chains = chain_names(found)
    shown = [related_task(each, chains) for each in found]
    return {"name": name, "tasks": shown[:MAX_RELATED], "more": len(shown) > MAX_RELATED}
