from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from ...clock import now
from ...durations import read_duration
from ...rules.status import FINISHED
from ...selection import actions
from ..changing import Verb, add_change_arguments, apply_change, change_of
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand, argument

RETRY = Verb("retry", "retried", FINISHED, actions.retry)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_change_arguments(parser)
    parser.add_argument("--queue", metavar="NAME", help="into another queue")
    parser.add_argument("--priority", type=int, metavar="N", help="with another priority, from -100 to 100")
    parser.add_argument(
        "--spread", type=argument(read_duration), metavar="10m", help="due one after another over this time"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the steps that they remember")
    parser.add_argument("--again", action="store_true", help="also those that were retried before")


def run(context: Context) -> Exit:
    hint = "" if context["again"] else " Those that were retried before are left out; --again takes them too."
    return apply_change(change_of(context, RETRY, again=context["again"]), hint, lambda count: wishes(context, count))


def wishes(context: Context, count: int) -> dict[str, Any]:
    wished = {name: context[name] for name in ("queue", "priority") if context[name] is not None}
    if context["resume"]:
        wished["resume"] = True
    if context["spread"]:
        wished |= {"eta": now(context.using), "step": timedelta(seconds=context["spread"]) / count}
    return wished


COMMAND = Subcommand("retry", "Do finished tasks again, each as a new task.", run, add_arguments)
