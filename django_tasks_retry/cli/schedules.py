"""Schedules: when each runs next, pause, resume, run once, import."""

from django.db.models import QuerySet

from .. import taskqueue
from ..display.explain_schedule import explain_schedule, schedule_state
from ..display.formatting import format_relative, one_line
from ..display.redact import redact_value
from ..display.scope import Scope
from ..models import Schedule
from ..rules.names import short_name
from ..rules.redact import redact_text
from ..taskqueue.control import SCHEDULE
from ..taskqueue.reading import read_row, read_rows
from .output import Column, only_json
from .queues import switch
from .subcommand import REASON, WHY_IT_WAITS, CliError, Context, Exit, command, option

NAME = option("name", metavar="NAME")


@command("schedules", "Schedules: when each runs next, or why it does not.")
def schedules(context: Context) -> None:
    print_schedules(context, read_rows(stored(context).order_by("name")))


@command("schedules show", "One schedule, and why it does or does not run.", NAME)
def show_schedule(context: Context) -> None:
    schedule = named(context)
    print_schedules(context, [schedule])
    if not context.output.as_json:
        context.output.line(why(schedule, context.scope))


def stored(context: Context) -> QuerySet[Schedule]:
    found: QuerySet[Schedule] = Schedule.objects.using(context.using).filter(backend=context.backend)
    return found


def named(context: Context) -> Schedule:
    schedule = read_row(stored(context), context["name"])
    if schedule is None:
        raise CliError(f"There is no schedule {one_line(context['name'], 128)}.", Exit.NOT_FOUND)
    return schedule


def print_schedules(context: Context, found: list[Schedule]) -> None:
    if not found:
        raise CliError("There is no schedule.", Exit.NOT_FOUND)
    context.output.listing(found, columns(context.scope))


def why(schedule: Schedule, scope: Scope) -> str:
    return explain_schedule(schedule, scope, can_see_payload=True).sentence


def rhythm_of(schedule: Schedule) -> str:
    return one_line(schedule.cron, 60) or (f"every {schedule.every:g} s" if schedule.every else "")


def columns(scope: Scope) -> list[Column[Schedule]]:
    return [
        Column("name", "SCHEDULE"),
        Column("state", "STATE", value=lambda each: schedule_state(each, scope.now)),
        Column("func_path", "TASK", lambda each: one_line(short_name(each.func_path), 60)),
        Column("cron", "WHEN", rhythm_of),
        Column("timezone", "TIME ZONE"),
        Column("next_at", "NEXT", lambda each: format_relative(each.next_at, scope.now) if each.next_at else ""),
        Column("last_at", "LAST"),
        Column("last_outcome", "LAST OUTCOME"),
        *only_json("queue", "priority", "every", "overlap", "misfire_grace", "starts_at", "ends_at", "source"),
        *only_json("paused_at", "paused_by", "vanished_at"),
        Column("args", value=lambda each: redact_value("", each.args, None)),
        Column("kwargs", value=lambda each: redact_value("", each.kwargs, None)),
        Column("why", value=lambda each: why(each, scope)),
        Column("reason", value=lambda each: redact_text(each.reason)),
    ]


@command(
    "schedules pause", "Enqueue nothing for a schedule, until it is resumed.", NAME, WHY_IT_WAITS,
    also=("pause-schedule",),
)  # fmt: skip
def pause_schedule(context: Context) -> None:
    switch(context, taskqueue.pause, SCHEDULE, named(context).name)


@command("schedules resume", "Go on with the next slot of a paused schedule.", NAME, REASON, also=("resume-schedule",))
def resume_schedule(context: Context) -> None:
    switch(context, taskqueue.resume, SCHEDULE, named(context).name)


@command(
    "schedules run", "Enqueue the call of a schedule once, beside its plan.", NAME, REASON,
    also=("run-schedule", "trigger", "run"),
)  # fmt: skip
def run_schedule(context: Context) -> None:
    named(context)
    task = taskqueue.run_schedule_now(context["name"], **context.decision)
    record = {"action": context["subcommand"], "schedule": context["name"], "task": task.pk, "done": 1}
    context.output.answer(record, str(task.pk))
