"""Failures, grouped, and what changed since a group last worked."""

from datetime import datetime

from ..analysis.what_changed import sampled, sentences, what_changed
from ..display.events import error_text, message_text
from ..display.formatting import format_ago, format_capped, one_line
from ..rules.names import short_name
from ..rules.redact import redact_text
from ..taskqueue.statistics import GroupFigures, describe_groups, group_heads
from .output import Column, only_json
from .subcommand import CliError, Context, Exit, command, option


def columns(now: datetime) -> list[Column[GroupFigures]]:
    return [
        Column("fingerprint", "FAILURE"),
        Column("", "ERROR", error_text),
        Column("func_path", "TASK", lambda group: one_line(short_name(group.func_path), 60)),
        Column("open", "OPEN", lambda group: format_capped(group.open)),
        Column("failed_this_hour", "HOUR", lambda group: format_capped(group.failed_this_hour)),
        Column("failed_today", "DAY", lambda group: format_capped(group.failed_today)),
        Column("retrying", "RETRYING", lambda group: format_capped(group.retrying)),
        Column("last_failed_at", "LAST", lambda group: format_ago(group.last_failed_at, now)),
        Column(
            "message", "MESSAGE", lambda group: message_text(group, can_see_payload=True),
            lambda group: redact_text(group.message),
        ),
        *only_json("sample", "queue", "exception", "code", "first_failed_at", "failed"),
    ]  # fmt: skip


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
    output.listing(shown, columns(now), "Nothing has failed.")
    if len(groups) > len(shown) > 0:
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
