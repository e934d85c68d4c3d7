"""The pages of a batch and of a run, which is drawn as a tree, and the tasks that are related to a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..display.formatting import format_number, one_line
from ..display.scope import Scope, current_scope
from ..display.states import badge, colour_of, task_state
from ..models import Task
from ..rules.names import short_id, short_name
from ..selection.actions import CANCEL, RETRY, Action
from ..selection.matching import run_condition
from ..taskqueue.reading import read_rows
from ..taskqueue.workflows.members import ancestry, keys_of
from ..taskqueue.workflows.results import batch_counts
from .bulk import BulkActionAdmin
from .parts.selection import select_all

MAX_TASKS = 300
ROW, INDENT, BOX = 22, 28, 10
COLUMNS = (
    "id", "func_path", "status", "parent", "retry_of", "eta", "attempts", "refunds", "locked_by", "run_id", "waits_for",
)  # fmt: skip
MAX_RELATED = 10


class WorkflowAdmin(BulkActionAdmin):
    """Show tasks that belong together: batches and runs."""

    def get_workflow_urls(self) -> list[Any]:
        return [
            self.page_url("batch/<uuid:batch>/", self.batch_view, "batch", read_only=True),
            self.post_url("batch/<uuid:batch>/retry/", self.batch_action(RETRY), "batch_retry", RETRY.permission),
            self.post_url("batch/<uuid:batch>/cancel/", self.batch_action(CANCEL), "batch_cancel", CANCEL.permission),
            self.page_url("run/<uuid:run>/", self.run_view, "run", read_only=True),
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
        """Show all tasks that one cause enqueued, as a tree."""
        context = run_context(run, current_scope())
        if not context["nodes"]:
            text = _("No task of this run is stored: all were deleted.")
            return self.render_notice(request, _("No such run"), text, 404)
        return self.render_page(request, "run", _("Run %(id)s") % {"id": short_id(run)}, context)


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
    return {
        "batch": batch,
        "counts": counts,
        "ended": counts.total - counts.open,
        "total": format_number(counts.total),
        "rows": [
            (name, format_number(count), urlencode({"q": f"batch:{batch} status:{status}"}) if count else "")
            for name, count, status in rows
        ],
        "waiting": relation("", some_tasks(scope.using).suspended().filter(waits_for__in=keys_of([batch]))[:10]),
        "parents": relation("", some_tasks(scope.using).filter(pk=parent)),
    }


@dataclass(slots=True)
class Node:
    """One task and its position in the drawing."""

    task: Task
    facts: dict[str, Any]
    depth: int = 0
    row: int = 0
    children: list[Node] = field(default_factory=list)

    @property
    def x(self) -> int:
        return self.depth * INDENT

    @property
    def y(self) -> int:
        return self.row * ROW + (ROW - BOX) // 2

    @property
    def line(self) -> str:
        """Return the line from the task that enqueued this one."""
        return f"{self.x - INDENT + BOX // 2},{self.y + BOX // 2} {self.x},{self.y + BOX // 2}"


def run_context(run: UUID, scope: Scope) -> dict[str, Any]:
    tasks = Task.objects.using(scope.using).filter(run_condition(run)).only(*COLUMNS).order_by("pk")
    found = read_rows(tasks[: MAX_TASKS + 1])
    nodes = list(walk(grown(found[:MAX_TASKS], scope)))
    return {
        "run": run,
        "nodes": nodes,
        "lines": list(stems(nodes)),
        "width": (max((node.depth for node in nodes), default=0) + 1) * INDENT,
        "height": len(nodes) * ROW,
        "is_cut": len(found) > MAX_TASKS and MAX_TASKS,
        "ended": sum(node.task.is_finished for node in nodes),
    }


def grown(tasks: list[Task], scope: Scope) -> list[Node]:
    """Return the roots, with all other tasks below them. A retry is a sibling of the task that it retries."""
    nodes = {task.pk: Node(task, related_task(task) | {"badge": badge(task_state(task, scope.now))}) for task in tasks}
    above: dict[UUID, UUID | None] = {}
    roots = []
    for pk, node in nodes.items():
        parent = node.task.parent_id or parent_of_original(node.task, nodes)
        # A task that would close a circle is a root: otherwise no task of the circle is below a root.
        if parent not in nodes or pk in ancestry(parent, above):
            roots.append(node)
        else:
            above[pk] = parent
            nodes[parent].children.append(node)
    return roots


def parent_of_original(task: Task, nodes: dict[UUID, Node]) -> UUID | None:
    original = nodes.get(task.retry_of_id) if task.retry_of_id else None
    return original.task.parent_id if original else None


def walk(roots: list[Node]) -> Iterator[Node]:
    """Place the nodes from top to bottom, as they are drawn."""
    waiting = [(node, 0) for node in reversed(roots)]
    row = 0
    while waiting:
        node, depth = waiting.pop()
        node.depth, node.row = depth, row
        row += 1
        yield node
        waiting += [(child, depth + 1) for child in reversed(node.children)]


def stems(nodes: list[Node]) -> Iterator[str]:
    """Return the lines of the drawing: down from a task to the last one that it enqueued, and across."""
    for node in nodes:
        if node.children:
            x = node.x + BOX // 2
            yield f"{x},{node.y + BOX} {x},{node.children[-1].y + BOX // 2}"
        if node.depth:
            yield node.line


def related_tasks(task: Task, using: str) -> list[dict[str, Any]]:
    """Return the related tasks. Each kind is found by an index of tasks that have such a relation."""
    tasks = some_tasks(using)
    # The root of a run is not in the index of its members, but its id is the run's.
    run = [*tasks.filter(run_id=task.run_id).exclude(run_id=F("id")).exclude(pk=task.pk)[: MAX_RELATED + 1]]
    if task.run_id != task.pk and len(run) <= MAX_RELATED:
        run += [*tasks.filter(pk=task.run_id)]
    found = [
        relation(_("Retry of"), tasks.filter(pk=task.retry_of_id) if task.retry_of_id else ()),
        relation(_("Parent"), tasks.filter(pk=task.parent_id) if task.parent_id else ()),
        relation(_("Children"), tasks.filter(parent=task.pk)[: MAX_RELATED + 1]),
        relation(_("Same run"), [each for each in run if each.retry_of_id != task.pk]),
    ]
    return [each for each in found if each["tasks"]]


def retries_of(task: Task, using: str) -> dict[str, Any] | None:
    """Return the retries of the task, the newest first; None if there are none."""
    retries = relation(_("Retried as"), some_tasks(using).filter(retry_of=task.pk)[: MAX_RELATED + 1])
    return retries if retries["tasks"] else None


def some_tasks(using: str) -> Any:
    return Task.objects.using(using).order_by("-pk").only("pk", "func_path", "status", "retry_of_id")


def relation(name: str, tasks: Iterable[Task]) -> dict[str, Any]:
    shown = [related_task(each) for each in tasks]
    return {"name": name, "tasks": shown[:MAX_RELATED], "more": len(shown) > MAX_RELATED}


def related_task(task: Task) -> dict[str, Any]:
    return {
        "pk": task.pk,
        "id": short_id(task.pk),
        "name": one_line(short_name(task.func_path), 60),
        "status": task.get_status_display(),
        "kind": colour_of(task),
    }
