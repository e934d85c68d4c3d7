from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import datetime

from ...analysis.sentences import sampled, sentences
from ...analysis.what_changed import what_changed
from ...display.formatting import format_ago, format_capped, one_line
from ...display.redact import redact_text
from ...rules.fingerprint import general
from ...rules.names import short_name
from ...taskqueue.operator.failure_groups import FailureGroup, describe_groups, group_heads
from ..exit_codes import CliError, Exit
from ..subcommand import Context, Subcommand

HEADINGS = ("FAILURE", "ERROR", "TASK", "OPEN", "HOUR", "DAY", "RETRYING", "LAST", "MESSAGE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("failure", nargs="?", metavar="FAILURE", help="one group: what changed since it last worked")
    parser.add_argument("-n", "--limit", type=int, default=25, metavar="N", help="default: 25; 0 means all")


def run(context: Context) -> Exit:
    if context["failure"]:
        return show_changes(context, context["failure"])
    groups = group_heads(context.using)
    shown = describe_groups(groups[: context["limit"] or None], context.using)
    if context.output.as_json:
        for group in shown:
            context.output.record(asdict(group) | {"message": redact_text(group.message)})
    elif shown:
        now = context.scope.now
        context.output.table(HEADINGS, [group_row(group, now) for group in shown])
    if not shown:
        context.output.say("Nothing has failed.")
    elif len(groups) > len(shown):
        context.output.say(f"{len(shown)} of {len(groups)} groups; -n 0 shows all.")
    return Exit.OK


def show_changes(context: Context, fingerprint: str) -> Exit:
    changed = what_changed(fingerprint, context.using, can_see_payload=True)
    if changed is None:
        raise CliError(f"No failure {one_line(fingerprint, 40)} is stored.", Exit.NOT_FOUND)
    told = sentences(changed, can_see_payload=True)
    if context.output.as_json:
        ends = {"first_failure": changed.failure.task, "last_success": changed.success and changed.success.task}
        context.output.record({"failure": fingerprint, "task": changed.func_path, **ends, "changes": told})
        return Exit.OK
    for sentence in told:
        context.output.line(sentence)
    context.output.say(sampled(changed))
    return Exit.OK


def group_row(group: FailureGroup, now: datetime) -> tuple[str, ...]:
    return (
        group.fingerprint,
        one_line(short_name(group.exception) or group.code, 60),
        one_line(short_name(group.func_path), 60),
        format_capped(group.open),
        format_capped(group.failed_this_hour),
        format_capped(group.failed_today),
        format_capped(group.retrying),
        format_ago(group.last_failed_at, now),
        one_line(general(redact_text(group.message[:2000])), 100),
    )


COMMAND = Subcommand("failures", "Failures, similar ones grouped, the latest first.", run, add_arguments)
