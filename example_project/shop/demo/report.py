"""The outcome of the demo as text: a table of all scenarios, and each task's timeline from its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_tasks_retry.models import Task, TaskEvent

from .runner import DemoRunner
from .scenarios import Scenario

HEADINGS = ("", "what the task does", "function", "ended as", "attempts", "took")
COROUTINES = "runs beside ninety-nine other coroutines"


def table(runner: DemoRunner) -> str:
    rows = [HEADINGS, *(row_of(scenario) for scenario in runner.scenarios), coroutines_row(runner)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def row_of(scenario: Scenario) -> tuple[str, ...]:
    first, last = scenario.tasks[0], scenario.tasks[-1]
    took = (last.finished_at - first.created_at).total_seconds() if last.finished_at else 0.0
    ended = f"{first.status}" if len(scenario.tasks) == 1 else statuses(scenario.tasks)
    spent = f"{first.attempts}/{first.max_attempts}" + (f", {first.refunds} refunded" if first.refunds else "")
    return ("✔" if scenario.as_expected else "✘", scenario.title, name_of(first), ended, spent, f"{took:.1f} s")


def statuses(tasks: list[Task]) -> str:
    counted = {task.status: sum(other.status == task.status for other in tasks) for task in tasks}
    return ", ".join(f"{count} {status}" for status, count in counted.items())


def coroutines_row(runner: DemoRunner) -> tuple[str, ...]:
    coroutines = list(Task.objects.filter(pk__in=runner.coroutines))
    took = max((duration(task) for task in coroutines), default=0.0)
    mark = "✔" if as_expected(coroutines) else "✘"
    return (mark, COROUTINES, name_of(coroutines[0]), statuses(coroutines), "1/5 each", f"{took:.1f} s")


def duration(task: Task) -> float:
    return (task.finished_at - task.created_at).total_seconds() if task.finished_at else 0.0


def as_expected(coroutines: list[Task]) -> bool:
    return all(task.status == "SUCCESS" for task in coroutines)


def count_expected(runner: DemoRunner) -> tuple[int, int]:
    """How many scenarios, the coroutines included, ended as expected, and of how many."""
    good = [scenario.as_expected for scenario in runner.scenarios]
    good.append(as_expected(list(Task.objects.filter(pk__in=runner.coroutines))))
    return sum(good), len(good)


def timelines(runner: DemoRunner) -> Iterator[str]:
    for scenario in runner.scenarios:
        for task in scenario.tasks:
            yield f"{scenario.title} · {name_of(task)} {task.pk}"
            yield from timeline(task)
            yield ""


def timeline(task: Task) -> Iterator[str]:
    yield moment(0.0, "enqueued", "")
    for event in TaskEvent.objects.filter(task_id=task.pk):
        after = (event.ts - task.created_at).total_seconds()
        yield moment(after, event.kind.removeprefix("task."), detail(event))


def moment(seconds: float, word: str, words: str) -> str:
    return f"  {seconds:7.2f} s  {word:<10} {words}".rstrip()


def detail(event: TaskEvent) -> str:
    data: dict[str, Any] = event.data
    match event.kind:
        case "task.running":
            return f"attempt {event.attempt}, by {event.actor}"
        case "task.failed":
            again = f"; again in {data['backoff_ms'] / 1000:g} s" if not data["terminal"] else "; no more attempts"
            return f"{data['error']['code']}: {data['error']['message']}{again}"
        case "task.released" | "task.cancelled":
            return f"{data.get('reason', '')} (by {event.actor})"
        case _:
            return ""


def name_of(task: Task) -> str:
    return task.func_path.rpartition(".")[2]
