"""The end of the demo as text: a table of what happened, and each task's timeline from its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_tasks_retry.models import Task, TaskEvent

from .director import Director
from .scenes import Scene

HEADINGS = ("", "what the task does", "function", "ended as", "attempts", "took")
CROWD = "runs beside ninety-nine other coroutines"


def table(director: Director) -> str:
    rows = [HEADINGS, *(row_of(scene) for scene in director.scenes), crowd_row(director)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def row_of(scene: Scene) -> tuple[str, ...]:
    first, last = scene.cast[0], scene.cast[-1]
    took = (last.finished_at - first.created_at).total_seconds() if last.finished_at else 0.0
    ended = f"{first.status}" if len(scene.cast) == 1 else statuses(scene.cast)
    spent = f"{first.attempts}/{first.max_attempts}" + (f", {first.refunds} refunded" if first.refunds else "")
    return ("✔" if scene.as_it_should else "✘", scene.title, name_of(first), ended, spent, f"{took:.1f} s")


def statuses(cast: list[Task]) -> str:
    counted = {task.status: sum(other.status == task.status for other in cast) for task in cast}
    return ", ".join(f"{count} {status}" for status, count in counted.items())


def crowd_row(director: Director) -> tuple[str, ...]:
    crowd = list(Task.objects.filter(pk__in=director.crowd))
    took = max((lived(task) for task in crowd), default=0.0)
    mark = "✔" if as_it_should(crowd) else "✘"
    return (mark, CROWD, name_of(crowd[0]), statuses(crowd), "1/5 each", f"{took:.1f} s")


def lived(task: Task) -> float:
    return (task.finished_at - task.created_at).total_seconds() if task.finished_at else 0.0


def as_it_should(crowd: list[Task]) -> bool:
    return all(task.status == "SUCCESS" for task in crowd)


def verdict(director: Director) -> tuple[int, int]:
    """How many scenes, the crowd among them, ended as they should, and of how many."""
    good = [scene.as_it_should for scene in director.scenes]
    good.append(as_it_should(list(Task.objects.filter(pk__in=director.crowd))))
    return sum(good), len(good)


def timelines(director: Director) -> Iterator[str]:
    for scene in director.scenes:
        for task in scene.cast:
            yield f"{scene.title} · {name_of(task)} {task.pk}"
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
