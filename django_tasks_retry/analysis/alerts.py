"""Alerts: mails and webhooks about what keeps work from running, once per cause and hour for all processes."""

import json
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction

from ..clock import now
from ..conf import options
from ..display.events import error_text
from ..display.explain_schedule import RUNWORKER, missed_slots
from ..display.formatting import one_line
from ..display.problems import (
    Problem,
    function_problems,
    objective_problems,
    problems_of_queue,
    schedule_problems,
    unknown_function_problems,
)
from ..display.scope import Scope, Standing
from ..models import OperatorEvent
from ..rules.names import short_name
from ..rules.redact import redact_text
from ..taskqueue import engine_for, write_operator_event
from ..taskqueue.statistics import describe_groups, group_heads
from .doctor import Usual, starts

logger = logging.getLogger(__name__)
SENT = "alert.sent"
HOUR = timedelta(hours=1)
SECONDS = 5.0  # how long a receiver may keep silent
MOST_GROUPS = 20


def send_alerts(standing: Standing) -> list[Problem]:
    """Send causes that nobody sent within an hour, as one message, to each of OPTIONS["ALERTS"]; webhooks first."""
    found = {problem.key: problem for problem in causes(standing)}
    new = [problem for problem in found.values() if is_first(problem, standing.scope.using)]
    receivers = options(standing.scope.backend).alerts if new else ()
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS)  # of mails, too, whatever EMAIL_TIMEOUT says
    try:
        for receiver in sorted(receivers, key=lambda each: "://" not in each):
            try:
                deliver(new, receiver)
            except Exception as error:  # noqa: BLE001 - of any mail backend; without its traceback
                # The path of a webhook is a secret.
                name, why = urlsplit(receiver).hostname or receiver, redact_text(f"{type(error).__name__}: {error}")
                logger.error("an alert could not be sent to %s (%s)", one_line(name, 255), one_line(why, 300))
    finally:
        socket.setdefaulttimeout(before)
    return new


def causes(standing: Standing) -> Iterator[Problem]:
    """Find what is worth waking somebody for. Pauses are not: operators chose them."""
    scope = standing.scope
    yield from function_problems(standing)
    missed = {name for name, slots in missed_slots(scope).items() if slots.last > scope.now - HOUR}
    yield from (each for each in schedule_problems(scope) if each.kind != "missed_slots" or each.subject in missed)
    yield from new_failures(scope)
    yield from objective_problems(standing)
    usual = Usual.at_this_hour(scope)
    if not standing.workers:
        yield Problem("no_workers", starts(standing, usual).text, RUNWORKER, subject=scope.backend)
        return
    yield from unknown_function_problems(standing)
    for queue in standing.queues:
        yield from (each for each in problems_of_queue(queue) if each.kind == "unserved")
        answer = starts(replace(standing, queues=[queue]), usual)
        if queue.workers and not (queue.is_paused or answer.is_well):
            yield Problem("late", f"{one_line(queue.name, 64)}: {answer.text}", queue=queue.name)


def new_failures(scope: Scope) -> Iterator[Problem]:
    """Find failures of a kind that is an hour old at most. Their messages may quote anything, and are left out."""
    heads = [head for head in group_heads(scope.using) if head.last_failed_at > scope.now - HOUR]
    for group in describe_groups(heads[:MOST_GROUPS], scope.using):
        if group.first_failed_at and group.first_failed_at > scope.now - HOUR:
            text = f"New failure: {error_text(group)} in {one_line(short_name(group.func_path), 80)}."
            yield Problem(
                "new_failure", text, f"python manage.py tasks failures {group.fingerprint}", subject=group.fingerprint
            )


def is_first(problem: Problem, using: str) -> bool:
    """Write that this process sends it, unless one did within an hour. A second one waits for the first."""
    subject = f"{problem.kind} {sha256(json.dumps(problem.key).encode()).hexdigest()[:40]}"
    sent = OperatorEvent.objects.using(using).filter(kind=SENT, subject=subject, ts__gt=now(using) - HOUR)
    if sent.exists():
        return False
    with transaction.atomic(using=using):
        engine_for(using).lock_key("alerts", subject)
        write_operator_event(SENT, subject, "alerts", problem.text, using)
        is_first = sent.count() == 1
        transaction.set_rollback(not is_first, using)
    return is_first


def deliver(problems: Sequence[Problem], receiver: str) -> None:
    texts = [redact_text(f"{each.text} {each.command}".rstrip()) for each in problems]
    if "://" not in receiver:
        more = f" (and {len(texts) - 1} more)" if texts[1:] else ""
        subject = f"{settings.EMAIL_SUBJECT_PREFIX}{one_line(texts[0], 120)}{more}"
        send_mail(subject, "\n\n".join(texts), None, [receiver])
        return
    record = {"text": "\n".join(texts), "findings": texts, "kinds": [each.kind for each in problems]}
    body = json.dumps(record).encode()
    with urlopen(Request(receiver, body, {"Content-Type": "application/json"})):  # noqa: S310 - http and https alone
        pass
