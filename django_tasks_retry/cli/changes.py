"""Changes of tasks, through the service layer: count first, ask, then go page by page."""

import argparse
import json
import pdb
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q

from .. import registry, taskqueue
from ..conf import suggestion
from ..display.explain import explain
from ..display.formatting import counted, one_line, printable
from ..durations import read_duration
from ..errors import TaskQueueError
from ..models import Task
from ..rules.status import Status
from ..selection.actions import CANCEL, RETRY, RUN_NOW, Action
from ..selection.grammar import IdRange, Query
from ..selection.matching import walk
from ..taskqueue import Canary, Receipt
from ..taskqueue.new_tasks import new_id
from ..taskqueue.workflows import MOST_CANARIES
from ..worker.foreground import run_in_foreground
from .records import ID, WORDS, one_id, one_task, read_query
from .subcommand import YES, CliError, Context, Exit, actor, checked, command, option

CHANGE = (
    WORDS,
    option("--reason", default="", metavar="TEXT", help="kept in the history; needed for more than one task"),
    YES,
    option("--dry-run", action="store_true", help="only say how many"),
    option("--ids", action="store_true", help="answer with the ids of the changed tasks, one per line"),
)


@command("cancel", "Cancel tasks that wait or run.", *CHANGE)
def cancel(context: Context) -> Exit:
    return apply_change(change_of(context, CANCEL))


def choose_time(parser: argparse.ArgumentParser) -> None:
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument("--now", action="store_true", help="due now")
    when.add_argument("--in", dest="delay", type=checked(read_duration), metavar="10m", help="due after this time")


@command("reschedule", "Change when waiting tasks are due.", *CHANGE, choose_time, also=("run-now", "postpone"))
def reschedule(context: Context) -> Exit:
    wish = {} if context["now"] else {"eta": timedelta(seconds=context["delay"])}
    return apply_change(change_of(context, RUN_NOW), options=lambda _count: wish)


def read_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:10]) <= MOST_CANARIES):
        raise ValueError(f"give a number of tasks from 1 to {MOST_CANARIES}")
    return int(text)


def read_share(text: str) -> float:
    if not 0 < (share := float(text)) <= 1:
        raise ValueError("give a share above 0 and up to 1, such as 0.8")
    return share


@command(
    "retry", "Do finished tasks again, each as a new task.", *CHANGE,
    option("--queue", metavar="NAME", help="into another queue"),
    option("--priority", type=int, metavar="N", help="with another priority, from -100 to 100"),
    option("--spread", type=checked(read_duration), metavar="10m", help="due one after another over this time"),
    option("--canary", type=checked(read_count), metavar="N", help="N first; the rest if enough of them succeed"),
    option("--continue-if", type=checked(read_share), default=0.8, metavar="0.8", help="the share that is enough"),
    option("--resume", action="store_true", help="go on from the steps that they remember"),
    option("--again", action="store_true", help="also those that were retried before"),
)  # fmt: skip
def retry(context: Context) -> Exit:
    hint = "" if context["again"] else " Those that were retried before are left out; --again takes them too."
    return apply_change(change_of(context, RETRY, again=context["again"]), hint, lambda count: wishes(context, count))


def wishes(context: Context, count: int) -> dict[str, Any]:
    wished = {name: context[name] for name in ("queue", "priority") if context[name] is not None}
    if context["resume"]:
        wished["resume"] = True
    if context["spread"] or context["canary"]:
        wished |= {"eta": context.scope.now, "step": timedelta(seconds=context["spread"] or 0) / count}
    if context["canary"]:
        wished["canary"] = Canary(new_id(), context["canary"], context["continue_if"], context.scope.now)
    return wished


@dataclass(frozen=True, slots=True)
class Change:
    """An action and the tasks that are meant: those that match now and have the right status."""

    context: Context
    action: Action
    query: Query
    condition: Q
    until: UUID

    def pages(self) -> Iterator[list[UUID]]:
        return walk(self.query, self.context.using, condition=self.condition, until=self.until)

    def matches_any(self) -> bool:
        """Return whether tasks in any status match, retried ones too."""
        self.query.is_not_retried = False
        return any(walk(self.query, self.context.using, until=self.until, size=1))


def change_of(context: Context, action: Action, *, again: bool = True) -> Change:
    query, condition = read_query(context), Q(status__in=action.statuses)
    query.is_not_retried = not again
    if query.is_empty:
        raise CliError("Say which tasks: ids, or words such as status:failed queue:emails since:1h.")
    # Nobody means a thousand tasks by the first digits of an id.
    query.ids[:] = [whole(context, *id_range) for id_range in query.ids]
    return Change(context, action, query, condition, new_id())


def whole(context: Context, first: UUID, last: UUID) -> IdRange:
    """The one id of a range that was given by its first digits."""
    if first == last:
        return first, last
    pairs = zip(first.hex, last.hex, strict=True)
    found = one_id(context, "".join(digit for digit, other in pairs if digit == other))
    return found, found


def apply_change(change: Change, hint: str = "", options: Callable[[int], dict[str, Any]] = lambda _count: {}) -> Exit:
    """Count, ask, change. `options` are made from the count; `hint` is added if nothing can be changed."""
    context, action = change.context, change.action
    count = context.output.count(map(len, change.pages()), "found")
    if not count:
        raise nothing_to_do(change, hint)
    if context["dry_run"]:
        context.output.answer(
            {"action": context["subcommand"], "would": count}, f"{counted(count)} would be {action.participle}."
        )
        return Exit.OK
    context.confirm_many(count, f"{counted(count)} will be {action.participle}.")
    extra, done, skipped = options(count), 0, 0
    for page in change.pages():
        applied = act(change, page, extra, done, done + skipped) if page else []
        done, skipped = done + len(applied), skipped + len(page) - len(applied)
        context.output.progress(f"{done + skipped:,} of {count:,} {action.participle}")
    if "canary" in extra:
        text = "The rest waits for the first {}. See how they do: manage.py tasks list retries:{}"
        context.output.say(text.format(counted(extra["canary"].left), change.until))
    return sum_up(change, done, skipped)


def act(change: Change, page: list[UUID], extra: dict[str, Any], done: int, before: int) -> list[UUID]:
    given = dict(extra)
    if "canary" in given:
        given["canary"] = given["canary"].after(done)
    if "step" in given:
        given["eta"] += before * given["step"]
    applied = change.action.call(page, **change.context.decision, **given)
    if change.context["ids"]:
        for task_id in ids_to_go_on_with(change, applied):
            change.context.output.line(str(task_id))
    return applied


def ids_to_go_on_with(change: Change, applied: list[UUID]) -> list[UUID]:
    """The changed tasks; after a retry, the new ones."""
    if change.action is not RETRY:
        return applied
    fresh = Task.objects.using(change.context.using).filter(retry_of__in=applied, pk__gt=change.until)
    return list(fresh.order_by("pk").values_list("pk", flat=True))


def nothing_to_do(change: Change, hint: str) -> CliError:
    if not change.matches_any():
        return CliError("No task matches.", Exit.NOT_FOUND)
    wanted = " or ".join(status.lower() for status in change.action.statuses)
    return CliError(
        f"No task that matches can be {change.action.participle}: that takes {wanted} ones.{hint}", Exit.REFUSED
    )


def sum_up(change: Change, done: int, skipped: int) -> Exit:
    context, action = change.context, change.action
    output = context.output
    if output.as_json or not context["ids"]:
        output.answer(
            {"action": context["subcommand"], "done": done, "skipped": skipped}, f"{counted(done)} {action.participle}."
        )
    if skipped:
        output.say(f"{counted(skipped)} skipped: somebody else was faster, or the row cannot be read or is locked.")
    return Exit.OK if done else Exit.REFUSED


def read_json(text: str) -> Any:
    return json.loads(text or "null")


@command(
    "enqueue", "Enqueue a registered task.",
    option("task", metavar="PATH", help="such as shop.tasks.pay"),
    option("--args", dest="call_args", type=checked(read_json), metavar="JSON", help="a list, such as '[42]'"),
    option("--kwargs", dest="call_kwargs", type=checked(read_json), metavar="JSON", help="an object"),
    option("--queue", metavar="NAME", help="default: the queue of the task"),
    option("--in", dest="delay", type=checked(read_duration), default=0.0, metavar="10m", help="due after this time"),
)  # fmt: skip
def enqueue(context: Context) -> None:
    func: Any = registry.find(context["task"])
    if func is None:
        hint = suggestion(context["task"], registry.known_paths())
        raise CliError(f"{one_line(context['task'])} is not a registered task.{hint}", Exit.NOT_FOUND)
    options: dict[str, Any] = {"queue": context["queue"], "metadata": {"enqueued_by": actor()}}
    options["eta"] = timedelta(seconds=context["delay"]) if context["delay"] else None
    args, kwargs = context["call_args"] or [], context["call_kwargs"] or {}
    try:
        task = taskqueue.enqueue(taskqueue.EnqueueOptions(func, args, kwargs, **options))
    except TaskQueueError as error:
        raise CliError(one_line(error, 300)) from None
    context.output.answer({"id": task.pk, "queue": task.queue, "eta": task.eta}, str(task.pk))


@command(
    "signal", "Send a signal to the tasks that wait for it, now or later.",
    option("name", metavar="NAME"),
    option("--payload", type=checked(read_json), default=None, metavar="JSON", help="such as '{\"approved\": true}'"),
)  # fmt: skip
def signal(context: Context) -> Exit:
    try:
        is_first = taskqueue.signal(context["name"], context["payload"], by=actor(), backend=context.backend)
    except TaskQueueError as error:
        raise CliError(one_line(error, 300)) from None
    name = one_line(context["name"], 100)
    context.output.answer(
        {"signal": name, "sent": is_first}, f"{name} is sent." if is_first else f"{name} was sent before."
    )
    return Exit.OK if is_first else Exit.REFUSED


@command(
    "execute", "Run one stored task here, in the foreground, under a real lease.", ID,
    option("--pdb", action="store_true", help="open the debugger if it fails"), also=("run",),
)  # fmt: skip
def execute(context: Context) -> Exit:
    task = one_task(context)
    check_runnable(context, task)
    if task.eta > context.scope.now:
        taskqueue.reschedule([task.pk], by=actor(), reason="run in the shell", backend=context.backend)
        task.refresh_from_db(using=context.using, fields=["eta"])
    receipt = run_in_foreground(task, context.backend, lambda error: examine(context, error))
    if receipt is None:
        task.refresh_from_db(using=context.using)
        why = explain(task, [], context.scope, can_see_payload=True)
        raise CliError(f"It could not be claimed. {why.sentence}", Exit.REFUSED)
    outcome, attempt = outcome_of(receipt), receipt.lease.attempts
    text = f"{outcome['outcome']}: attempt {attempt} of {receipt.lease.max_attempts}"
    context.output.answer({"id": receipt.lease.id, "attempt": attempt, **outcome}, text)
    return Exit.OK if receipt.status is Status.SUCCESS else Exit.FAILED


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


def outcome_of(receipt: Receipt) -> dict[str, Any]:
    if not receipt.accepted:
        return {"outcome": "not recorded", "reason": receipt.lost.value if receipt.lost else "its row is locked"}
    if receipt.status is Status.PENDING:
        return {"outcome": "failed, to be tried again" if receipt.error else "released", "eta": receipt.eta}
    return {"outcome": str(receipt.status).lower()}
