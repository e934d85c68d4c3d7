from __future__ import annotations

import argparse

from ...display.formatting import one_line
from ...schedule_import import SOURCES, Importable, ImportPlan, carry_out, plan_import
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", required=True, choices=sorted(SOURCES), help="the queue they are in")
    parser.add_argument("--file", metavar="PATH", help="the crontab, for crontab-file")
    parser.add_argument("--apply", action="store_true", help="make them; without it nothing is written")


def run(context: Context) -> Exit:
    plan = plan_import(context["source"], path=context["file"], backend=context.backend)
    show(context, plan)
    if context["apply"]:
        made = carry_out(plan, by=actor(), backend=context.backend)
        context.output.say(f"{len(made)} schedules made, {len(plan.not_importable)} left out.")
    else:
        context.output.say(f"Dry run: {len(plan.importable)} would be made. Add --apply to make them.")
    return Exit.OK


def show(context: Context, plan: ImportPlan) -> None:
    for one in plan.importable:
        told(context, one.name, "import", described(one))
    for other in plan.not_importable:
        told(context, other.name, "leave out", other.why)


def told(context: Context, name: str, action: str, text: str) -> None:
    if context.output.as_json:
        context.output.record({"action": action, "schedule": name, "text": text})
    else:
        sign = "+" if action == "import" else "-"
        context.output.line(f"{sign} {one_line(name, 128)}: {one_line(text, 300)}")


def described(one: Importable) -> str:
    when = one.asked.get("cron") or f"every {one.asked.get('every'):g} s"
    return f"{one.task} · {when}{' · paused' if one.is_paused else ''}"


COMMAND = Subcommand("import-schedules", "Bring along schedules of another queue; a dry run first.", run, add_arguments)
