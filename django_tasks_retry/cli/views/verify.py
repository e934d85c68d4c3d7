from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections

from ... import __version__
from ...conf import options
from ...display.formatting import format_number, one_line
from ...durations import read_duration
from ...rules.ids import first_of
from ...selection.grammar import read_moment
from ...selection.matching import first_id_at
from ...taskqueue.lanes.limits import largest_limit
from ...verify.audit import MOST_LISTED, Audit, verify
from ...verify.lanes import Allowed, Limits
from ...verify.rules import RULES
from ..exit_codes import Exit
from ..records import local
from ..selecting import counted
from ..subcommand import Context, Subcommand, argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, moment = parser.add_argument, argument(lambda text: read_moment(text)[0])
    add("--since", type=moment, default=timedelta(days=1), metavar="7d", help="tasks enqueued since then (default: 1d)")
    add("--until", type=moment, metavar="1h", help="tasks enqueued until then (default: now)")
    add("--all", action="store_true", help="all tasks that are stored")
    add("--lease", type=argument(read_duration), metavar="60s", help="the shortest LEASE of that time (default: LEASE)")


def run(context: Context) -> Exit:
    scope = context.scope
    lease = context["lease"] or options(context.backend).lease
    first, last = window(context, scope.now)
    audit = Audit(lease)
    for audit in verify(context.using, lease, first, last, limits_of(context.backend)):
        context.output.progress(f"{counted(audit.tasks)} checked, {audit.counts.total()} breaches")
    context.output.progress("", is_last=True)
    report = report_of(context, audit, scope.now)
    if context.output.as_json:
        context.output.record(report)
    else:
        show(context, report)
    return Exit.OK if audit.is_clean else Exit.FAILED


def limits_of(backend: str) -> Limits:
    """What lanes may do today: of those that people decided about, the most that was ever decided."""
    most: dict[str, Allowed] = {}

    def allowed(lane: str) -> Allowed:
        if lane not in most:
            limit = largest_limit(lane, backend)
            most[lane] = Allowed(limit.most_running, limit.starts, limit.per)
        return most[lane]

    return allowed


def window(context: Context, now: datetime) -> tuple[UUID | None, UUID]:
    """Ids that are made from now on are not looked at: their tasks have just begun."""
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
        "rules": [{"rule": rule, "promise": words, "breaches": audit.counts[rule]} for rule, words in RULES.items()],
        "breaches": [asdict(breach) for breach in audit.breaches],
    }


def moment_of(moment: timedelta | datetime, now: datetime) -> datetime:
    return now - moment if isinstance(moment, timedelta) else moment


def show(context: Context, report: dict[str, Any]) -> None:
    line, paint = context.output.line, context.output.paint
    line(paint("Does the history keep the contract?", "strong"))
    line(f"database   {one_line(report['database'], 120)}")
    line(f"verified   {local(report['verified_at'])}, by django_tasks_retry {report['version']}")
    line(f"window     enqueued from {local(report['since']) or 'the beginning'} to {local(report['until'])}")
    line(f"looked at  {counted(report['tasks'])}, {counted(report['events'], 'event')}")
    line()
    for rule in report["rules"]:
        count = rule["breaches"]
        line(
            f"{paint('BROKEN', 'bad') if count else paint('kept  ', 'good')}  {rule['promise']}"
            + (f"  {count} times" if count else "")
        )
    line()
    for breach in report["breaches"]:
        line(f"{breach['rule']:<12} {breach['task']}  {one_line(breach['text'], 300)}")
    total = sum(rule["breaches"] for rule in report["rules"])
    if total > MOST_LISTED:
        line(f"… and {format_number(total - MOST_LISTED)} more.")
    line(
        "No breach was found." if report["ok"] else f"{counted(total, 'breach').replace('breachs', 'breaches')} found."
    )


COMMAND = Subcommand("verify", "Does the stored history keep the contract? A report for auditors.", run, add_arguments)
