"""The pages of failures, grouped by error: the list and one group; retry or cancel a whole group."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..analysis.what_changed import sampled, sentences, what_changed
from ..display.events import error_text, format_traceback, message_text, place_in_project
from ..display.formatting import format_ago, format_capped, format_number, one_line, printable, task_name
from ..display.redact import redacted_arguments
from ..display.scope import Scope, current_scope
from ..models import FailureGroup, Task
from ..rules.names import short_id
from ..rules.redact import redact_text
from ..rules.secrets import HIDDEN
from ..selection.actions import ACTIONS, CANCEL, RETRY
from ..selection.matching import visible_text
from ..selection.payload import visible_arguments
from ..taskqueue import read_row, statistics, unreadable_columns
from ..taskqueue.statistics import GroupHead, group_texts
from .base import TaskPermissionMixin
from .bulk import BulkActionAdmin
from .parts.selection import select_all

PER_PAGE = 25
MAX_WORDS = 10
MAX_NARROWER = 10


@admin.register(FailureGroup)
class FailureAdmin(TaskPermissionMixin, BulkActionAdmin):
    def get_urls(self) -> list[Any]:
        return [
            *super().get_urls(),
            self.page_url("<str:fingerprint>/", self.group_view, "group", read_only=True, from_replica=True),
        ]

    def get_post_urls(self) -> list[Any]:
        return [self.post_url("<str:fingerprint>/<str:name>/", self.group_action_view, "act")]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope, visible = current_scope(), self.has_payload_permission(request)
        query = request.GET.get("q", "").strip()
        heads = statistics.group_heads(scope.using)
        found = matching_heads(heads, query, scope.using, can_see_payload=visible)
        page = Paginator(found, PER_PAGE).get_page(request.GET.get("p"))
        groups = statistics.describe_groups(list(page), scope.using)
        context = {
            "groups": failure_rows(groups, scope, can_see_payload=visible),
            "page": page,
            "query": query,
            "page_query": urlencode({"q": query}) + "&" if query else "",
            "is_cut": len(heads) >= statistics.MAX_GROUPS,
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "failures", _("Failures"), context)

    def group_view(self, request: HttpRequest, fingerprint: str) -> HttpResponse:
        """Show one group: its error, code location, arguments, counts and outcomes."""
        scope, visible = current_scope(), self.has_payload_permission(request)
        head = statistics.group_head(unquote(fingerprint), scope.using)
        groups = statistics.describe_groups([head], scope.using) if head else []
        if not groups:
            text = _("No task with this error is stored: all were deleted, or succeeded in a later attempt.")
            return self.render_notice(request, _("No such failure"), text, 404)
        context = group_context(groups[0], scope, request, can_see_payload=visible)
        return self.render_page(request, "failure_group", error_text(groups[0]), context)

    def group_action_view(self, request: HttpRequest, fingerprint: str, name: str) -> HttpResponse:
        """Ask before retrying the failures that were not retried yet, or cancelling the tasks that are retrying."""
        action = ACTIONS.get(name)
        if action not in (RETRY, CANCEL):
            raise Http404
        if not action.is_allowed(request):
            raise PermissionDenied
        status = {"status": "failed", "retried": "no"} if action is RETRY else {"status": "retrying"}
        selection = select_all(action.name, request.user, {"fingerprint": unquote(fingerprint), **status})
        return self.confirmation_view(request, action, selection)


def failure_rows(
    groups: Sequence[statistics.GroupFigures], scope: Scope, *, can_see_payload: bool, with_locations: bool = True
) -> list[dict[str, Any]]:
    tracebacks: dict[UUID, str] = {}
    if with_locations and groups and can_see_payload:
        samples = Task.objects.using(scope.using).filter(pk__in=[each.sample for each in groups])
        tracebacks = dict(samples.values_list("pk", KT("last_error__traceback")))
    return [
        {
            "fingerprint": each.fingerprint,
            "error": error_text(each),
            "message": message_text(each, can_see_payload=can_see_payload),
            "location": place_in_project(tracebacks.get(each.sample) or ""),
            "task": task_name(each.func_path),
            "path": one_line(each.func_path, 255),
            "open": each.open,
            "open_text": format_capped(each.open),
            "hour": format_capped(each.failed_this_hour),
            "day": format_capped(each.failed_today),
            "failed": format_capped(each.failed),
            "retrying": each.retrying,
            "retrying_text": format_capped(each.retrying),
            "first": each.first_failed_at,
            "last_text": format_ago(each.last_failed_at, scope.now),
        }
        for each in groups
    ]


def group_context(
    group: statistics.GroupFigures, scope: Scope, request: HttpRequest, *, can_see_payload: bool
) -> dict[str, Any]:
    sample: Task | None = read_row(Task.objects.using(scope.using), group.sample)
    outcomes = statistics.group_outcomes(group.fingerprint, scope.using)
    return {
        "group": group,
        "error": error_text(group),
        "func_path": one_line(group.func_path, 255),
        "task_name": task_name(group.func_path),
        "queue": one_line(group.queue, 64),
        "last_text": format_ago(group.last_failed_at, scope.now),
        "counts": counts_of(group, outcomes),
        "open": outcomes.open,
        "is_partial": outcomes.is_partial and format_number(outcomes.looked_at),
        "sample": sample,
        "sample_id": short_id(group.sample),
        **change_context(group.fingerprint, scope, can_see_payload=can_see_payload),
        **(sample_context(sample, request) if sample and can_see_payload else {}),
    }


def counts_of(group: statistics.GroupFigures, outcomes: statistics.GroupOutcomes) -> list[tuple[str, str, str]]:
    """Return names and numbers, each with the filter of the task list that shows them or an empty text."""
    failed, alike = format_capped(group.failed, statistics.COUNTED), f"fingerprint={group.fingerprint}"
    return [
        (_("Failed"), failed, f"status=failed&{alike}"),
        (_("In the last 24 hours"), format_capped(group.failed_today), ""),
        (_("In the last hour"), format_capped(group.failed_this_hour), ""),
        (_("Open: not retried yet"), format_number(outcomes.open), f"status=failed&retried=no&{alike}"),
        (_("Retried"), format_number(outcomes.retried), ""),
        (_("Succeeded since"), format_number(outcomes.succeeded), ""),
        (_("Waiting for another attempt"), format_capped(group.retrying), f"status=retrying&{alike}"),
    ]


def sample_context(sample: Task, request: HttpRequest) -> dict[str, Any]:
    """Return message, traceback and arguments of the latest failure, which need a permission of their own."""
    error = sample.last_error or {}
    readable = not {"args", "kwargs"} & set(unreadable_columns(sample))
    return {
        "message": printable(redact_text(str(error.get("message") or "")), 4000),
        "traceback": format_traceback(str(error.get("traceback") or "")),
        "arguments": redacted_arguments(sample, request) if readable else [],
        "narrower": list(narrower(sample)) if readable else [],
    }


def narrower(sample: Task) -> Iterator[tuple[str, str]]:
    """Yield searches for the failures that share one argument with the latest."""
    for path, value in islice(visible_arguments(sample), MAX_NARROWER):
        text = value if isinstance(value, str) else json.dumps(value)
        if text and '"' not in text and HIDDEN not in text and one_line(text, 80) == text:
            yield f"{path} = {text}", urlencode({"q": f'failure:{sample.fingerprint} arg:"{path}={text}"'})


def matching_heads(heads: Sequence[GroupHead], query: str, using: str, *, can_see_payload: bool) -> list[GroupHead]:
    """Return the heads that match, in the same order. Messages are searched as far as the user may see them."""
    words = query.lower().split()[:MAX_WORDS]
    if not words:
        return list(heads)
    found = set()
    for group in group_texts(heads, using):
        text = f"{visible_text(group, can_see_payload=can_see_payload)} {group.func_path} {group.queue}".lower()
        if all(word in text for word in words):
            found.add(group.fingerprint)
    return [head for head in heads if head.fingerprint in found]


def change_context(fingerprint: str, scope: Scope, *, can_see_payload: bool) -> dict[str, Any]:
    """Describe the changes between the last success and the first failure of a group."""
    changed = what_changed(fingerprint, scope.using, can_see_payload=can_see_payload)
    if changed is None:
        return {}
    return {
        "changed": changed,
        "changes": sentences(changed, can_see_payload=can_see_payload),
        "compared": sampled(changed) if can_see_payload else "",
    }
