"""The screen: a live table on a terminal, plain lines elsewhere. No dependency but ANSI's cursor movements."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from typing import Any

from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status

from .director import Director
from .scenes import Scene

MARKS = {
    Status.PENDING: ("○", "33"),
    Status.RUNNING: ("▶", "36"),
    Status.SUCCESS: ("✔", "32"),
    Status.FAILED: ("✘", "31"),
    Status.CANCELLED: ("■", "35"),
}
BAR = 24


class Screen:
    def __init__(self, out: Any, director: Director) -> None:
        self.out, self.director = out, director
        self.live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.colour = self.live and "NO_COLOR" not in os.environ
        self.began = time.monotonic()
        self.drawn = 0
        self.said: dict[str, str] = {}

    def show(self) -> None:
        if self.live:
            self.redraw()
        else:
            self.say_changes()

    def redraw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        lines = [self.line(scene, width) for scene in self.director.scenes]
        left = self.director.crowd_left()
        lines.append(f"  {'✔' if not left else '▶'} a hundred coroutines side by side  {bar(100 - left, 100)}"[:width])
        back = f"\x1b[{self.drawn}A" if self.drawn else ""
        self.out.write(back + "".join(f"\x1b[2K{line}\n" for line in lines), ending="")
        self.out.flush()
        self.drawn = len(lines)

    def line(self, scene: Scene, width: int) -> str:
        status = status_of(scene)
        mark, colour = MARKS[status]
        text = f"  {mark} {scene.title:<46} {standing(scene)}"[:width]
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour else text

    def say_changes(self) -> None:
        for scene in self.director.scenes:
            words = standing(scene, with_bar=False)
            if self.said.get(scene.title) != words:
                self.said[scene.title] = words
                self.out.write(f"{time.monotonic() - self.began:5.1f} s  {scene.title:<46} {words}")


def status_of(scene: Scene) -> Status:
    unfinished = [task for task in scene.cast if not task.is_finished]
    shown = (unfinished or scene.cast)[-1:]
    return Status(shown[0].status) if shown else Status.PENDING


def standing(scene: Scene, *, with_bar: bool = True) -> str:
    if not scene.cast:
        return "enqueued"
    task = next((task for task in scene.cast if task.status == Status.RUNNING), scene.cast[-1])
    words = f"{task.status} attempt {task.attempts}/{task.max_attempts}"
    if len(scene.cast) > 1:
        counted = Counter(str(each.status) for each in scene.cast)
        words = ", ".join(f"{count} {status}" for status, count in counted.items())
    if with_bar and task.progress and task.status == Status.RUNNING:
        return f"{bar(task.progress['done'], task.progress['total'])} {words}"
    return f"{words}{why(task)}"


def why(task: Task) -> str:
    if task.last_error and not task.is_finished:
        return f" · {task.last_error['message'][:40]}"
    return ""


def bar(done: float, total: float) -> str:
    full = int(BAR * done / total) if total else 0
    return f"{'█' * full}{'░' * (BAR - full)} {done:,.0f}/{total:,.0f}"
