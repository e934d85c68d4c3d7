"""Shards in the console: a page shows one of them, and tabs say how the others stand."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from ...conf import is_sharded, shard_backends, shards_by_name
from ...display.formatting import format_capped
from ...display.scope import console_backend, shown_shard
from ...taskqueue import database
from ...taskqueue.control import shard_standings
from ...taskqueue.shards import is_up, shard_of_id

SHARD = "django_tasks_retry.shard"
"""The key of the session under which the shard stands that the user chose."""


def on_shard(
    console: Any, request: HttpRequest, kwargs: Mapping[str, Any], answer: Callable[[], HttpResponse]
) -> HttpResponse:
    """Answer for the shard that the request is about, if there are several."""
    if not is_sharded(console_backend()):
        return answer()
    shard = shard_of_request(request, kwargs)
    if request.method == "GET" and "shard" in request.GET:
        return HttpResponseRedirect(request.path)
    shown = shown_shard.set(shard)
    try:
        if is_up(shard):
            page = answer()
        else:
            text = _("The shard %(name)s does not answer. Its tasks wait there; choose another shard meanwhile.")
            page = console.render_notice(request, _("Shard away"), text % {"name": database(shard)}, 503)
        # Here, where its shard is known: Django would render it later.
        return page.render() if isinstance(page, TemplateResponse) else page
    finally:
        shown_shard.reset(shown)


def shard_of_request(request: HttpRequest, kwargs: Mapping[str, Any]) -> str:
    """Return the shard to show: that of the id in the address, else as the user chose, else the first that answers."""
    first = console_backend()
    for value in kwargs.values():
        with suppress(ValueError):
            return shard_of_id(UUID(str(value)), first)
    named = shards_by_name(first)
    if (asked := request.GET.get("shard", "")) in named:
        request.session[SHARD] = asked
    shards = shard_backends(first)
    return named.get(request.session.get(SHARD, "")) or next(filter(is_up, shards), shards[0])


def shard_tabs(shown: str) -> list[dict[str, Any]]:
    """Return how each shard stands, for the tabs above each page."""
    if not is_sharded(shown):
        return []
    standings, _away = shard_standings(shown)
    return [
        {
            "name": name,
            "current": shard == shown,
            "text": _("%(count)s ready") % {"count": format_capped(standings[shard].due)}
            if shard in standings
            else _("does not answer"),
        }
        for name, shard in shards_by_name(shown).items()
    ]
