from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ...models import Worker
from ..exit_codes import CliError, Exit
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("worker", metavar="WORKER", help="its id, or the beginning of it")
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the history")


def run(context: Context) -> Exit:
    worker = one_worker(context)
    if not taskqueue.ask_to_stop(worker, by=actor(), reason=context["reason"], backend=context.backend):
        raise CliError(f"{one_line(worker, 128)} has stopped, or was asked to stop before.", Exit.REFUSED)
    if context.output.as_json:
        context.output.record({"action": "stop", "worker": worker, "done": 1})
    else:
        context.output.line(f"{one_line(worker, 128)} was asked to finish its running tasks and stop.")
    return Exit.OK


def one_worker(context: Context) -> str:
    name: str = context["worker"]
    known = Worker.objects.using(context.using).filter(pk__startswith=name)
    ids = list(known.filter(stopped_at__isnull=True).order_by("pk").values_list("pk", flat=True)[:6])
    if name in ids or len(ids) == 1:
        return name if name in ids else ids[0]
    if not ids:
        raise CliError(f"No running worker has an id that begins with {one_line(name, 128)}.", Exit.NOT_FOUND)
    raise CliError(
        "Several workers have an id that begins so:\n" + "\n".join(f"  {one_line(each, 128)}" for each in ids)
    )


COMMAND = Subcommand("stop", "Ask a worker to finish what it runs and stop.", run, add_arguments)
