"""How a queue, a lane or a function is named on the command line."""

from __future__ import annotations

import argparse

from .exit_codes import CliError
from .subcommand import Context


def add_subject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", nargs="?", metavar="QUEUE")
    parser.add_argument("--lane", metavar="LANE", help="a lane instead of a queue")
    parser.add_argument("--function", metavar="PATH", help="a function instead of a queue")


def label_of(context: Context) -> str:
    """The lane or function that was named; nothing for a queue. One of them must be."""
    given = [name for name in ("queue", "lane", "function") if context[name]]
    if len(given) != 1:
        raise CliError("Name one of these: QUEUE, --lane LANE or --function PATH.")
    return f"function:{context['function']}" if given == ["function"] else context["lane"] or ""
