from __future__ import annotations

from ...rules.status import UNFINISHED
from ...selection import actions
from ..changing import Verb, add_change_arguments, apply_change, change_of
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand

CANCEL = Verb("cancel", "cancelled", UNFINISHED, actions.cancel)


def run(context: Context) -> Exit:
    return apply_change(change_of(context, CANCEL))


COMMAND = Subcommand("cancel", "Cancel tasks that wait or run.", run, add_change_arguments)
