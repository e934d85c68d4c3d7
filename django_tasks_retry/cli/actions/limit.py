from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ...durations import read_duration
from ...errors import TaskQueueError
from ..exit_codes import CliError, Exit
from ..subcommand import Context, Subcommand, actor, argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("lane", metavar="LANE", help="a lane, queue:NAME or function:PATH")
    add("--running", type=int, metavar="N", help="at most so many at once")
    add("--starts", type=int, metavar="N", help="at most so many starts in any window")
    add("--per", type=argument(read_duration), metavar="60s", help="the length of the window (default: 60s)")
    add("--weight", type=float, metavar="N", help="its share beside other lanes")
    add("--reason", required=True, metavar="TEXT", help="shown to whoever asks why its tasks wait")


def run(context: Context) -> Exit:
    """Without numbers, the lane is left to the settings and the code again."""
    wishes = {name: context[name] for name in ("running", "starts", "per", "weight")}
    try:
        limit = taskqueue.limit_lane(
            context["lane"], **wishes, by=actor(), reason=context["reason"], backend=context.backend
        )
    except TaskQueueError as error:
        raise CliError(str(error), Exit.USAGE) from None
    if context.output.as_json:
        told = {"most_running": limit.most_running, "starts": limit.starts, "per": limit.per, "weight": limit.weight}
        context.output.record({"action": "limit", "lane": context["lane"], "done": 1, **told})
    else:
        context.output.line(f"{one_line(context['lane'], 100)}: {limit}")
    return Exit.OK


COMMAND = Subcommand("limit", "Decide the limits of a lane, queue or function.", run, add_arguments)
