from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ..exit_codes import CliError, Exit
from ..lane_labels import add_subject, label_of
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the history")


def run(context: Context) -> Exit:
    label, wish = label_of(context), {"by": actor(), "reason": context["reason"], "backend": context.backend}
    what = f"Lane {one_line(label, 100)}" if label else f"Queue {one_line(context['queue'], 64)}"
    if not (taskqueue.resume_lane(label, **wish) if label else taskqueue.resume(context["queue"], **wish)):
        raise CliError(f"{what} was not paused.", Exit.REFUSED)
    if context.output.as_json:
        subject = {"lane": label} if label else {"queue": context["queue"]}
        context.output.record({"action": "resume", **subject, "done": 1})
    else:
        context.output.line(f"{what} is resumed.")
    return Exit.OK


COMMAND = Subcommand("resume", "Let the tasks of a paused queue, lane or function start again.", run, add_arguments)
