"""Views for monitoring: `metrics`, `live` and `ready`. None of them needs a session, and none may be cached."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import Error
from django.db.transaction import non_atomic_requests
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from . import guard
from .analysis import doctor
from .clock import Now, now
from .compat import DEFAULT_TASK_BACKEND_ALIAS
from .conf import configured_backends, options, queues
from .display.scope import Scope, read_standing
from .errors import GuardMissing, NotMigrated
from .metrics import CONTENT_TYPE, scrape
from .models import Worker
from .taskqueue import ALIVE_SECONDS, alive_workers, database, sound_workers, statement_timeout
from .taskqueue.shards import ask_all
from .taskqueue.statistics import depths, paused_queues, serving, unknown_functions

LONGEST_WITHIN = 86_400.0
SCHEME = "bearer "


def probe(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Make a view of GET and HEAD that no cache keeps and no transaction surrounds."""
    return non_atomic_requests(never_cache(require_safe(view)))


@probe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return 404 if metrics are not offered, 403 if the caller may not read them."""
    backend = backend_of(request)
    if not (options(backend).metrics_token or options(backend).metrics_permission):
        raise Http404
    if not may_read(request, backend):
        return plain("Give the token of OPTIONS['METRICS_TOKEN'] as Authorization: Bearer …\n", 403)
    return HttpResponse(scrape(backend), content_type=CONTENT_TYPE)


@probe
def live(request: HttpRequest) -> HttpResponse:
    """Return whether this process answers. Asks nobody else: a database that is gone is no reason to restart it."""
    return plain("live\n")


@probe
def ready(request: HttpRequest) -> HttpResponse:
    """Answer whether tasks can be stored and are being run, with details for those who may read the metrics."""
    backend = backend_of(request)
    wrong = problems_of_shards(backend, within_of(request))
    if not wrong:
        named = unknown_tasks(backend) if may_read(request, backend) else []
        return plain("ready\n" + "".join(f"{each}\n" for each in named))
    details = "".join(f"{each}\n" for each in (*wrong, *verdict(backend))) if may_read(request, backend) else ""
    answer = plain(f"not ready\n{details}", 503)
    answer._has_been_logged = True  # type: ignore[attr-defined] # by Django, as an error that it mails: at each probe
    return answer


def verdict(backend: str) -> Iterator[str]:
    """Yield the verdict of the doctor if one of its answers is bad and the database can be asked."""
    using = database(backend)
    with suppress(Error), statement_timeout(using):
        found = doctor.diagnose(read_standing(Scope(backend, using, now(using))), can_see_payload=False)
        if not all(answer.is_well for answer in found.answers):
            yield found.sentence


def within_of(request: HttpRequest) -> float:
    """Read `?within=60` in seconds. Default, also for nonsense: as long as a worker counts as alive."""
    try:
        seconds = float(request.GET.get("within", ALIVE_SECONDS))
    except ValueError:
        return ALIVE_SECONDS
    return seconds if 0 < seconds <= LONGEST_WITHIN else ALIVE_SECONDS


def plain(text: str, status: int = 200) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain; charset=utf-8", status=status)


def backend_of(request: HttpRequest) -> str:
    """Return the backend that is asked about; raise 404 if it is none of ours."""
    alias = request.GET.get("backend", DEFAULT_TASK_BACKEND_ALIAS)
    if alias not in configured_backends():
        raise Http404
    return alias


def may_read(request: HttpRequest, backend: str) -> bool:
    chosen = options(backend)
    if chosen.metrics_token and constant_time_compare(given_token(request), chosen.metrics_token):
        return True
    user: Any = getattr(request, "user", None)
    return bool(chosen.metrics_permission and user and user.is_active and user.has_perm(chosen.metrics_permission))


def given_token(request: HttpRequest) -> str:
    """Return the token of `Authorization: Bearer …`; never of the address, which servers log."""
    header = request.headers.get("Authorization", "")
    return header[len(SCHEME) :].strip() if header.lower().startswith(SCHEME) else ""


def problems_of_shards(backend: str, within: float) -> list[str]:
    """List what is wrong in all shards; nothing while one is well, for it takes what may live anywhere."""
    found, away = ask_all(backend, lambda shard: problems(shard, within))
    if any(not each for each in found.values()):
        return []
    return [
        *(f"the shard {name!r} does not answer" for name in away),
        *(text for each in found.values() for text in each),
    ]


def problems(backend: str, within: float) -> list[str]:
    """List what keeps tasks of this backend from running. Heartbeats must be at most `within` seconds old."""
    using = database(backend)
    try:
        with statement_timeout(using):
            return [*wrong_schema(using)] or [*unserved_queues(backend, using, within)]
    except Error as error:
        return [f"the database {using!r} does not answer: {type(error).__name__}"]


def unknown_tasks(backend: str) -> list[str]:
    """Name functions of due tasks that no worker knows. They do not make a site unready: a deploy may be under way."""
    using = database(backend)
    unknown = unknown_functions(depths(using), sound_workers(alive_workers(backend)))
    return [f"no worker knows {path!r}, which due tasks of the queue {queue!r} call" for path, queue in unknown.items()]


def wrong_schema(using: str) -> Iterator[str]:
    if missing := guard.missing_migrations(using):
        yield f"migrations are not applied: {', '.join(missing)}"
        return
    try:
        guard.ensure(using)
    except (GuardMissing, NotMigrated) as error:
        yield str(error)


def unserved_queues(backend: str, using: str, within: float) -> Iterator[str]:
    """Queues that no worker alive serves: those of the settings, else those with due tasks. Paused ones are excused."""
    heard = Worker.objects.using(using).filter(
        backend=backend, stopped_at__isnull=True, heartbeat_at__gte=Now() - timedelta(seconds=within)
    )
    workers = sound_workers(heard.only("queues", "exclude"))
    wanted = set(queues(backend)) or {depth.queue for depth in depths(using) if depth.due}
    for queue in sorted(wanted - paused_queues(using).keys()):
        if not serving(queue, workers):
            yield f"no worker heard of within {within:g} s serves the queue {queue!r}"
    if not wanted and not workers:
        yield f"no worker was heard of within {within:g} s"
