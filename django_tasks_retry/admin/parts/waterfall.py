"""A run as a waterfall: its tasks as a tree, each with its waits, attempts and steps on one scale of time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils.translation import gettext as _

from ...display.formatting import format_elapsed, format_number, one_line, task_name
from ...display.scope import Scope, console_database
from ...display.states import badge, colour_of, task_state
from ...models import Step, Task, TaskEvent
from ...rules.names import CHAIN, short_id
from ...rules.status import Status
from ...rules.transitions import EventKind
from ...taskqueue.reading import read_rows
from ...taskqueue.workflows import StepKind, ancestry
from .timeline import OUTCOMES, Drawing, Span, spans_of

MAX_TASKS = 300  # tasks of a run that are read: around the task whose page it is, or from the first
MAX_ROWS = 50
ALIKE = 8  # tasks of one function below one task that are drawn; the others are one row
MAX_ATTEMPTS = 20  # attempts of a task that are drawn
MAX_LABELS = 6
MAX_DEPTH = 6  # the indentation grows up to here
COLUMNS = (
    "id", "func_path", "status", "parent_id", "retry_of_id", "created_at", "eta", "attempts", "refunds", "started_at",
    "finished_at", "run_id", "waits_for",
)  # fmt: skip


@dataclass(slots=True)
class Node:
    """A task and the tasks below it; or many that are alike, as one."""

    task: Task
    children: list[Node] = field(default_factory=list)
    depth: int = 0
    matters: bool = False
    """Whether it runs, or is the task whose page it is, or stands above that: it is drawn before others."""
    alike: list[Task] = field(default_factory=list)


def waterfall(run: UUID, scope: Scope, focus: Task | None = None, steps: Sequence[Step] = ()) -> dict[str, Any] | None:
    """Return the drawing of a run; None if there is nothing beside one task to draw."""
    tasks, is_cut = tasks_of_run(run, focus, scope.using)
    if not tasks or (focus is not None and len(tasks) == 1 and not steps):
        return None
    nodes = most_important(walk(grown(tasks, focus)))
    spans = spans_by_task([node.task for node in nodes if not node.alike], scope)
    begin, end = bounds_of([task for node in nodes for task in node.alike or [node.task]], scope.now)
    drawn, chains = Drawing(begin, end), chain_names(node.task for node in nodes)
    rows = []
    for node in nodes:
        rows.append(folded_row(node, drawn, scope) if node.alike else task_row(node, spans, drawn, scope, chains))
        if focus is not None and node.task.pk == focus.pk and not node.alike:
            rows += step_rows(steps, spans.get(focus.pk, []), node.depth + 1, drawn, scope.now)
    shown = sum(len(node.alike) or 1 for node in nodes)
    ended = sum(task.is_finished for task in tasks)
    return {
        "rows": rows,
        "start": begin,
        "end": end,
        "kinds": drawn.legend,
        "ended": format_number(ended),
        "total": format_number(len(tasks)),
        "is_open": ended < len(tasks),
        "is_cut": is_cut and MAX_TASKS,
        "not_shown": len(tasks) - shown,
    }


# The tasks


def tasks_of_run(run: UUID, focus: Task | None, using: str) -> tuple[list[Task], bool]:
    """Return tasks of the run in their order, and whether it has more: each range is read by the index of runs."""
    rows = Task.objects.using(using).only(*COLUMNS)
    members = rows.filter(run_id=run).exclude(run_id=F("id"))
    pivot, half = (focus.pk, MAX_TASKS // 2) if focus is not None and focus.pk != run else (run, 0)
    before = read_rows(members.filter(pk__lt=pivot).order_by("-pk")[: half + 1], COLUMNS) if half else []
    # Without a task to begin at, the first are read: hosts' clocks differ, so ids may be lower than the run's.
    later = members.filter(pk__gt=pivot) if half else members
    after = read_rows(later.order_by("pk")[: MAX_TASKS - half + 1], COLUMNS)
    is_cut = len(before) > half or len(after) > MAX_TASKS - half
    found = {task.pk: task for task in [*before[:half], *after[: MAX_TASKS - half]]}
    above = {run, pivot, focus and focus.parent_id} - found.keys() - {None}
    extra = read_rows(rows.filter(pk__in=above), COLUMNS)
    if is_cut:  # what runs now is among the leases, which are few
        extra += read_rows(members.filter(status=Status.RUNNING.value).order_by("locked_by")[:MAX_ROWS], COLUMNS)
    found |= {task.pk: task for task in extra if task.run_id == run}
    return [found[pk] for pk in sorted(found)], is_cut


def grown(tasks: list[Task], focus: Task | None = None) -> list[Node]:
    """Return the roots, with all other tasks below them. A retry is a sibling of the task that it retries."""
    nodes = {task.pk: Node(task, matters=task.status == Status.RUNNING) for task in tasks}
    above: dict[UUID, UUID | None] = {}
    roots = []
    for pk, node in nodes.items():
        original = nodes.get(node.task.retry_of_id) if node.task.retry_of_id else None
        parent = node.task.parent_id or (original.task.parent_id if original else None)
        # A task that would close a circle is a root: otherwise no task of the circle is below a root.
        if parent not in nodes or pk in ancestry(parent, above):
            roots.append(node)
        else:
            above[pk] = parent
            nodes[parent].children.append(node)
    for pk in ancestry(focus.pk, above) if focus is not None else ():
        if pk in nodes:
            nodes[pk].matters = True
    return roots


def walk(roots: list[Node]) -> Iterator[Node]:
    """Place the nodes from top to bottom, as they are drawn; many alike below one task as one."""
    waiting = list(reversed(folded(roots)))
    while waiting:
        node = waiting.pop()
        yield node
        below = [] if node.alike else folded(node.children)
        for child in below:
            child.depth = node.depth + 1
        waiting += reversed(below)


def folded(nodes: list[Node]) -> list[Node]:
    """Leave of each function the ALIKE that matter most, and one node for the others."""
    by_function: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        by_function[node.task.func_path].append(node)
    rows: list[Node] = []
    for alike in by_function.values():
        shown = most_important(alike, ALIKE)
        kept = {node.task.pk for node in shown}
        rest = [node.task for node in alike if node.task.pk not in kept]
        rows += [*shown, Node(rest[0], alike=rest)] if len(rest) > 1 else alike
    return rows


def most_important(nodes: Iterable[Node], most: int = MAX_ROWS) -> list[Node]:
    """Return so many nodes in their order: those that matter, those that failed, then the first."""
    given = list(nodes)
    ranked = sorted(range(len(given)), key=lambda n: (not given[n].matters, given[n].task.status != Status.FAILED, n))
    return [given[n] for n in sorted(ranked[:most])]


# The bars


def bounds_of(tasks: Sequence[Task], now: datetime) -> tuple[datetime, datetime]:
    begin = min(task.created_at for task in tasks)
    return begin, max(begin, *(min(end_of(task, now), now) for task in tasks))


def end_of(task: Task, now: datetime) -> datetime:
    return task.finished_at or now


def spans_by_task(tasks: Sequence[Task], scope: Scope) -> dict[UUID, list[Span]]:
    """Return waits and attempts of these tasks, by their events."""
    kinds = [EventKind.RUNNING.value, *OUTCOMES]
    rows = TaskEvent.objects.using(scope.using).filter(
        task_id__in=[task.pk for task in tasks], attempt__lte=MAX_ATTEMPTS
    )
    events: dict[UUID, list[TaskEvent]] = defaultdict(list)
    for event in read_rows(rows.filter(kind__in=kinds).only("task_id", "kind", "ts", "attempt")):
        events[event.task_id].append(event)
    return {
        task.pk: list(spans_of(task, sorted(events[task.pk], key=lambda each: each.pk), task.created_at, scope.now))
        for task in tasks
    }


def task_row(
    node: Node, spans: dict[UUID, list[Span]], drawn: Drawing, scope: Scope, chains: Mapping[UUID, str]
) -> dict[str, Any]:
    task, found = node.task, spans[node.task.pk]
    texts = [span.label for span in found if span.is_attempt] or [span.label for span in found]
    return {
        **related_task(task, chains),
        "badge": badge(task_state(task, scope.now)),
        "depth": min(node.depth, MAX_DEPTH),
        "bars": drawn.bars(found),
        "text": "; ".join(texts[-MAX_LABELS:]),
        "elapsed": format_elapsed(task.created_at, end_of(task, scope.now)),
    }


def folded_row(node: Node, drawn: Drawing, scope: Scope) -> dict[str, Any]:
    """Return many tasks as one row, from the first start to the last end."""
    begin, end = bounds_of(node.alike, scope.now)
    counts = Counter(task_state(task, scope.now) for task in node.alike)
    text = ", ".join(f"{count} {state.label}" for state, count in counts.most_common())
    values = {"count": format_number(len(node.alike)), "name": task_name(node.task.func_path, 60)}
    return {
        "name": _("%(count)s more %(name)s") % values,
        "note": text,
        "depth": min(node.depth, MAX_DEPTH),
        "bars": drawn.bars([Span(begin, end, "folded", text)]),
        "elapsed": format_elapsed(begin, end),
    }


def step_rows(
    steps: Sequence[Step], spans: Sequence[Span], depth: int, drawn: Drawing, now: datetime
) -> Iterator[dict[str, Any]]:
    """Return a row for each step: it began when its attempt or the step before it did, and ended when it was stored."""
    starts = [span.start for span in spans if span.is_attempt]
    before: datetime | None = None
    for step in steps[:MAX_ROWS]:
        if step.kind == StepKind.WAIT or not drawn.begin <= step.ts:
            continue  # the deadline of a signal that has a step of its own; and steps that were copied
        begun = max([at for at in starts if at <= step.ts] or [step.ts])
        after = min([at for at in starts if at > step.ts], default=now)
        match step.kind:
            case StepKind.STEP | StepKind.MEMBERS | StepKind.INTENT | StepKind.EFFECT:
                start, end, kind = max(begun, before or begun), step.ts, "step"
            case StepKind.SIGNAL:
                start, end, kind = before or begun, step.ts, "waiting"
            case _:
                start, end, kind = step.ts, after, "waiting"
        name = one_line(step.name.removesuffix(":until"), 60)
        label = _("step %(name)s") % {"name": name}
        before = step.ts
        elapsed = format_elapsed(start, end)
        yield {
            "name": label, "text": "", "depth": min(depth, MAX_DEPTH), "elapsed": elapsed,
            "bars": drawn.bars([Span(start, end, kind, f"{label}: {elapsed}")]),
        }  # fmt: skip


def chain_names(tasks: Iterable[Task]) -> dict[UUID, str]:
    """Name the chains among the tasks by what they run, which their arguments say."""
    ids = [task.pk for task in tasks if task.func_path == CHAIN]
    rows = Task.objects.using(console_database()).filter(pk__in=ids).only("args")
    return {row.pk: task_name(CHAIN, 80, called_by(row)) for row in (read_rows(rows, ("id", "args")) if ids else ())}


def called_by(chain: Task) -> list[str]:
    calls = chain.args[0] if isinstance(chain.args, list) and chain.args else None
    return [str(call.get("func")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def related_task(task: Task, chains: Mapping[UUID, str]) -> dict[str, Any]:
    return {
        "pk": task.pk,
        "id": short_id(task.pk),
        "name": chains.get(task.pk) or task_name(task.func_path, 60),
        "status": task.get_status_display(),
        "kind": colour_of(task),
    }
