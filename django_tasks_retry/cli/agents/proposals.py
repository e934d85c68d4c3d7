"""Proposals of agents: what one must say, and how many tasks it would change. People decide in the console."""

import time
from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from ...clock import now
from ...rules.payload import storable
from ...rules.redact import redact_text
from ...selection.grammar import HELP, MAX_LENGTH, parse_search
from ...selection.matching import walk
from ...selection.proposals import MOST_OPEN, VERBS, open_proposals
from ...taskqueue import database, statement_timeout
from ...taskqueue.events import ASKED, PROPOSED, REASON_LENGTH, operator_event, write_operator_event
from ...taskqueue.new_tasks import new_id
from ..subcommand import CliError, Exit

PERMISSIONS = ("django_tasks_retry.view_task_payload", "django_tasks_retry.propose_task")
COUNTED, SECONDS = 10_000, 5.0
ABOUT = "Propose to retry or cancel tasks. Nothing changes until a person confirms it in the console."
PROPERTIES = {
    "verb": {"type": "string", "enum": list(VERBS)},
    "words": {"type": "string", "maxLength": MAX_LENGTH, "description": str(HELP)},
    "reason": {"type": "string", "maxLength": REASON_LENGTH, "description": "why, for the person who decides"},
}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": list(PROPERTIES), "additionalProperties": False}


def propose(given: Any, by: str, backend: str) -> dict[str, Any]:
    """Store a proposal; return its number and how many tasks it would change now."""
    using = database(backend)
    verb, words, reason = read_proposal(given)
    write_operator_event(ASKED, "propose", by, f"{verb} {words}", using)
    if len(open_proposals(using)) >= MOST_OPEN:
        raise CliError(f"{MOST_OPEN} proposals are open. People have to settle some first.", Exit.REFUSED)
    count, is_cut = count_matching(verb, words, using)
    if not count:
        raise CliError(f"Found nothing to {verb}, so nothing was proposed.", Exit.NOT_FOUND)
    event = operator_event(PROPOSED, verb, by, reason, now(using), {"verb": verb, "words": words})
    event.save(using=using)
    return {"proposal": event.pk, "would": count, "is_cut": is_cut}


def read_proposal(given: Any) -> tuple[str, str, str]:
    if not isinstance(given, Mapping) or set(given) != set(PROPERTIES) or {str} != set(map(type, given.values())):
        raise CliError(f"Give the texts {', '.join(PROPERTIES)}, and nothing else.")
    verb, words, reason = (storable(given[name]).strip() for name in PROPERTIES)
    query = parse_search(words)
    if verb not in VERBS:
        raise CliError(f"verb: give one of {', '.join(VERBS)}.")
    if query.problems or query.is_empty:
        raise CliError("\n".join(query.problems) or "words: say which tasks, such as status:failed queue:emails.")
    if redact_text(words) != words:
        raise CliError("words: leave out secrets, for people will read this.")
    if not 0 < len(reason) <= REASON_LENGTH:
        raise CliError(f"reason: give a text of up to {REASON_LENGTH} characters.")
    return verb, words, reason


def count_matching(verb: str, words: str, using: str) -> tuple[int, bool]:
    """Count the tasks that it would change, and say whether the count was cut short."""
    count, until, condition = 0, time.monotonic() + SECONDS, Q(status__in=VERBS[verb].statuses)
    with statement_timeout(using, SECONDS):
        for page in walk(parse_search(words), using, condition=condition, until=new_id()):
            count += len(page)
            if count >= COUNTED or time.monotonic() > until:
                return count, True
    return count, False
