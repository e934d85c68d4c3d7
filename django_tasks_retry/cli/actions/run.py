from __future__ import annotations

import argparse
import pdb
import traceback
from typing import Any

from ... import registry, taskqueue
from ...display.explain import explain
from ...display.formatting import one_line, printable
from ...models import Task
from ...rules.status import Status
from ...taskqueue import Receipt
from ...worker.foreground import run_in_foreground
from ..exit_codes import CliError, Exit
from ..selecting import one_task
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the task's id, or its first digits")
    parser.add_argument("--pdb", action="store_true", help="open the debugger where it fails")


def run_one(context: Context) -> Exit:
    task = one_task(context, context["id"])
    check_runnable(context, task)
    if task.eta > context.scope.now:
        taskqueue.reschedule([task.pk], by=actor(), reason="run in the shell", backend=context.backend)
        task.refresh_from_db(using=context.using, fields=["eta"])
    receipt = run_in_foreground(task, context.backend, lambda error: examine(context, error))
    if receipt is None:
        task.refresh_from_db(using=context.using)
        why = explain(task, [], context.scope, can_see_payload=True)
        raise CliError(f"It could not be claimed. {why.sentence}", Exit.REFUSED)
    return told(context, receipt)


def check_runnable(context: Context, task: Task) -> None:
    if task.status == Status.RUNNING:
        raise CliError(f"{one_line(task.locked_by or 'A worker', 128)} runs it already.", Exit.REFUSED)
    if task.status != Status.PENDING:
        advice = f"Do it again first: manage.py tasks retry {task.pk}"
        raise CliError(f"A {task.status.lower()} task cannot run. {advice}", Exit.REFUSED)
    if task.backend != context.backend:
        raise CliError(f"It belongs to another backend: add --backend {one_line(task.backend, 64)}.")
    if registry.find(task.func_path) is None:
        why = registry.unimportable().get(task.func_path.rpartition(".")[0], "no tasks module defines it")
        raise CliError(f"This process does not know {one_line(task.func_path, 255)}: {one_line(why)}.", Exit.REFUSED)


def examine(context: Context, error: BaseException) -> None:
    context.output.say(printable("".join(traceback.format_exception(error))).rstrip())
    if context["pdb"]:
        context.output.say("The lease is kept while you look. Leave with q: the failure is recorded then.")
        pdb.post_mortem(error.__traceback__)


def told(context: Context, receipt: Receipt) -> Exit:
    record = {"id": receipt.lease.id, "attempt": receipt.lease.attempts, **outcome_of(receipt)}
    if context.output.as_json:
        context.output.record(record)
    else:
        context.output.line(f"{record['outcome']}: attempt {record['attempt']} of {receipt.lease.max_attempts}")
    return Exit.OK if receipt.status is Status.SUCCESS else Exit.FAILED


def outcome_of(receipt: Receipt) -> dict[str, Any]:
    if not receipt.accepted:
        return {"outcome": "not recorded", "reason": receipt.lost.value if receipt.lost else "its row is locked"}
    if receipt.status is Status.PENDING:
        return {"outcome": "failed, to be tried again" if receipt.error else "released", "eta": receipt.eta}
    return {"outcome": str(receipt.status).lower()}


COMMAND = Subcommand("run", "Run one stored task here, in the foreground, under a real lease.", run_one, add_arguments)
