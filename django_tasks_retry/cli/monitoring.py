"""The state of the whole queue: check for monitoring systems, stats, and top for people."""

import argparse
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from django.utils import timezone

from ..analysis import doctor
from ..analysis.alerts import send_alerts
from ..analysis.preflight import Severity, preflight
from ..conf import options
from ..display import formatting
from ..display.problems import Problem, find_problems
from ..display.scope import Scope, Standing, read_standing
from ..durations import read_duration
from ..metrics import scrape
from ..models import Task
from ..rules.names import short_id, short_name
from ..rules.queues import matches
from ..taskqueue.reading import read_rows
from ..taskqueue.statistics import COUNTS, Counts, QueueFigures, counts_since, describe_groups, group_heads
from ..worker.options import read_count, read_names
from .analysis import columns as failure_columns
from .output import Column, aligned, rows_of
from .queues import FAILING, QUEUES
from .subcommand import CliError, Context, Exit, checked, command, option
from .workers import NO_WORKER
from .workers import columns as worker_columns

DURATION = checked(read_duration)
OPTIONAL = {"paused", "full", "failing", "failing_function", "paused_lane", "gone_worker"}
"""Problems that are not findings of the check: operators chose them, or its options ask for them."""

HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
MOST = {"running": 8, "failures": 5, "workers": 8}
SHOWN = {
    "failures": {"ERROR", "TASK", "OPEN", "HOUR", "LAST", "MESSAGE"},
    "workers": {"WORKER", "RUNNING", "UP", "LAST SEEN"},
}
"""The columns of top."""


def percentage(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage. Write for example 20%.")
    return value


@command(
    "check", "For monitoring: exit code 0 if all is well, 1 if it is not.",
    option("--max-wait", type=DURATION, metavar="10m", help="how long the oldest due task may have waited"),
    option("--workers", type=checked(read_count), default=1, metavar="N", help="how many must be alive (default: 1)"),
    option("--max-failing", type=percentage, metavar="20%", help="share of the latest attempts that may fail"),
    option("--queues", type=checked(read_names), default=("*",), metavar="a,b*", help="which to check (default: all)"),
    option("--alert", action="store_true", help="also send what OPTIONS['ALERTS'] asks for, as a worker does"),
)  # fmt: skip
def check(context: Context) -> Exit:
    standing = read_standing(context.scope)
    if context["alert"]:
        if not options(context.backend).alerts:
            raise CliError("OPTIONS['ALERTS'] names nobody to send to.")
        send_alerts(standing)
    chosen = replace(standing, queues=[each for each in standing.queues if matches(each.name, context["queues"])])
    found = list(findings(context, chosen))
    workers, queues = len(chosen.workers), len(chosen.queues)
    well = f"OK: {formatting.counted(workers, 'worker')} alive, {formatting.counted(queues, 'queue')} checked."
    text = "\n".join(context.output.paint(f"{each.text} {each.command}".rstrip(), "bad") for each in found) or well
    records = [{"what": each.kind, "queue": each.queue, "text": each.text} for each in found]
    verdict = doctor.diagnose(standing, can_see_payload=True).sentence
    record = {"ok": not found, "workers": workers, "findings": records, "verdict": verdict}
    context.output.answer(record, f"{text}\n{verdict}" if found else text)
    return Exit.FAILED if found else Exit.OK


def findings(context: Context, standing: Standing) -> Iterator[Problem]:
    """Return what the console warns of, except states that operators chose or that have an option here."""
    alive, wanted = len(standing.workers), context["workers"]
    if alive < wanted:
        yield Problem("workers", f"{formatting.counted(alive, 'worker')} alive, {wanted} wanted.")
    left_out = OPTIONAL if context["max_failing"] is None else OPTIONAL - {"failing_function"}
    for problem in find_problems(standing, can_see_payload=True):
        if problem.kind not in left_out and (not problem.queue or matches(problem.queue, context["queues"])):
            yield problem
    for queue in standing.queues:
        yield from queue_findings(context, queue)


def queue_findings(context: Context, queue: QueueFigures) -> Iterator[Problem]:
    name, limit, share = f"Queue {formatting.one_line(queue.name, 64)}", context["max_wait"], context["max_failing"]
    if limit is not None and queue.due and queue.oldest_seconds > limit:
        waited = formatting.format_duration(queue.oldest_seconds)
        paused = ", and the queue is paused" if queue.is_paused else ""
        text = (
            f"{name}: the oldest due task has waited {waited}, more than {formatting.format_duration(limit)}{paused}."
        )
        yield Problem("wait", text, queue=queue.name)
    if share is not None and queue.failures > share * queue.attempts:
        failing = queue.failures / queue.attempts
        text = f"{name}: {failing:.0%} of the attempts of the last ten minutes failed, more than {share:.0%}."
        yield Problem("failing", text, queue=queue.name)


@command(
    "preflight", "Before a release, with its code: stored work that it could not run, and what it would change.",
    option("--fail-on", choices=[*map(str, Severity)], default="error", help="least that exits with 1; default: error"),
)  # fmt: skip
def preflight_command(context: Context) -> Exit:
    found = preflight(context.backend, context.using)
    counts = ", ".join(formatting.counted(sum(each.severity is one for each in found), one) for one in Severity)
    lines = [f"{each.severity.upper():8} {formatting.one_line(each.text, 500)}" for each in found]
    record = {"findings": [asdict(each) for each in found]}
    context.output.answer(record, "\n".join([*lines, f"Preflight: {counts}. Nothing was written."]))
    worst = list(Severity).index(Severity(context["fail_on"]))
    return Exit.FAILED if any(list(Severity).index(each.severity) <= worst for each in found) else Exit.OK


@command(
    "stats", "Attempts per function and queue, from the workers' statistics.",
    option("--since", type=DURATION, default=3600.0, metavar="1h", help="how far back (default: 1h, most: 8d)"),
    option("--prometheus", action="store_true", help="all metrics, in the text format of Prometheus"),
)  # fmt: skip
def stats(context: Context) -> None:
    if context["prometheus"]:
        context.output.stdout.write(scrape(context.backend), ending="")
        return
    span = timedelta(seconds=context["since"])
    counts = counts_since(context.scope.now - span, context.using, "func_path", "queue")
    context.output.listing(counts, stat_columns(span))
    if not counts and not context.output.as_json:
        context.output.say("No attempt has ended in this time.")


def stat_columns(span: timedelta) -> list[Column[Counts]]:
    minutes = span.total_seconds() / 60
    return [
        Column("task", "TASK", value=lambda each: each.func_path),
        *(Column(name, name.upper()) for name in ("queue", "attempts", *COUNTS)),
        FAILING,
        Column(
            "per_minute", "PER MINUTE", lambda each: formatting.format_decimal(each.attempts / minutes),
            lambda each: each.attempts / minutes,
        ),
        Column("mean_seconds", "MEAN", lambda each: formatting.format_duration(each.mean_seconds or 0)),
    ]  # fmt: skip


@command(
    "top", "The queue, live; Ctrl-C quits.",
    option("--once", action="store_true", help="one frame"),
    option("--interval", type=DURATION, default=2.0, metavar="2s", help="default: 2s"),
)  # fmt: skip
def top(context: Context) -> None:
    if context["once"] or not context.output.is_terminal:
        for line in frame(context.scope):
            context.output.line(line)
        return
    with suppress(KeyboardInterrupt):
        while True:
            draw(context, frame(context.scope))
            time.sleep(context["interval"])


def frame(scope: Scope) -> list[str]:
    standing = read_standing(scope)
    groups = describe_groups(group_heads(scope.using)[: MOST["failures"]], scope.using)
    failures = [each for each in failure_columns(scope.now) if each.heading in SHOWN["failures"]]
    workers = [each for each in worker_columns(scope.now) if each.heading in SHOWN["workers"]]
    tables = (
        rows_of(standing.queues, QUEUES),
        rows_of(running_longest(scope), running_columns(scope.now)),
        rows_of(groups, failures),
        rows_of(standing.workers[: MOST["workers"]], workers),
    )
    lines = [heading(standing), *(line for table in tables if table[1:] for line in ("", *aligned(table)))]
    return lines if standing.workers else [*lines, "", NO_WORKER]


def heading(standing: Standing) -> str:
    queues, oldest = standing.queues, standing.oldest_seconds
    running, slots = sum(queue.running for queue in queues), sum(worker.slots for worker in standing.workers)
    parts = (
        f"tasks top  {timezone.localtime(standing.scope.now):%H:%M:%S}",
        f"oldest wait {formatting.format_duration(oldest) if oldest else formatting.NO_VALUE}",
        f"ready {formatting.format_capped(standing.due)}",
        f"running {running}/{slots}",
        f"{sum(queue.per_minute for queue in queues):.1f} per minute",
        formatting.counted(len(standing.workers), "worker"),
    )
    return " │ ".join(parts)


def running_longest(scope: Scope) -> list[Task]:
    names = ("id", "func_path", "queue", "locked_by", "last_attempt_at")
    some = read_rows(Task.objects.using(scope.using).running().order_by("locked_by").only(*names)[:1000], names)
    return sorted(some, key=lambda task: task.last_attempt_at or scope.now)[: MOST["running"]]


def running_columns(now: datetime) -> list[Column[Task]]:
    return [
        Column("", "RUNNING LONGEST", lambda task: short_id(task.pk)),
        Column("", "TASK", lambda task: formatting.one_line(short_name(task.func_path), 40)),
        Column("queue", "QUEUE"),
        Column("", "FOR", lambda task: formatting.format_elapsed(task.last_attempt_at or now, now)),
        Column("locked_by", "WORKER"),
    ]


def draw(context: Context, lines: Sequence[str]) -> None:
    """Draw over the last frame, so that nothing flickers."""
    size = shutil.get_terminal_size()
    shown = [*lines[: size.lines - 2], "Ctrl-C quits"]
    text = "".join(f"{line[: size.columns]}{REST_OF_LINE}\n" for line in shown)
    context.output.stdout.write(f"{HOME}{text}{REST_OF_SCREEN}", ending="")
    context.output.stdout.flush()
