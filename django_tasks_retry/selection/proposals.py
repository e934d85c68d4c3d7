"""Proposals: a retry or cancellation that an agent asks for in the operator log, and a person confirms or dismisses."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast

from ..clock import Now
from ..models import OperatorEvent
from ..rules.payload import storable
from ..taskqueue import database, engine_for, read_rows, write_operator_event
from ..taskqueue.events import PROPOSED, actor_of
from .actions import CANCEL, RETRY, Action
from .grammar import parse_search

CONFIRMED, DISMISSED = "proposal.confirmed", "proposal.dismissed"
VERBS = {action.name: action for action in (RETRY, CANCEL)}
MOST_OPEN = 20
OPEN_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Proposal:
    event: OperatorEvent
    action: Action
    words: str


def open_events(using: str) -> QuerySet[OperatorEvent]:
    events = OperatorEvent.objects.using(using)
    number = Cast(OuterRef("pk"), CharField(max_length=20))
    settled = events.filter(kind__in=(CONFIRMED, DISMISSED), subject=number)
    return events.filter(~Exists(settled), kind=PROPOSED, ts__gt=Now() - OPEN_FOR)


def open_proposals(using: str, **only: Any) -> list[Proposal]:
    """Return the newest open proposals. Rows that make no sense are left out."""
    found = read_rows(open_events(using).filter(**only).order_by("-pk")[:MOST_OPEN])
    return [proposal for event in found if (proposal := proposal_of(event))]


def proposal_of(event: OperatorEvent) -> Proposal | None:
    data: Any = event.data if isinstance(event.data, dict) else {}
    action, words = VERBS.get(str(data.get("verb"))), data.get("words")
    if action is None or not isinstance(words, str) or storable(words) != words:
        return None
    query = parse_search(words)
    return None if query.problems or query.is_empty else Proposal(event, action, words)


def settle(number: int, kind: str, *, by: Any, reason: str, backend: str) -> bool:
    """Record that a person confirmed or dismissed the proposal; False if it is no longer open."""
    using = database(backend)
    with transaction.atomic(using=using):
        engine_for(using).lock_key("proposal", str(number))
        proposals = open_proposals(using, pk=number)
        for each in proposals:
            data = {"verb": each.action.name, "words": each.words}
            write_operator_event(kind, str(number), actor_of(by), reason, using, data)
    return bool(proposals)
