"""How subcommands change tasks: count first, ask, then page by page through the service layer."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from ..models import Task
from ..rules.status import Status
from ..selection.grammar import IdRange, Query
from ..selection.walk import walk
from ..taskqueue.ids import new_id
from .exit_codes import CliError, Exit
from .selecting import add_words, counted, one_id, read_narrow_query
from .subcommand import Context, actor


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    done: str
    statuses: tuple[Status, ...]
    call: Callable[..., list[UUID]]
    """Of `selection.actions`: returns the tasks that it applied to."""


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    add_reason(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    parser.add_argument("--ids", action="store_true", help="answer with the ids of the changed tasks, one per line")


def add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="kept in the history; needed for more than one task"
    )


@dataclass(frozen=True, slots=True)
class Change:
    """A verb and the tasks that are meant: those that match now and have the right status."""

    context: Context
    verb: Verb
    query: Query
    condition: Q
    until: UUID

    def pages(self) -> Any:
        return walk(self.query, self.context.using, condition=self.condition, until=self.until)

    def count(self) -> int:
        total = 0
        for page in self.pages():
            total += len(page)
            self.context.output.progress(f"{counted(total)} found")
        self.context.output.progress("", is_last=True)
        return total

    def matches_any(self) -> bool:
        """In whatever status."""
        return any(walk(self.query, self.context.using, until=self.until, size=1))


def change_of(context: Context, verb: Verb, *, again: bool = True) -> Change:
    condition = Q(status__in=verb.statuses)
    if not again:
        condition = condition & Q(~Exists(Task.objects.using(context.using).filter(retry_of=OuterRef("pk"))))
    query = read_narrow_query(context)
    # Nobody means a thousand tasks by the first digits of an id.
    query.ids[:] = [whole(context, *id_range) for id_range in query.ids]
    return Change(context, verb, query, condition, new_id())


def whole(context: Context, first: UUID, last: UUID) -> IdRange:
    """The one id of a range that was given by its first digits."""
    if first == last:
        return first, last
    pairs = zip(first.hex, last.hex, strict=True)
    found = one_id(context, "".join(digit for digit, other in pairs if digit == other))
    return found, found


def apply_change(change: Change, hint: str = "", options: Callable[[int], dict[str, Any]] = lambda _count: {}) -> Exit:
    """Count, ask, change. `options` are made from the count; `hint` is for those who find nothing to change."""
    context, verb, count = change.context, change.verb, change.count()
    if not count:
        return nothing_to_do(change, hint)
    if context["dry_run"]:
        return answer(change, 0, 0, would=count)
    confirm(context, count, f"{counted(count)} will be {verb.done}.")
    extra, done, skipped = options(count), 0, 0
    for page in change.pages():
        applied = act(change, page, extra, done + skipped) if page else []
        done, skipped = done + len(applied), skipped + len(page) - len(applied)
        context.output.progress(f"{done + skipped:,} of {count:,} {verb.done}")
    context.output.progress("", is_last=True)
    return answer(change, done, skipped)


def act(change: Change, page: list[UUID], extra: dict[str, Any], before: int) -> list[UUID]:
    context, given = change.context, dict(extra)
    if "eta" in given:
        given["eta"] += before * given["step"]
    applied = change.verb.call(page, by=actor(), reason=context["reason"], backend=context.backend, **given)
    if context["ids"]:
        for task_id in named_after(change, applied):
            context.output.line(str(task_id))
    return applied


def named_after(change: Change, applied: list[UUID]) -> list[UUID]:
    """The tasks that a shell wants to go on with: of a retry, the new ones."""
    if change.verb.name != "retry":
        return applied
    fresh = Task.objects.using(change.context.using).filter(retry_of__in=applied, pk__gt=change.until)
    return list(fresh.order_by("pk").values_list("pk", flat=True))


def nothing_to_do(change: Change, hint: str) -> Exit:
    if not change.matches_any():
        raise CliError("No task matches.", Exit.NOT_FOUND)
    wanted = " or ".join(status.lower() for status in change.verb.statuses)
    raise CliError(f"No task that matches can be {change.verb.done}: that takes {wanted} ones.{hint}", Exit.REFUSED)


def confirm(context: Context, count: int, question: str) -> None:
    """More than one task needs a reason and a yes."""
    if count <= 1 or context["yes"]:
        if count > 1 and not context["reason"]:
            raise CliError(f'{question} Say why: --reason "…"')
        return
    if not context["reason"]:
        raise CliError(f'{question} Say why: --reason "…"')
    answered = context.output.ask(f"{question} Go on?")
    if answered is None:
        raise CliError(f"{question} There is nobody to ask here: add -y.")
    if not answered:
        raise CliError("Nothing was changed.", Exit.REFUSED)


def answer(change: Change, done: int, skipped: int, would: int | None = None) -> Exit:
    output, verb = change.context.output, change.verb
    if output.as_json:
        counts = {"would": would} if would is not None else {"done": done, "skipped": skipped}
        output.record({"action": verb.name, **counts})
    elif would is not None:
        output.line(f"{counted(would)} would be {verb.done}.")
    elif not change.context["ids"]:
        output.line(f"{counted(done)} {verb.done}.")
    if skipped:
        output.say(f"{counted(skipped)} skipped: somebody else was faster, or the row cannot be read or is locked.")
    return Exit.OK if done or would else Exit.REFUSED
