"""The parser of `manage.py tasks`, from the subcommands."""

from __future__ import annotations

import argparse
from typing import Any

from .subcommand import subcommands


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for command in subcommands().values():
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        command.add_arguments(subparser)
        add_common(subparser)


def add_common(parser: Any) -> None:
    common = parser.add_argument_group("for every subcommand")
    common.add_argument("--backend", metavar="ALIAS", help="the alias in TASKS (default: the first that is ours)")
    common.add_argument("--json", action="store_true", help="answer in JSON; lists as one object per line")
    common.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS, help="no colours")
    # What `manage.py` has read already, wherever it stands.
    for name in ("--settings", "--pythonpath"):
        common.add_argument(name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
