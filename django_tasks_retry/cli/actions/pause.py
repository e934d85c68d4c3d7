from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ..exit_codes import Exit
from ..lane_labels import add_subject, label_of
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="shown to whoever asks why its tasks wait")


def run(context: Context) -> Exit:
    label, wish = label_of(context), {"by": actor(), "reason": context["reason"], "backend": context.backend}
    if label:
        taskqueue.pause_lane(label, **wish)
    else:
        taskqueue.pause(context["queue"], **wish)
    if context.output.as_json:
        subject = {"lane": label} if label else {"queue": context["queue"]}
        context.output.record({"action": "pause", **subject, "done": 1})
    else:
        what = f"Lane {one_line(label, 100)}" if label else f"Queue {one_line(context['queue'], 64)}"
        context.output.line(f"{what} is paused. Running tasks go on.")
    return Exit.OK


COMMAND = Subcommand(
    "pause", "Let no task of a queue, lane or function start, until it is resumed.", run, add_arguments
)
