"""Failures, grouped, and what changed since a group last worked."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from ..analysis.what_changed import sampled, sentences, what_changed
from ..display.events import error_text, message_text
from ..display.formatting import format_ago, format_capped, one_line
from ..rules.names import short_name
from ..rules.redact import redact_text
from ..taskqueue.statistics.failure_groups import FailureGroup, describe_groups, group_heads
from .subcommand import CliError, Context, Exit, command, option

HEADINGS = ("FAILURE", "ERROR", "TASK", "OPEN", "HOUR", "DAY", "RETRYING", "LAST", "MESSAGE")


@command(
    "failures", "Failures, similar ones grouped, the latest first.",
    option("failure", nargs="?", metavar="FAILURE", help="one group: what changed since it last worked"),
    option("-n", "--limit", type=int, default=25, metavar="N", help="default: 25; 0 means all"),
)  # fmt: skip
def failures(context: Context) -> None:
    if context["failure"]:
        show_changes(context, context["failure"])
        return
    output, now, groups = context.output, context.scope.now, group_heads(context.using)
    shown = describe_groups(groups[: context["limit"] or None], context.using)
    output.listing(
        shown,
        lambda group: asdict(group) | {"message": redact_text(group.message)},
        HEADINGS,
        lambda group: group_row(group, now),
    )
    if not shown:
        output.say("Nothing has failed.")
    elif len(groups) > len(shown):
        output.say(f"{len(shown)} of {len(groups)} groups; -n 0 shows all.")


def show_changes(context: Context, fingerprint: str) -> None:
    changed = what_changed(fingerprint, context.using, can_see_payload=True)
    if changed is None:
        raise CliError(f"No failure {one_line(fingerprint, 40)} is stored.", Exit.NOT_FOUND)
    changes = sentences(changed, can_see_payload=True)
    ends = {"first_failure": changed.failure.task, "last_success": changed.success and changed.success.task}
    record = {"failure": fingerprint, "task": changed.func_path, **ends, "changes": changes}
    context.output.answer(record, "\n".join(changes))
    if not context.output.as_json:
        context.output.say(sampled(changed))


def group_row(group: FailureGroup, now: datetime) -> tuple[str, ...]:
    return (
        group.fingerprint,
        error_text(group),
        one_line(short_name(group.func_path), 60),
        format_capped(group.open),
        format_capped(group.failed_this_hour),
        format_capped(group.failed_today),
        format_capped(group.retrying),
        format_ago(group.last_failed_at, now),
        message_text(group, can_see_payload=True),
    )
