"""Actions on many tasks: a confirmation page, then batches within the time that a request may take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...clock import now
from ...display.failure_words import group_words
from ...display.formatting import format_moment, format_number, one_line
from ...display.scope import console_backend, console_database
from ...taskqueue.ids import new_id
from ...taskqueue.operator.failure_groups import outcomes
from ..base import ConsoleAdmin
from ..statement_timeout import statement_timeout
from ..tasks import filters
from .actions import ACTIONS, CANCEL, RETRY, Action, run_action
from .selection import (
    DryRun,
    InvalidSelection,
    Selection,
    count_selected,
    dry_run,
    load_selection,
    paused_queues_of,
)

BATCH = 1000
SECONDS = 5.0
BATCH_SECONDS = 20.0
"""For a single statement of a batch."""

REASON_REQUIRED_ABOVE = 100
"""More tasks than this are not changed without a reason."""

MAX_SPREAD = 7 * 24 * 60
"""Minutes that retries can be spread over."""

LAST_ID = str(UUID(int=2**128 - 1))


class BulkActionAdmin(ConsoleAdmin):
    """The part of a page that acts on many tasks."""

    def confirmation_view(
        self, request: HttpRequest, action: Action, selection: Selection, error: str = ""
    ) -> HttpResponse:
        """Shows what the action would do. Changes nothing."""
        expected = self.dry_run(selection, action)
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
            "look_back": expected.is_partial and format_number(filters.LOOK_BACK),
            "nothing_to_do": not expected.possible and expected.is_exact,
            "reason_required": requires_reason(expected),
            "reason_required_above": REASON_REQUIRED_ABOVE,
            "reason": reason_of(request),
            "can_spread": action is RETRY,
            "spread": one_line(request.POST.get("spread", ""), 10),
            "max_spread": MAX_SPREAD,
            "error": error,
        }
        return self.render_page(request, "confirm", action.title, context, status=400 if error else 200)

    def bulk_action_view(self, request: HttpRequest) -> HttpResponse:
        """Runs what was confirmed; what one request has no time for continues in the next."""
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
        selection, is_finished = run_batches(selection, action, request, reason)
        if not is_finished:
            context = self.progress_context(selection, action, reason)
            return self.render_page(request, "progress", action.title, context)
        self.report_result(request, action, selection)
        return HttpResponseRedirect(self.list_url(selection.params))

    def prepared(self, request: HttpRequest, action: Action, selection: Selection, reason: str) -> Selection:
        """The selection as it is run; NotConfirmed where something is missing."""
        if not reason and requires_reason(self.dry_run(selection, action)):
            raise NotConfirmed(_("Enter a reason: this affects many tasks."))
        minutes = spread_minutes(request) if action is RETRY else 0
        if not minutes:
            return selection
        using = console_database()
        with statement_timeout(using):
            count = count_selected(selection, dry_run(selection, action.statuses, using), using)
        return selection.spread(now(using), minutes * 60, count)

    def dry_run(self, selection: Selection, action: Action) -> DryRun:
        with statement_timeout(console_database()):
            return dry_run(selection, action.statuses, console_database())

    def progress_context(self, selection: Selection, action: Action, reason: str) -> dict[str, Any]:
        return {
            "token": selection.sign(),
            "action_url": self.url("bulk_action", model="task"),
            "message": action.done_message(selection.done),
            "skipped": selection.skipped and format_number(selection.skipped),
            "skip_reason": action.skip_reason,
            "reason": reason,
            "list_url": self.list_url(selection.params),
        }

    def report_result(self, request: HttpRequest, action: Action, selection: Selection) -> None:
        done, skipped = selection.done, selection.skipped
        if done or not skipped:
            messages.success(request, action.done_message(done))
        if selection.start:
            text, following = _("They are due one after another, the last one at %(time)s."), selection.due()
            messages.info(request, text % {"time": format_moment(following["eta"] - following["step"])})
        for queue in selection.paused:
            messages.warning(request, paused_warning(queue))
        if skipped:
            text = ngettext("%(count)s task skipped: %(why)s.", "%(count)s tasks skipped: %(why)s.", skipped)
            messages.warning(request, text % {"count": format_number(skipped), "why": action.skip_reason})

    def list_url(self, params: Mapping[str, str]) -> str:
        url = self.url("changelist", model="task")
        return f"{url}?{urlencode(params)}" if params else url


class NotConfirmed(Exception):
    """What was sent does not suffice to begin; its text says why."""


def reason_of(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip()


def spread_minutes(request: HttpRequest) -> int:
    text = request.POST.get("spread", "").strip() or "0"
    if not (text.isascii() and text.isdecimal() and int(text[:10]) <= MAX_SPREAD):
        text = _("Spread the retries over a whole number of minutes, at most %(most)s.")
        raise NotConfirmed(text % {"most": format_number(MAX_SPREAD)})
    return int(text)


def warnings_of(action: Action, selection: Selection, expected: DryRun) -> list[str]:
    """What someone who confirms should know beyond the number of tasks."""
    paused = [paused_warning(queue) for queue in sorted(expected.paused)] if action is not CANCEL else []
    if action is not RETRY:
        return paused
    fingerprint = selection.params.get("fingerprint", "")
    return [*retry_warnings(expected), *(group_warnings(fingerprint) if fingerprint else []), *paused]


def paused_warning(queue: str) -> str:
    text = _("Queue %(queue)s is paused: its tasks run when it is resumed.")
    return text % {"queue": one_line(queue, 64)}


def group_warnings(fingerprint: str) -> list[str]:
    """How many failures of the same group have been seen to already."""
    found = outcomes(fingerprint, console_database())
    text = ngettext(
        "%(count)s task of this group was retried already; %(succeeded)s succeeded since.",
        "%(count)s tasks of this group were retried already; %(succeeded)s succeeded since.",
        found.retried,
    )
    values = {"count": format_number(found.retried), "succeeded": format_number(found.succeeded)}
    return [text % values] if found.retried else []


def retry_warnings(expected: DryRun) -> list[str]:
    """What someone who retries should know: which have done their work, and which were retried before."""
    succeeded = ngettext(
        "%s of them had succeeded: its work will be done again.",
        "%s of them had succeeded: their work will be done again.",
        expected.succeeded,
    )
    retried = ngettext("%s of them has been retried before.", "%s of them have been retried before.", expected.retried)
    counts = ((succeeded, expected.succeeded), (retried, expected.retried))
    return [text % format_number(count) for text, count in counts if count]


def requires_reason(expected: DryRun) -> bool:
    return expected.possible > REASON_REQUIRED_ABOVE or not expected.is_exact


def run_batches(selection: Selection, action: Action, request: HttpRequest, reason: str) -> tuple[Selection, bool]:
    """Batch after batch, each a transaction of its own, until all is done or the time is up."""
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


def selection_from_request(
    request: HttpRequest, action: Action, params: Mapping[str, str], floor: UUID | None, *, sees_payload: bool
) -> Selection:
    """The rows ticked in the list; with "all matching", the list's filters as they are."""
    user: Any = request.user
    if request.POST.get("select_across") == "1":
        return replace(select_all(action, user, params, floor), sees_payload=sees_payload)
    ids = [each for each in request.POST.getlist(ACTION_CHECKBOX_NAME) if filters.parse_uuid(each)]
    return Selection(action.name, str(user.pk), LAST_ID, params=params, ids=tuple(ids))


def select_all(action: Action, user: Any, params: Mapping[str, str], floor: UUID | None = None) -> Selection:
    """All tasks that match now. Those enqueued from now on are not affected."""
    return Selection(action.name, str(user.pk), str(new_id()), since=str(floor) if floor else None, params=params)


def describe_filters(selection: Selection, *, can_see_payload: bool) -> list[tuple[str, str]]:
    """Title and value of each filter of the list; a group of failures is named by its error."""
    titles = {each.parameter_name: str(each.title) for each in filters.FILTERS} | {"q": _("search")}
    if selection.ids is not None:
        return []
    params = dict(selection.params)
    if "fingerprint" in params:
        using = console_database()
        params["fingerprint"] = group_words(params["fingerprint"], using, can_see_payload=can_see_payload)
    if "retried" in params:
        params["retried"] = _("Not yet")
    return [(titles.get(name, name), one_line(value, 240)) for name, value in params.items()]
