"""Actions of operators on tasks: retry, cancel, run now. Many tasks are confirmed first and changed in batches."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..clock import now
from ..display.events import operator_event_rows
from ..display.formatting import format_moment, format_number, one_line
from ..display.scope import console_backend, console_database
from ..models import Task
from ..selection.actions import ACTIONS, CANCEL, RETRY, Action
from ..selection.proposals import CONFIRMED, DISMISSED, open_proposals, settle
from ..taskqueue import statement_timeout, statistics
from ..taskqueue.new_tasks import new_id
from ..taskqueue.statistics import group_outcomes
from ..taskqueue.workflows import MOST_CANARIES
from .base import ConsoleAdmin, log_action, reason_of
from .parts.filters import look_back_floor
from .parts.selection import (
    DryRun,
    InvalidSelection,
    Selection,
    count_selected,
    describe_filters,
    dry_run,
    load_selection,
    paused_queues_of,
    select_all,
)

BATCH = 1000
SECONDS = 5.0
BATCH_SECONDS = 20.0  # the time limit of one batch
REASON_REQUIRED_ABOVE = 100  # changing more tasks than this needs a reason
CANARIES, ENOUGH = 5, 80  # what the form suggests: how many go first, and the percentage that must succeed
MAX_SPREAD = 7 * 24 * 60  # minutes that retries can be spread over
SETTLED = gettext_lazy("This proposal is no longer open: somebody confirmed or dismissed it, or it is too old.")


def run_action(
    action: Action, ids: Sequence[UUID], request: HttpRequest, reason: str, backend: str, **options: Any
) -> list[UUID]:
    """Call the service layer, which writes the events; log the action; return the tasks that changed."""
    done = action.call(ids, by=request.user, reason=reason, backend=backend, **options)
    log_action(request, Task, [(str(task_id), str(task_id)) for task_id in done], action.name, reason)
    return done


class BulkActionAdmin(ConsoleAdmin):
    """Act on many tasks: ask first, then change them in batches."""

    def confirmation_view(
        self, request: HttpRequest, action: Action, selection: Selection, error: str = "", reason: str = ""
    ) -> HttpResponse:
        """Show what the action would do and ask. This changes nothing."""
        expected = expected_of(selection, action)
        context = {
            "action": action,
            "token": selection.sign(),
            "action_url": self.url("bulk_action", model="task"),
            "list_url": self.list_url(selection.params),
            "filters": describe_filters(selection, can_see_payload=self.has_payload_permission(request)),
            "possible": format_number(expected.possible),
            "message": action.confirm_message(expected.possible),
            "skipped": expected.skipped and format_number(expected.skipped),
            "warnings": warnings_of(action, selection, expected),
            "is_capped": expected.is_capped,
            "look_back": expected.is_partial and format_number(statistics.LOOK_BACK),
            "nothing_to_do": not expected.possible and expected.is_exact,
            "reason_required": requires_reason(expected),
            "reason_required_above": REASON_REQUIRED_ABOVE,
            "reason": reason_of(request) or reason,
            "can_spread": action is RETRY,
            "spread": one_line(request.POST.get("spread", ""), 10),
            "max_spread": MAX_SPREAD,
            "canaries": one_line(request.POST.get("canaries", ""), 10),
            "enough": one_line(request.POST.get("enough", str(ENOUGH)), 10),
            "suggested": CANARIES,
            "error": error,
        }
        return self.render_page(request, "confirm", action.title, context, status=400 if error else 200)

    def bulk_action_view(self, request: HttpRequest) -> HttpResponse:
        """Run a confirmed action. The next request continues if one has no time for all tasks."""
        try:
            selection = load_selection(request.POST.get("token", ""), request.user)
        except InvalidSelection:
            messages.error(request, _("This confirmation has expired. Select the tasks again."))
            return HttpResponseRedirect(self.url("changelist", model="task"))
        action, reason = ACTIONS[selection.action], reason_of(request)
        if not action.is_allowed(request):
            raise PermissionDenied
        if selection.after is None:
            try:
                selection = self.prepared(request, action, selection, reason)
            except NotConfirmed as error:
                return self.confirmation_view(request, action, selection, error=str(error))
            number = selection.proposal
            if number and not settle(number, CONFIRMED, by=request.user, reason=reason, backend=console_backend()):
                return self.refuse_settled(request)
        selection, is_finished = run_batches(selection, action, request, reason)
        if not is_finished:
            context = {
                "token": selection.sign(),
                "action_url": self.url("bulk_action", model="task"),
                "message": action.done_message(selection.done),
                "skipped": selection.skipped and format_number(selection.skipped),
                "skip_reason": action.skip_reason,
                "reason": reason,
                "list_url": self.list_url(selection.params),
            }
            return self.render_page(request, "progress", action.title, context)
        self.report_result(request, action, selection)
        return HttpResponseRedirect(self.list_url(selection.params))

    def prepared(self, request: HttpRequest, action: Action, selection: Selection, reason: str) -> Selection:
        """Return the selection with its spread and canaries. NotConfirmed if something is missing."""
        selection, minutes = replace(selection, begun=str(new_id())), 0
        if action is RETRY:
            minutes = number_in(request, "spread", MAX_SPREAD)
            canaries = number_in(request, "canaries", MOST_CANARIES)
            selection = replace(selection, canaries=canaries, enough=number_in(request, "enough", 100) / 100)
        if reason and not (minutes or selection.canaries):
            return selection
        expected = expected_of(selection, action)
        if not reason and requires_reason(expected):
            raise NotConfirmed(_("Enter a reason: this affects many tasks."))
        if not (minutes or selection.canaries):
            return selection
        using = console_database()
        with statement_timeout(using):
            return selection.spread(now(using), minutes * 60, count_selected(selection, expected, using))

    def report_result(self, request: HttpRequest, action: Action, selection: Selection) -> None:
        done, skipped = selection.done, selection.skipped
        if done and action is RETRY:
            url = self.list_url({"q": f"retries:{selection.begun}"})
            link = format_html('<a href="{}">{}</a>', url, _("Show the new tasks"))
            messages.success(request, format_html("{} {}", action.done_message(done), link))
        elif done or not skipped:
            messages.success(request, action.done_message(done))
        if selection.canaries and done > selection.canaries:
            text = _("The others wait until the first %(count)s have ended, and run if enough of those succeed.")
            messages.info(request, text % {"count": format_number(selection.canaries)})
        elif selection.step:
            text, following = _("They are due one after another, the last one at %(time)s."), selection.due()
            messages.info(request, text % {"time": format_moment(following["eta"] - following["step"])})
        for queue in selection.paused:
            messages.warning(request, paused_warning(queue))
        if skipped:
            text = ngettext("%(count)s task skipped: %(why)s.", "%(count)s tasks skipped: %(why)s.", skipped)
            messages.warning(request, text % {"count": format_number(skipped), "why": action.skip_reason})

    # Proposals of agents

    def get_proposal_urls(self) -> list[Any]:
        return [
            self.page_url("proposals/<int:number>/", self.proposal_view, "proposal", read_only=True),
            self.post_url("proposals/<int:number>/dismiss/", self.dismiss_view, "dismiss"),
        ]

    def proposal_view(self, request: HttpRequest, number: int) -> HttpResponse:
        """Ask for a confirmation, with the selection and the reason of the proposal."""
        for proposal in open_proposals(console_database(), pk=number):
            self.check_settles(request, proposal.action)
            params = {"q": proposal.words}
            floor = look_back_floor(params, console_database())
            selection = select_all(proposal.action.name, request.user, params, floor)
            selection = replace(selection, sees_payload=True, proposal=number)
            [row] = operator_event_rows([proposal.event], can_see_payload=True)
            return self.confirmation_view(request, proposal.action, selection, reason=row["reason"])
        return self.refuse_settled(request)

    def dismiss_view(self, request: HttpRequest, number: int) -> HttpResponse:
        for proposal in open_proposals(console_database(), pk=number):
            self.check_settles(request, proposal.action)
            verb, overview = partial(settle, number, DISMISSED), self.url("changelist", model="overview")
            done, refused = _("Proposal dismissed."), str(SETTLED)
            return self.decide(request, f"proposal {number}", "dismiss", verb, done, refused=refused, to=overview)
        return self.refuse_settled(request)

    def check_settles(self, request: HttpRequest, action: Action) -> None:
        """Refuse who may not do it, or not see what the words of the proposal may quote."""
        if not (action.is_allowed(request) and self.has_payload_permission(request)):
            raise PermissionDenied

    def refuse_settled(self, request: HttpRequest) -> HttpResponse:
        messages.warning(request, SETTLED)
        return HttpResponseRedirect(self.url("changelist", model="overview"))

    def list_url(self, params: Mapping[str, str]) -> str:
        url = self.url("changelist", model="task")
        return f"{url}?{urlencode(params)}" if params else url


class NotConfirmed(Exception):
    """The confirmation lacks something; the text says what."""


def expected_of(selection: Selection, action: Action) -> DryRun:
    with statement_timeout(console_database()):
        return dry_run(selection, action.statuses, console_database())


def number_in(request: HttpRequest, name: str, most: int) -> int:
    """Return what the form says in this field; 0 if it says nothing."""
    text = request.POST.get(name, "").strip() or "0"
    if not (text.isascii() and text.isdecimal() and int(text[:10]) <= most):
        text = _("Enter a whole number, at most %(most)s. Nothing was changed.")
        if name == "spread":
            text = _("Spread the retries over a whole number of minutes, at most %(most)s.")
        raise NotConfirmed(text % {"most": format_number(most)})
    return int(text)


def warnings_of(action: Action, selection: Selection, expected: DryRun) -> list[str]:
    """Return what an operator should know before confirming, beyond the number of tasks."""
    paused = [paused_warning(queue) for queue in sorted(expected.paused)] if action is not CANCEL else []
    return [*(retry_warnings(selection, expected) if action is RETRY else []), *paused]


def paused_warning(queue: str) -> str:
    text = _("Queue %(queue)s is paused: its tasks run when it is resumed.")
    return text % {"queue": one_line(queue, 64)}


def retry_warnings(selection: Selection, expected: DryRun) -> Iterator[str]:
    """Say how many of the tasks had succeeded or were retried before, and how the retries of their group ended."""
    if expected.succeeded:
        yield ngettext(
            "%s of them had succeeded: its work will be done again.",
            "%s of them had succeeded: their work will be done again.",
            expected.succeeded,
        ) % format_number(expected.succeeded)
    if expected.retried:
        yield ngettext(
            "%s of them has been retried before.", "%s of them have been retried before.", expected.retried
        ) % format_number(expected.retried)
    fingerprint = selection.params.get("fingerprint", "")
    found = group_outcomes(fingerprint, console_database()) if fingerprint else None
    if found and found.retried:
        text = ngettext(
            "%(count)s task of this group was retried already; %(succeeded)s succeeded since.",
            "%(count)s tasks of this group were retried already; %(succeeded)s succeeded since.",
            found.retried,
        )
        yield text % {"count": format_number(found.retried), "succeeded": format_number(found.succeeded)}


def requires_reason(expected: DryRun) -> bool:
    return expected.possible > REASON_REQUIRED_ABOVE or not expected.is_exact


def run_batches(selection: Selection, action: Action, request: HttpRequest, reason: str) -> tuple[Selection, bool]:
    """Run batches, each in its own transaction, until all tasks are done or the time is up."""
    deadline = time.monotonic() + SECONDS
    while True:
        with statement_timeout(console_database(), BATCH_SECONDS):
            ids, reached = selection.next_batch(BATCH, console_database())
            done = run_action(action, ids, request, reason, console_backend(), **selection.due()) if ids else []
            paused = paused_queues_of(done, console_database()) if action is not CANCEL else set()
        selection = selection.advanced(reached, len(done), len(ids) - len(done), paused)
        if reached is None:
            return selection, True
        if time.monotonic() > deadline:
            return selection, False
