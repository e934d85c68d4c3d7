"""`tasks top`: plain ANSI, a frame at a time."""

from __future__ import annotations

import argparse
import contextlib
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence

from django.utils import timezone

from ...display.formatting import format_ago, format_capped, format_duration, format_elapsed, one_line
from ...display.reading import read_rows
from ...display.redact import redact_text
from ...display.scope import Scope
from ...durations import read_duration
from ...models import Task, Worker
from ...rules.fingerprint import general
from ...rules.names import short_id, short_name
from ...taskqueue.operator.failure_groups import describe_groups, group_heads
from ..exit_codes import Exit
from ..figures import QueueFigures, read_queues, read_workers
from ..output import is_terminal
from ..subcommand import Context, Subcommand, argument
from .queues import HEADINGS as QUEUE_HEADINGS
from .queues import queue_row

ALTERNATE, NORMAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
MOST = {"running": 8, "failures": 5, "workers": 8}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="one frame, without colours or keys")
    parser.add_argument("--interval", type=argument(read_duration), default=2.0, metavar="2s", help="default: 2s")


def run(context: Context) -> Exit:
    if context["once"] or not context.output.is_terminal:
        for line in frame(context):
            context.output.line(line)
        return Exit.OK
    with screen(context), keys() as next_key:
        while True:
            draw(context, frame(context))
            if next_key(context["interval"]) in {"q", "Q", "\x03"}:
                return Exit.OK


def frame(context: Context) -> list[str]:
    scope = context.scope
    workers = read_workers(scope)
    queues = read_queues(scope, workers)
    return [
        heading(scope, queues, workers),
        "",
        *columns([QUEUE_HEADINGS, *map(queue_row, queues)]),
        "",
        *running_lines(scope),
        *failure_lines(scope),
        *worker_lines(scope, workers),
    ]


def heading(scope: Scope, queues: Sequence[QueueFigures], workers: Sequence[Worker]) -> str:
    oldest = max((queue.oldest_wait for queue in queues if queue.due), default=0.0)
    running, slots = sum(queue.running for queue in queues), sum(worker.slots for worker in workers)
    parts = (
        f"tasks top  {timezone.localtime(scope.now):%H:%M:%S}",
        f"oldest wait {format_duration(oldest) if oldest else '—'}",
        f"ready {format_capped(sum(queue.due for queue in queues))}",
        f"running {running}/{slots}",
        f"{sum(queue.per_minute for queue in queues):.1f} per minute",
        f"{len(workers)} workers",
    )
    return " │ ".join(parts)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def running_lines(scope: Scope) -> list[str]:
    """Those that have run for longest."""
    names = ("id", "func_path", "queue", "locked_by", "last_attempt_at")
    some = read_rows(Task.objects.using(scope.using).running().order_by("locked_by").only(*names)[:1000], names)
    longest = sorted(some, key=lambda task: task.last_attempt_at or scope.now)[: MOST["running"]]
    rows = [
        (
            short_id(task.pk),
            one_line(short_name(task.func_path), 40),
            one_line(task.queue, 30),
            format_elapsed(task.last_attempt_at or scope.now, scope.now),
            one_line(task.locked_by or "", 60),
        )
        for task in longest
    ]
    return [*columns([("RUNNING LONGEST", "TASK", "QUEUE", "FOR", "WORKER"), *rows]), ""] if rows else []


def failure_lines(scope: Scope) -> list[str]:
    groups = describe_groups(group_heads(scope.using)[: MOST["failures"]], scope.using)
    rows = [
        (
            one_line(short_name(group.exception) or group.code, 40),
            one_line(short_name(group.func_path), 40),
            format_capped(group.failed_this_hour),
            format_capped(group.open),
            format_ago(group.last_failed_at, scope.now),
            one_line(general(redact_text(group.message[:2000])), 80),
        )
        for group in groups
    ]
    return [*columns([("NEWEST FAILURES", "TASK", "HOUR", "OPEN", "LAST", "MESSAGE"), *rows]), ""] if rows else []


def worker_lines(scope: Scope, workers: Sequence[Worker]) -> list[str]:
    if not workers:
        return ["No worker is running. Start one: python manage.py runworker"]
    rows = [
        (
            one_line(worker.pk, 60),
            f"{worker.running}/{worker.slots}",
            format_elapsed(worker.started_at, scope.now),
            format_ago(worker.heartbeat_at, scope.now),
        )
        for worker in workers[: MOST["workers"]]
    ]
    return columns([("WORKER", "RUNNING", "UP", "LAST SEEN"), *rows])


def draw(context: Context, lines: Sequence[str]) -> None:
    """Over the last frame, so that nothing flickers."""
    size = shutil.get_terminal_size()
    shown = [line[: size.columns] for line in lines[: size.lines - 2]]
    shown += [""] * (size.lines - 2 - len(shown)) + ["q quits"]
    painted = [context.output.paint(line, "strong") if n == 0 else line for n, line in enumerate(shown)]
    text = HOME + "\n".join(f"{line}{REST_OF_LINE}" for line in painted) + REST_OF_SCREEN
    context.output.stdout.write(text, ending="")
    context.output.stdout.flush()


@contextlib.contextmanager
def screen(context: Context) -> Iterator[None]:
    context.output.stdout.write(ALTERNATE, ending="")
    try:
        yield
    finally:
        context.output.stdout.write(NORMAL, ending="")
        context.output.stdout.flush()


@contextlib.contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key, or for so many seconds."""
    if not is_terminal(sys.stdin):
        yield no_key
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda seconds: sys.stdin.read(1) if select.select([descriptor], [], [], seconds)[0] else ""
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""


COMMAND = Subcommand("top", "The queue, live; q quits.", run, add_arguments)
