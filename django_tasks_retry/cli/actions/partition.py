from __future__ import annotations

import argparse

from ...conf import configured_backends
from ...errors import CannotPartition
from ...taskqueue import database
from ...taskqueue.operator.control import write_operator_event
from ...taskqueue.partitions.convert import partition, unpartition
from ...taskqueue.partitions.periods import Period
from ..exit_codes import CliError, Exit
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by", choices=[period.value for period in Period], default=Period.DAY.value, help="how long a period is"
    )
    parser.add_argument(
        "--undo", action="store_true", help="whole tables again; everybody waits while all of it is copied"
    )


def run(context: Context) -> Exit:
    try:
        return undo(context) if context["undo"] else lay_out(context)
    except CannotPartition as error:
        raise CliError(str(error), Exit.REFUSED) from error


def lay_out(context: Context) -> Exit:
    using = context.using
    backends = [backend for backend in configured_backends() if database(backend) == using]
    layout = partition(using, Period(context["by"]), backends, context.output.say)
    write_operator_event("history.partitioned", using, actor(), layout.period.value, using)
    context.output.say(
        f"History is partitioned by {layout.period.value}, from {layout.stretches[0].start:%Y-%m-%d} on."
    )
    return Exit.OK


def undo(context: Context) -> Exit:
    if not unpartition(context.using, context.output.say):
        context.output.say("History is not partitioned.")
        return Exit.OK
    write_operator_event("history.unpartitioned", context.using, actor(), "", context.using)
    context.output.say("History is in whole tables again.")
    return Exit.OK


COMMAND = Subcommand(
    "partition", "Keep history in partitions, dropped by their period (PostgreSQL); while everybody works.", run,
    add_arguments,
)  # fmt: skip
