from __future__ import annotations

from ...rules.status import Status
from ...selection import actions
from ..changing import Verb, add_change_arguments, apply_change, change_of
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand

RUN_NOW = Verb("run-now", "made due now", (Status.PENDING,), actions.run_now)


def run(context: Context) -> Exit:
    return apply_change(change_of(context, RUN_NOW))


COMMAND = Subcommand("run-now", "Make waiting tasks due now.", run, add_change_arguments)
