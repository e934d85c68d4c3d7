"""Answers from the history: what is wrong now, why a task was late, and failures, grouped."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from statistics import mean, median
from typing import Any

from django.db import connections

from .. import registry
from ..analysis import doctor, late
from ..analysis.objectives import figures_of, what_ate
from ..analysis.what_changed import sampled, sentences, what_changed
from ..conf import suggestion
from ..display.events import error_text, message_text
from ..display.formatting import format_ago, format_capped, format_duration, format_percentage, one_line
from ..display.scope import read_standing
from ..durations import read_duration
from ..rules.names import short_id, short_name
from ..rules.redact import redact_text
from ..taskqueue.statistics import Budget, GroupFigures, describe_groups, group_heads, read_budgets
from ..taskqueue.workflows import UnknownEffect, answer_effect, unknown_effects
from ..worker.options import read_count
from ..worker.rehearsal import VERDICTS, rehearse
from .output import Column, only_json
from .records import ID, one_task
from .subcommand import WHY_IT_WAITS, CliError, Context, Exit, checked, command, option


@command("doctor", "One verdict in one sentence, its causes in order and what to do; exit code 1 if it is bad.")
def doctor_command(context: Context) -> Exit:
    verdict = doctor.diagnose(read_standing(context.scope), can_see_payload=True)
    painted = context.output.paint(verdict.sentence, "good" if verdict.is_well else "bad")
    record = {"ok": verdict.is_well, "verdict": verdict.sentence, **asdict(verdict)}
    context.output.answer(record, "\n".join([painted, *doctor.lines(verdict)]))
    return Exit.OK if verdict.is_well else Exit.FAILED


@command(
    "late", "Why a task was or is late, by causes that add up. Without an ID: percentiles per function and queue.",
    option("id", nargs="?", metavar="ID", help="the id of the task, or its first digits"),
    option("--function", dest="func_path", metavar="PATH", help="only tasks of this function"),
    option("--queue", metavar="QUEUE", help="only tasks of this queue"),
    option("--since", type=checked(read_duration), default=86400.0, metavar="1d", help="enqueued since (default: 1d)"),
)  # fmt: skip
def late_command(context: Context) -> Exit:
    if context["id"]:
        return late_task(context)
    chosen = {name: context[name] for name in ("func_path", "queue") if context[name]}
    found = late.overall(context.scope, timedelta(seconds=context["since"]), **chosen)
    context.output.listing(found, OVERALL, "No such task has begun in this time.")
    return Exit.OK if found else Exit.NOT_FOUND


def largest(found: late.Overall) -> str:
    return ", ".join(f"{name} {format_percentage(share, 1)}" for name, share in list(found.causes.items())[:3])


OVERALL: Sequence[Column[late.Overall]] = (
    Column("func_path", "TASK"), Column("queue", "QUEUE"), Column("tasks", "TASKS"),
    Column("median", "MEDIAN", lambda found: format_duration(found.median)),
    Column("p95", "P95", lambda found: format_duration(found.p95)), Column("causes", "CAUSES", largest),
)  # fmt: skip


def late_task(context: Context) -> Exit:
    found = late.why_late(one_task(context), context.scope)
    seconds = {"wait_seconds": found.wait.total_seconds(), "worked_seconds": found.worked.total_seconds()}
    parts = [{"cause": cause, "subject": about, "seconds": time.total_seconds()} for cause, about, time in found.parts]
    lines = [f"It waited for {format_duration(seconds['wait_seconds'])}."]
    lines += [f"  {time:>12}  {text}" for time, text in late.rows_of(found)]
    context.output.answer({"id": str(found.task), **seconds, "parts": parts}, "\n".join(lines))
    return Exit.OK


def figure(heading: str, name: str = "", **known: Any) -> Column[Budget]:
    return Column(name, heading.upper(), lambda budget: figures_of(budget)[heading.replace(" ", "_")], **known)


BUDGETS: Sequence[Column[Budget]] = (
    figure("objective", "objective", value=lambda budget: budget.objective.label),
    figure("within", "seconds", value=lambda budget: budget.objective.seconds),
    figure("attempts", "attempts", value=lambda budget: budget.attempts["7d"]),
    figure("in time", "in_time", value=lambda budget: budget.in_time("7d")),
    figure("budget", "budget_left", value=lambda budget: budget.left),
    figure("burn", "burn_1h", value=lambda budget: budget.burn("1h")),
    figure("waiting", "waiting"), Column("is_burning"),
)  # fmt: skip


@command(
    "objectives", "Objectives: share in time of 7 days, budget left, burn rate. With a NAME: what ate the budget.",
    option("name", nargs="?", metavar="NAME", help="queue:emails or function:shop.tasks.pay, or its end"),
)  # fmt: skip
def objectives_command(context: Context) -> Exit:
    budgets = read_budgets(context.backend)
    if name := context["name"]:
        budgets = [each for each in budgets if each.objective.label.endswith(name)]
        if len(budgets) != 1:
            raise CliError(f"{len(budgets)} objectives end with “{one_line(name, 100)}”.", Exit.NOT_FOUND)
        eaters = what_ate(budgets[0].objective, context.scope)
        record = {"objective": budgets[0].objective.label, "eaters": [each._asdict() for each in eaters]}
        nothing = "No attempt of the last 7 days that started late is stored."
        context.output.answer(record, "\n".join(map(str, eaters)) or nothing)
        return Exit.OK
    context.output.listing(budgets, BUDGETS, "No function or queue has an objective: @retry(objective=…), OBJECTIVES.")
    return Exit.FAILED if any(each.is_burning for each in budgets) else Exit.OK


@command(
    "rehearse", "Run recorded calls with this code, roll all back, and compare their ends with the recorded ones.",
    option("function", metavar="FUNCTION", help="the path of the function"),
    option("--database", dest="databases", action="append", required=True, metavar="ALIAS",
           help="a replica or staging copy: its history is read, and the calls run there; then others that they use"),
    option("--since", type=checked(read_duration), default=86400.0, metavar="1d", help="enqueued since (default: 1d)"),
    option("--sample", type=checked(read_count), default=200, metavar="N", help="the newest N (default: 200)"),
    option("--allow-network", action="store_true", help="do not refuse sockets and new effects"),
)  # fmt: skip
def rehearse_command(context: Context) -> Exit:
    path, aliases = context["function"], context["databases"]
    if registry.find(path) is None:
        raise CliError(
            f"This code does not know {one_line(path)}.{suggestion(path, registry.known_paths())}", Exit.NOT_FOUND
        )
    for alias in aliases:
        if alias not in connections:
            raise CliError(f"{one_line(alias, 60)} is no alias of DATABASES ({', '.join(connections)}).")
    since, network = timedelta(seconds=context["since"]), context["allow_network"]
    found = rehearse(path, context.backend, aliases, since, context["sample"], network=network)
    if not found:
        context.output.say(f"No call of {one_line(path)} has ended in this time.")
        return Exit.NOT_FOUND
    counts = {verdict: sum(each.verdict == verdict for each in found) for verdict in VERDICTS}
    odd = [each for each in found if each.verdict not in ("equal", "cured")]
    record = {
        "function": path,
        "counts": counts,
        "median_seconds": median(each.seconds for each in found),
        "recorded_median_seconds": median(each.recorded_seconds for each in found),
        "statements": mean(each.statements for each in found),
        "calls": [
            {"id": str(each.task.pk), "verdict": each.verdict, "details": each.details}
            for each in found
            if each.details
        ],
    }
    lines = [f"{each.verdict.upper():8} {short_id(each.task.pk)}  {'; '.join(each.details)}" for each in odd]
    now, before = (format_duration(record[name]) for name in ("median_seconds", "recorded_median_seconds"))
    times = f"median {now}, recorded {before}; {record['statements']:.1f} statements a call. All was rolled back."
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    context.output.answer(record, "\n".join([*lines, f"{summary}; {times}"]))
    return Exit.FAILED if len(odd) > counts["refused"] or len(odd) == len(found) else Exit.OK


EFFECTS: Sequence[Column[UnknownEffect]] = (
    Column("task", "TASK", value=lambda found: str(found.task.pk)),
    Column("function", "FUNCTION", value=lambda found: found.task.func_path),
    Column("name", "EFFECT"), Column("key", "KEY"), Column("since", "SINCE"),
    Column("is_asked", "ASKS", lambda found: "yes" if found.is_asked else "no"),
)  # fmt: skip
EFFECT = option("effect", metavar="EFFECT", help="the name of the effect")


@command("effects", "Effects of which nobody knows whether they happened; tasks that ask wait for your answer.")
def effects(context: Context) -> Exit:
    found = unknown_effects(context.using)
    context.output.listing(found, EFFECTS, "No effect is unknown.")
    return Exit.FAILED if found else Exit.OK


@command(
    "effects happened", "Say that an unknown effect happened: its task goes on.", ID, EFFECT, WHY_IT_WAITS,
    option("--result", type=checked(json.loads), metavar="JSON", help="the value that it returned (default: null)"),
)  # fmt: skip
def effect_happened(context: Context) -> None:
    answer(context, happened=True, result=context["result"])


@command("effects retry", "Say that an unknown effect did not happen: its task calls again.", ID, EFFECT, WHY_IT_WAITS)
def effect_did_not(context: Context) -> None:
    answer(context, happened=False)


def answer(context: Context, **given: Any) -> None:
    task, name = one_task(context), context["effect"]
    answer_effect(task, name, **given, **context.decision)
    record = {"id": str(task.pk), "effect": name, "happened": given["happened"]}
    context.output.answer(record, f"Task {short_id(task.pk)} goes on.")


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
