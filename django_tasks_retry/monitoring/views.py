"""The views: `metrics`, `live` and `ready`. None of them needs a session, and none may be cached."""

from __future__ import annotations

from django.db.transaction import non_atomic_requests
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ..metrics import CONTENT_TYPE, scrape
from ..taskqueue.consumer.workers import ALIVE_SECONDS
from .access import backend_of, is_open, may_read
from .health import problems

LONGEST_WITHIN = 86_400.0


@non_atomic_requests
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """404 where metrics are not offered, 403 where they are and the caller may not read them."""
    backend = backend_of(request)
    if not is_open(backend):
        raise Http404
    if not may_read(request, backend):
        return plain("Give the token of OPTIONS['METRICS_TOKEN'] as Authorization: Bearer …\n", 403)
    return HttpResponse(scrape(backend), content_type=CONTENT_TYPE)


@non_atomic_requests
@never_cache
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Whether this process answers. Asks nobody else: a database that is gone is no reason to restart it."""
    return plain("live\n")


@non_atomic_requests
@never_cache
@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Whether tasks can be stored and are being run. What is wrong is told to those who may read the metrics."""
    backend = backend_of(request)
    wrong = problems(backend, within_of(request))
    if not wrong:
        return plain("ready\n")
    told = "".join(f"{each}\n" for each in wrong) if may_read(request, backend) else ""
    answer = plain(f"not ready\n{told}", 503)
    answer._has_been_logged = True  # type: ignore[attr-defined] # by Django, as an error that it mails: at each probe
    return answer


def within_of(request: HttpRequest) -> float:
    """`?within=60`: seconds; as long as a worker counts as alive, where it is not given or makes no sense."""
    try:
        seconds = float(request.GET.get("within", ALIVE_SECONDS))
    except ValueError:
        return ALIVE_SECONDS
    return seconds if 0 < seconds <= LONGEST_WITHIN else ALIVE_SECONDS


def plain(text: str, status: int = 200) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain; charset=utf-8", status=status)
