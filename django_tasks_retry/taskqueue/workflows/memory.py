"""What a task remembers: named steps, each with its result, written under the fence of the attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.db import transaction

from ...conf import options
from ...errors import InvalidCall, InvalidPayload, UnstorableResult
from ...models import Step
from ...models.workflows import MAX_NAME
from ...rules.payload import Budget, canonical, check_size, checked_text, dump
from ..consumer.progress import open_transactions, raise_lost
from ..database import database
from ..engines import engine_for
from ..lease import Lease

CALLBACK = "then"
"""The step by which a callback knows its batch."""

UNTIL = ":until"
"""Ends the name of the step that remembers how long a signal is waited for."""


class Kind(StrEnum):
    STEP = "step"
    SLEEP = "sleep"
    WAIT = "wait"
    SIGNAL = "signal"
    BATCH = "batch"
    MEMBERS = "members"


@dataclass(slots=True)
class Memory:
    """The steps of one attempt's task: those that were recorded before, and which of them the code has come to."""

    lease: Lease
    transactions: int = 0
    """Atomic blocks that were open when the attempt began."""
    visited: set[str] = field(default_factory=set)
    loaded: dict[str, tuple[str, Any]] | None = None

    @property
    def recorded(self) -> dict[str, tuple[str, Any]]:
        """Kind and result by name. Read once: nobody else can add to them while this lease holds."""
        if self.loaded is None:
            steps = Step.objects.using(database(self.lease.backend)).filter(task_id=self.lease.id)
            self.loaded = {name: (kind, result) for name, kind, result in steps.values_list("name", "kind", "result")}
        return self.loaded

    def visit(self, name: str, kind: Kind) -> bool:
        """Whether the step is remembered already. Every name may come once in an attempt."""
        checked_name(name.removesuffix(UNTIL) if kind is Kind.WAIT else name)
        self.check_transaction(name)
        if name in self.visited:
            raise InvalidCall(
                f"Step {name!r} comes twice in one attempt, so its result would be taken for the other's. "
                "Give each a name of its own; in a loop, number them."
            )
        self.visited.add(name)
        known = self.recorded.get(name)
        if known is not None and known[0] != kind:
            raise InvalidCall(
                f"Step {name!r} was recorded as a {known[0]} and is a {kind} in the code now. "
                "Give it another name, and it runs anew."
            )
        return known is not None

    def check_transaction(self, name: str) -> None:
        if open_transactions(self.lease.backend) > self.transactions:
            raise InvalidCall(
                f"Step {name!r} stands in a transaction, which would roll it back or keep its task locked. Do without "
                "@retry(atomic=True) and transaction.atomic(), and use step(…, atomic=True) for what commits together."
            )

    @property
    def left_behind(self) -> list[str]:
        """What was remembered and the code did not come to."""
        given = {CALLBACK, *self.visited}
        return [name for name, (kind, _) in (self.loaded or {}).items() if name not in given and kind != Kind.WAIT]

    def result(self, name: str) -> Any:
        return self.recorded[name][1]

    def remember(self, name: str, kind: Kind, result: Any) -> Any:
        """Record the result and return it as it will be read again; LeaseLost where this attempt may not."""
        self.recorded[name] = (kind, write(self.lease, name, kind, result))
        return self.recorded[name][1]


@contextmanager
def one_commit(lease: Lease) -> Iterator[None]:
    """What is written inside and what is remembered inside happen together."""
    with transaction.atomic(using=database(lease.backend)):
        yield


def write(lease: Lease, name: str, kind: Kind, result: Any) -> Any:
    budget = Budget(options(lease.backend).max_result_size, f"The result of step {name!r}")
    try:
        stored = canonical(result, budget.what, budget)
        text = check_size(dump(stored), budget.limit, budget.what)
    except InvalidPayload as unfit:
        raise UnstorableResult(str(unfit)) from unfit
    if engine_for(database(lease.backend)).remember(lease, name, kind, text) is None:
        raise_lost(lease)
    return stored


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        raise InvalidCall(f"The name of a step or signal is {name!r}: give a text of 1 to {MAX_NAME} characters.")
    return checked_text(name, "name")
