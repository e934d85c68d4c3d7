from __future__ import annotations

import argparse

from ... import taskqueue
from ..exit_codes import Exit
from ..selecting import check_schedule
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the history")


def run(context: Context) -> Exit:
    check_schedule(context)
    wishes = {"by": actor(), "reason": context["reason"], "backend": context.backend}
    task = taskqueue.run_schedule_now(context["name"], **wishes)
    if context.output.as_json:
        context.output.record({"action": "run-schedule", "schedule": context["name"], "task": task.pk, "done": 1})
    else:
        context.output.line(str(task.pk))
    return Exit.OK


COMMAND = Subcommand("run-schedule", "Enqueue the call of a schedule once, beside its plan.", run, add_arguments)
