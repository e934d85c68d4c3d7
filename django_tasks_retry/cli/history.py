"""History: partitions, pruning, and the audit of what is stored."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connections

from .. import __version__, taskqueue
from ..conf import configured_backends, options
from ..display.formatting import counted, format_number, one_line
from ..durations import read_duration
from ..rules.names import first_of
from ..selection.grammar import read_moment
from ..selection.matching import first_id_at
from ..taskqueue import database, retention, write_operator_event
from ..taskqueue.lanes import largest_limit
from ..verify.audit import MOST_LISTED, Audit, verify
from ..verify.lanes import Allowed, Limits
from ..verify.rules import RULES
from .output import Column, cell
from .records import shown
from .subcommand import YES, CliError, Context, Exit, actor, checked, command, option

PARTITIONS: Sequence[Column[dict[str, Any]]] = (
    Column("name", "NAME"),
    Column("from", "FROM"),
    Column("until", "UNTIL"),
    Column("tasks", "TASKS"),
    Column("bytes", "MEGABYTES", lambda each: format_number(each["bytes"] // 1_000_000)),
    Column("dropped_from", "DROPPED FROM", lambda each: cell(each["dropped_from"]) or "never"),
)
PRUNED: Sequence[Column[dict[str, Any]]] = (
    Column("backend", "BACKEND"),
    Column("queue", "QUEUE"),
    Column("status", "STATUS", lambda each: each["status"].lower()),
    Column("tasks", "TASKS"),
)
Counts = Counter[tuple[str, str, str]]


@command("partitions", "The periods of a partitioned history, and when each will be dropped.")
def partitions(context: Context) -> None:
    found = retention.partition_summaries(context.using)
    context.output.listing(found, PARTITIONS, "History is not partitioned. See: tasks partitions create --help")


@command(
    "partitions create", "Partition history by days (PostgreSQL). Later, create the partitions of the next days.", YES,
    also=("partition",),
)  # fmt: skip
def create_partitions(context: Context) -> None:
    using = context.using
    if retention.read_layout(using) is None:
        context.confirm("The tables of results, events and steps will be partitioned. Workers keep running.")
    backends = [backend for backend in configured_backends() if database(backend) == using]
    layout = retention.partition_history(using, retention.Period.DAY, backends, context.output.say)
    write_operator_event("history.partitioned", using, actor(), layout.period.value, using)
    first = f"{layout.partitions[0].start:%Y-%m-%d}"
    context.output.say(f"History is partitioned by {layout.period.value}, from {first} on.")


@command(
    "partitions undo", "Copy a partitioned history back into whole tables. Everybody waits meanwhile.", YES,
    also=("partition", "unpartition"),
)  # fmt: skip
def undo_partitions(context: Context) -> None:
    context.confirm("Everybody waits while the whole history is copied.")
    undone = retention.undo_partitioning(context.using, context.output.say)
    if undone:
        write_operator_event("history.unpartitioned", context.using, actor(), "", context.using)
    context.output.say("History is in whole tables again." if undone else "History is not partitioned.")


@command(
    "partitions export", "A period of a partitioned history as one file, as it is stored: secrets are not hidden.",
    option("name", metavar="NAME", help="as tasks partitions lists it, such as p20270131"),
    option("folder", type=Path, metavar="FOLDER", help="the folder for the file"),
    also=("export-partition",),
)  # fmt: skip
def export_partition(context: Context) -> None:
    layout, partition = retention.read_layout(context.using), retention.partition_named(context["name"])
    if layout is None or partition not in layout.partitions or partition is None:
        raise CliError(f"History has no partition {context['name']!r}. See: tasks partitions", Exit.NOT_FOUND)
    export = retention.PeriodExport(partition, retention.Archive(context["folder"]), context.using)
    try:
        done = context.output.count(export.pages(), "exported")
    except OSError as error:
        raise CliError(f"Cannot export to {context['folder']}: {error}", Exit.REFUSED) from error
    holds = "holds the period" if export.is_over else "holds the period so far; it is written anew before it is dropped"
    context.output.say(
        f"{counted(done)} exported. {context['folder'] / export.file if export.file else 'No file'} {holds}."
    )


def exported_to(context: Context) -> retention.Archive:
    archive = retention.Archive(context["folder"]) if context["folder"] else retention.archive_of(context.backend)
    if archive is None:
        raise CliError("OPTIONS['EXPORT_TO'] names no folder. Name one: --from FOLDER")
    try:
        archive.check()
    except OSError as error:
        raise CliError(f"Cannot read {archive.folder}: {error.strerror}", Exit.NOT_FOUND) from error
    return archive


FROM = option("--from", dest="folder", type=Path, metavar="FOLDER", help="default: EXPORT_TO")


@command("archive", "The files to which tasks were exported.", FROM)
def archive(context: Context) -> None:
    files = [{"file": name} for name in exported_to(context).names() if name.endswith((".jsonl", ".jsonl.gz"))]
    context.output.listing(files, [Column("file", "FILE")])


@command(
    "archive read", "A task that was pruned, from the files to which it was exported.",
    option("id", type=checked(UUID), metavar="ID", help="the whole id"),
    FROM,
    option("--raw", action="store_true", help="as it is stored: secrets are not hidden"),
)  # fmt: skip
def read_archive(context: Context) -> None:
    found = retention.find_exported(context["id"], exported_to(context))
    if found is None:
        raise CliError(f"No file holds task {context['id']}.", Exit.NOT_FOUND)
    record = shown(found, raw=context["raw"])
    context.output.answer(record, json.dumps(record, indent=2, ensure_ascii=False))


@command(
    "prune", "Delete finished tasks past their retention, as workers do every hour.", YES,
    option("--reason", default="", metavar="TEXT", help="kept in the history; needed for more than one task"),
    option("--dry-run", action="store_true", help="only say what would be deleted"),
)  # fmt: skip
def prune(context: Context) -> None:
    backends = [context["backend"]] if context["backend"] else list(configured_backends())
    counts = count_prunable(context, backends)
    total = counts.total()
    if total and not context["dry_run"]:
        context.confirm_many(total, f"{counted(total)} past their retention will be deleted.")
        for backend in backends:
            delete(context, backend)
    rows = [
        {"backend": backend, "queue": queue, "status": status, "tasks": number}
        for (backend, queue, status), number in sorted(counts.items())
    ]
    context.output.listing(rows, PRUNED, "Nothing is past its retention.")


def count_prunable(context: Context, backends: list[str]) -> Counts:
    counts: Counts = Counter()
    for backend in backends:
        for page in taskqueue.prunable(backend=backend):
            counts.update({(backend, *key): number for key, number in page.items()})
            context.output.progress(f"{counted(counts.total())} found")
    return counts


def delete(context: Context, backend: str) -> None:
    done = context.output.count(taskqueue.prune(backend=backend), "deleted")
    context.output.say(f"{counted(done)} of backend {one_line(backend, 64)} deleted.")
    if done:
        write_operator_event("tasks.pruned", backend, actor(), context["reason"], database(backend))


MOMENT = checked(lambda text: read_moment(text)[0])


@command(
    "verify", "Does the stored history keep the contract? A report for auditors.",
    option("--since", type=MOMENT, default=timedelta(days=1), metavar="7d", help="enqueued since then (default: 1d)"),
    option("--until", type=MOMENT, metavar="1h", help="enqueued until then (default: now)"),
    option("--all", action="store_true", help="all tasks that are stored"),
    option("--lease", type=checked(read_duration), metavar="60s", help="the shortest LEASE of that time "
        "(default: LEASE)"),
)  # fmt: skip
def verify_history(context: Context) -> Exit:
    now = context.scope.now
    lease = context["lease"] or options(context.backend).lease
    first, last = window(context, now)
    audit = Audit(lease)
    for audit in verify(
        context.using, lease, first, last, limits_of(context.backend), shortest_retention(context.backend)
    ):
        context.output.progress(f"{counted(audit.tasks)} checked, {breaches(audit.counts.total())}")
    report = report_of(context, audit, now)
    if context.output.as_json:
        context.output.record(report)
    else:
        print_report(context, report)
    return Exit.OK if audit.is_clean else Exit.FAILED


def breaches(count: int) -> str:
    return counted(count, "breach", "breaches")


def limits_of(backend: str) -> Limits:
    """Return the current limits of lanes; if people changed a lane's limit, the most that they ever allowed."""

    @cache
    def allowed(lane: str) -> Allowed:
        limit = largest_limit(lane, backend)
        return Allowed(limit.most_running, limit.starts, limit.per, limit.order == "strict")

    return allowed


def shortest_retention(backend: str) -> float | None:
    """Return the seconds for which every finished task is kept; None for ever."""
    own = options(backend)
    return min(
        (each for each in (own.keep_success, own.keep_failed, own.keep_cancelled) if each is not None), default=None
    )


def window(context: Context, now: datetime) -> tuple[UUID | None, UUID]:
    """The ids to read. Those made from now on are left out: their tasks have just begun."""
    last = first_id_at(context["until"], now) if context["until"] else first_of(int(now.timestamp() * 1000))
    return (None if context["all"] else first_id_at(context["since"], now)), last


def report_of(context: Context, audit: Audit, now: datetime) -> dict[str, Any]:
    place = connections[context.using].settings_dict
    return {
        "ok": audit.is_clean,
        "verified_at": now,
        "version": __version__,
        "database": f"{connections[context.using].vendor} {place.get('HOST') or ''} {place['NAME']}",
        "since": None if context["all"] else moment_of(context["since"], now),
        "until": moment_of(context["until"], now) if context["until"] else now,
        "lease_seconds": audit.lease,
        "tasks": audit.tasks,
        "events": audit.events,
        "rules": [
            {"rule": rule, "promise": promise, "breaches": audit.counts[rule]} for rule, promise in RULES.items()
        ],
        "breaches": [asdict(breach) for breach in audit.breaches],
    }


def moment_of(moment: timedelta | datetime, now: datetime) -> datetime:
    return now - moment if isinstance(moment, timedelta) else moment


def print_report(context: Context, report: dict[str, Any]) -> None:
    line, paint = context.output.line, context.output.paint
    line(paint("Does the history keep the contract?", "strong"))
    line(f"database   {one_line(report['database'], 120)}")
    line(f"verified   {cell(report['verified_at'])}, by django_tasks_retry {report['version']}")
    line(f"window     enqueued from {cell(report['since']) or 'the beginning'} to {cell(report['until'])}")
    line(f"looked at  {counted(report['tasks'])}, {counted(report['events'], 'event')}")
    line()
    for rule in report["rules"]:
        verdict = paint("BROKEN", "bad") if rule["breaches"] else paint("kept  ", "good")
        line(f"{verdict}  {rule['promise']}" + (f"  {rule['breaches']} times" if rule["breaches"] else ""))
    line()
    for breach in report["breaches"]:
        line(f"{breach['rule']:<12} {breach['task']}  {one_line(breach['text'], 300)}")
    total = sum(rule["breaches"] for rule in report["rules"])
    if total > MOST_LISTED:
        line(f"… and {format_number(total - MOST_LISTED)} more.")
    line("No breach was found." if report["ok"] else f"{breaches(total)} found.")
