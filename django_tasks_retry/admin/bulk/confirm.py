"""Deeds on many tasks: a page that asks, then batches within a time that a request may take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...taskqueue.ids import new_id
from ..base import ConsoleAdmin
from ..display.formatting import line, number
from ..scope import backend, using
from ..tasks import filters
from . import selection
from .actions import DEEDS, Deed, do
from .selection import NotSigned, Selection

BATCH = 1000
SECONDS = 5.0
REASON_FROM = 100
"""More tasks than this are not touched without a reason."""

NEWEST = str(UUID(int=2**128 - 1))


class BulkAdmin(ConsoleAdmin):
    """The part of a page that acts on many tasks."""

    def ask(self, request: HttpRequest, deed: Deed, chosen: Selection, error: str = "") -> HttpResponse:
        """The confirmation page. Changes nothing."""
        seen = selection.preview(chosen, deed.statuses, using())
        context = {
            "deed": deed,
            "token": chosen.sign(),
            "act_url": self.url("act", model="task"),
            "back": self.list_url(chosen.params),
            "criteria": criteria(chosen),
            "possible": number(seen.possible),
            "promise": deed.promised(seen.possible),
            "impossible": seen.impossible and number(seen.impossible),
            "is_capped": seen.is_capped,
            "look_back": seen.is_partial and number(filters.LOOK_BACK),
            "nothing": not seen.possible and seen.is_whole,
            "needs_reason": seen.possible > REASON_FROM or not seen.is_whole,
            "reason_from": REASON_FROM,
            "reason": request.POST.get("reason", ""),
            "error": error,
        }
        return self.page(request, "confirm", deed.question, context, status=400 if error else 200)

    def act(self, request: HttpRequest) -> HttpResponse:
        """Do what the confirmation page asked about; go on in the next request where there is too much for one."""
        try:
            chosen = selection.read(request.POST.get("token", ""), request.user)
        except NotSigned:
            messages.error(request, _("This confirmation has expired. Select the tasks again."))
            return HttpResponseRedirect(self.url("changelist", model="task"))
        deed, reason = DEEDS[chosen.deed], request.POST.get("reason", "").strip()
        if not deed.is_allowed(request):
            raise PermissionDenied
        if not reason and chosen.after is None and self.is_large(chosen, deed):
            return self.ask(request, deed, chosen, error=_("Say why: this concerns many tasks."))
        chosen, is_finished = work(chosen, deed, request, reason)
        if not is_finished:
            return self.page(request, "progress", deed.question, self.progress(chosen, deed, reason))
        self.conclude(request, deed, chosen)
        return HttpResponseRedirect(self.list_url(chosen.params))

    def is_large(self, chosen: Selection, deed: Deed) -> bool:
        seen = selection.preview(chosen, deed.statuses, using())
        return seen.possible > REASON_FROM or not seen.is_whole

    def progress(self, chosen: Selection, deed: Deed, reason: str) -> dict[str, Any]:
        return {
            "token": chosen.sign(),
            "act_url": self.url("act", model="task"),
            "told": deed.told(chosen.done),
            "skipped": chosen.skipped and number(chosen.skipped),
            "skipped_because": deed.skipped_because,
            "reason": reason,
            "back": self.list_url(chosen.params),
        }

    def conclude(self, request: HttpRequest, deed: Deed, chosen: Selection) -> None:
        if chosen.done or not chosen.skipped:
            messages.success(request, deed.told(chosen.done))
        if chosen.skipped:
            text = ngettext("%(count)s task skipped: %(why)s.", "%(count)s tasks skipped: %(why)s.", chosen.skipped)
            messages.warning(request, text % {"count": number(chosen.skipped), "why": deed.skipped_because})

    def list_url(self, params: Mapping[str, str]) -> str:
        address = self.url("changelist", model="task")
        return f"{address}?{urlencode(params)}" if params else address


def work(chosen: Selection, deed: Deed, request: HttpRequest, reason: str) -> tuple[Selection, bool]:
    """Batch after batch, each a transaction of its own, until all is done or the time is up."""
    deadline = time.monotonic() + SECONDS
    while True:
        ids, reached = chosen.batch(BATCH, using())
        done = do(deed, ids, request, reason, backend()) if ids else []
        chosen = chosen.went_on(reached, len(done), len(ids) - len(done))
        if reached is None:
            return chosen, True
        if time.monotonic() > deadline:
            return chosen, False


def chosen_in(request: HttpRequest, deed: Deed, params: Mapping[str, str], floor: UUID | None) -> Selection:
    """What was ticked in the list; with "all matching", the list's filter as it stands."""
    user: Any = request.user
    if request.POST.get("select_across") == "1":
        return everything(deed, user, params, floor)
    ids = [each for each in request.POST.getlist(ACTION_CHECKBOX_NAME) if filters.as_uuid(each)]
    return Selection(deed.name, str(user.pk), NEWEST, params=params, ids=tuple(ids))


def everything(deed: Deed, user: Any, params: Mapping[str, str], floor: UUID | None = None) -> Selection:
    """All that matches now. Tasks enqueued from now on are not meant."""
    return Selection(deed.name, str(user.pk), str(new_id()), since=str(floor) if floor else None, params=params)


def criteria(chosen: Selection) -> list[tuple[str, str]]:
    """The filter in words."""
    titles = {each.parameter_name: str(each.title) for each in filters.FILTERS} | {"q": _("search")}
    if chosen.ids is not None:
        return []
    return [(titles.get(name, name), line(value)) for name, value in chosen.params.items()]
