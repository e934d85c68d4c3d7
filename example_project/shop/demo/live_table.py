"""The demo while it runs: a live table on a terminal, plain lines elsewhere. It needs ANSI cursor movements only."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from typing import Any

from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status

from .runner import DemoRunner
from .scenarios import Scenario

MARKS = {
    Status.PENDING: ("○", "33"),
    Status.RUNNING: ("▶", "36"),
    Status.SUCCESS: ("✔", "32"),
    Status.FAILED: ("✘", "31"),
    Status.CANCELLED: ("■", "35"),
}
BAR = 24


class LiveTable:
    def __init__(self, out: Any, runner: DemoRunner) -> None:
        self.out, self.runner = out, runner
        self.live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.colour = self.live and "NO_COLOR" not in os.environ
        self.began = time.monotonic()
        self.drawn = 0
        self.printed: dict[str, str] = {}

    def show(self) -> None:
        if self.live:
            self.redraw()
        else:
            self.print_changes()

    def redraw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        lines = [self.line(scenario, width) for scenario in self.runner.scenarios]
        left = self.runner.coroutines_left()
        lines.append(f"  {'✔' if not left else '▶'} a hundred coroutines side by side  {bar(100 - left, 100)}"[:width])
        back = f"\x1b[{self.drawn}A" if self.drawn else ""
        self.out.write(back + "".join(f"\x1b[2K{line}\n" for line in lines), ending="")
        self.out.flush()
        self.drawn = len(lines)

    def line(self, scenario: Scenario, width: int) -> str:
        status = status_of(scenario)
        mark, colour = MARKS[status]
        text = f"  {mark} {scenario.title:<46} {progress_text(scenario)}"[:width]
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour else text

    def print_changes(self) -> None:
        for scenario in self.runner.scenarios:
            words = progress_text(scenario, with_bar=False)
            if self.printed.get(scenario.title) != words:
                self.printed[scenario.title] = words
                self.out.write(f"{time.monotonic() - self.began:5.1f} s  {scenario.title:<46} {words}")


def status_of(scenario: Scenario) -> Status:
    unfinished = [task for task in scenario.tasks if not task.is_finished]
    shown = (unfinished or scenario.tasks)[-1:]
    return Status(shown[0].status) if shown else Status.PENDING


def progress_text(scenario: Scenario, *, with_bar: bool = True) -> str:
    if not scenario.tasks:
        return "enqueued"
    task = next((task for task in scenario.tasks if task.status == Status.RUNNING), scenario.tasks[-1])
    words = f"{task.status} attempt {task.attempts}/{task.max_attempts}"
    if len(scenario.tasks) > 1:
        counted = Counter(str(each.status) for each in scenario.tasks)
        words = ", ".join(f"{count} {status}" for status, count in counted.items())
    if with_bar and task.progress and task.status == Status.RUNNING:
        return f"{bar(task.progress['done'], task.progress['total'])} {words}"
    return f"{words}{last_error_text(task)}"


def last_error_text(task: Task) -> str:
    if task.last_error and not task.is_finished:
        return f" · {task.last_error['message'][:40]}"
    return ""


def bar(done: float, total: float) -> str:
    full = int(BAR * done / total) if total else 0
    return f"{'█' * full}{'░' * (BAR - full)} {done:,.0f}/{total:,.0f}"
