"""A run as a tree: which task set off which. Drawn, and as nested lists for those who do not see the drawing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.utils.safestring import SafeString

from ...display.display_status import badge, display_status_of
from ...display.formatting import one_line
from ...display.reading import read_rows
from ...display.scope import Scope
from ...models import Task
from ...rules.names import short_id, short_name
from ...rules.status import Status
from ...selection.matching import run_condition

MAX_TASKS = 300
ROW, INDENT, BOX = 22, 28, 10
KINDS = {Status.SUCCESS: "success", Status.FAILED: "failed", Status.CANCELLED: "cancelled", Status.RUNNING: "running"}
COLUMNS = (
    "id", "func_path", "status", "parent", "retry_of", "eta", "attempts", "refunds", "locked_by", "run_id", "waits_for",
)  # fmt: skip


@dataclass(slots=True)
class Node:
    """One task, at its place in the drawing."""

    task: Task
    badge: SafeString
    depth: int = 0
    row: int = 0
    children: list[Node] = field(default_factory=list)

    @property
    def pk(self) -> UUID:
        return self.task.pk

    @property
    def id(self) -> str:
        return short_id(self.task.pk)

    @property
    def name(self) -> str:
        return one_line(short_name(self.task.func_path), 80)

    @property
    def kind(self) -> str:
        return KINDS.get(Status(self.task.status), "waiting")

    @property
    def x(self) -> int:
        return self.depth * INDENT

    @property
    def y(self) -> int:
        return self.row * ROW + (ROW - BOX) // 2

    @property
    def line(self) -> str:
        """From the task that set it off."""
        return f"{self.x - INDENT + BOX // 2},{self.y + BOX // 2} {self.x},{self.y + BOX // 2}"


def run_context(run: UUID, scope: Scope) -> dict[str, Any]:
    tasks = Task.objects.using(scope.using).filter(run_condition(run)).only(*COLUMNS).order_by("pk")
    found = read_rows(tasks[: MAX_TASKS + 1])
    roots = grown(found[:MAX_TASKS], scope)
    nodes = list(walk(roots))
    return {
        "run": run,
        "roots": roots,
        "nodes": nodes,
        "lines": list(stems(nodes)),
        "width": (max((node.depth for node in nodes), default=0) + 1) * INDENT,
        "height": len(nodes) * ROW,
        "is_cut": len(found) > MAX_TASKS and MAX_TASKS,
        "ended": sum(node.task.is_finished for node in nodes),
    }


def grown(tasks: list[Task], scope: Scope) -> list[Node]:
    """The roots, with all others below them. A retry stands beside what it retries."""
    nodes = {task.pk: Node(task, badge(display_status_of(task, scope.now))) for task in tasks}
    below: dict[UUID | None, list[Node]] = defaultdict(list)
    for node in nodes.values():
        above = node.task.parent_id or parent_of_original(node.task, nodes)
        below[above if above in nodes else None].append(node)
    for pk, children in below.items():
        if pk is not None:
            nodes[pk].children = children
    return below[None]


def parent_of_original(task: Task, nodes: dict[UUID, Node]) -> UUID | None:
    original = nodes.get(task.retry_of_id) if task.retry_of_id else None
    return original.task.parent_id if original else None


def walk(roots: list[Node]) -> Iterator[Node]:
    """From top to bottom, as they are drawn."""
    waiting = [(node, 0) for node in reversed(roots)]
    row = 0
    while waiting:
        node, depth = waiting.pop()
        node.depth, node.row = depth, row
        row += 1
        yield node
        waiting += [(child, depth + 1) for child in reversed(node.children)]


def stems(nodes: list[Node]) -> Iterator[str]:
    """The lines of the drawing, down from a task to the last that it set off."""
    for node in nodes:
        if node.children:
            x = node.x + BOX // 2
            yield f"{x},{node.y + BOX} {x},{node.children[-1].y + BOX // 2}"
        if node.depth:
            yield node.line
