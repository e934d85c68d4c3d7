"""Progress of a task or batch in the project's own pages: an address to put into a template, and the view behind it.

The address is signed, so nobody learns of a task by its id, and may be bound to a user. The view answers each time with
one event of a stream (`text/event-stream`) and ends: the browser asks again after the pause that the event names. So it
holds no thread of a WSGI server, works under ASGI, and what was asked rests twenty times as long as the answer took.
"""

import json
import sys
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from .errors import InvalidCall, InvalidOptions
from .models import Task
from .monitoring import probe
from .rules.payload import clip
from .rules.status import FINISHED
from .taskqueue import Batch, database, read_values, statement_timeout
from .taskqueue.renewal import NOTE_LIMIT

SALT = "django_tasks_retry.progress"
PAUSE, LONGEST_PAUSE, REST_FACTOR = 1.0, 30.0, 20
STATEMENT_SECONDS = 2.0
END = "end"
LARGEST = sys.float_info.max


def url(of: Any, *, user: Any = None, backend: str = "default", max_age: timedelta = timedelta(days=1)) -> str:
    """Return the address that tells how far a task, its result or a `Batch` is; to this user alone, if one is given.

    The project includes `django_tasks_retry.urls`. Everybody who has it may read the progress, until `max_age` is over.
    """
    kind, pk = ("batch", of.id) if isinstance(of, Batch) else ("task", getattr(of, "id", of))
    if user is not None and user.pk is None:
        raise InvalidCall("Nobody is logged in, so the address would be everybody's. Leave `user` out, if it may be.")
    facts = [kind, str(UUID(str(pk))), getattr(of, "backend", backend), max_age.total_seconds()]
    token = signing.dumps([*facts, None if user is None else str(user.pk)], salt=SALT, compress=True)
    return reverse("django_tasks_retry:progress", args=[token])


@probe
def view(request: HttpRequest, token: str) -> HttpResponse:
    kind, pk, backend, asker = read_token(token)
    if asker is not None and str(getattr(getattr(request, "user", None), "pk", None)) != asker:
        raise Http404
    if request.headers.get("Last-Event-ID") == END:
        return HttpResponse(status=204)  # by which a browser learns to ask no more
    began = monotonic()
    with statement_timeout(database(backend), STATEMENT_SECONDS):
        found = batch_progress(pk, backend) if kind == "batch" else task_progress(pk, backend)
    if found is None:
        return HttpResponse(status=204)
    pause = min(LONGEST_PAUSE, max(PAUSE, REST_FACTOR * (monotonic() - began)))
    lines = [f"retry: {pause * 1000:.0f}", *([f"id: {END}"] if found["ended"] else []), f"data: {json.dumps(found)}"]
    return HttpResponse("\n".join([*lines, "", ""]), content_type="text/event-stream")


def read_token(token: str) -> tuple[str, UUID, str, str | None]:
    try:
        kind, pk, backend, max_age, asker = signing.loads(token, salt=SALT)
        signing.loads(token, salt=SALT, max_age=max_age)
        database(backend)
    except (signing.BadSignature, InvalidOptions):
        raise Http404 from None
    return kind, UUID(pk), backend, asker


def task_progress(pk: UUID, backend: str) -> dict[str, Any] | None:
    rows = read_values(Task.objects.using(database(backend)).filter(pk=pk), "status", "progress")
    for status, progress in rows:
        told = progress if isinstance(progress, dict) else {}
        done, total = number_of(told.get("done")), number_of(told.get("total"))
        share = 1.0 if status == "SUCCESS" else number_of(done / total) if done is not None and total else None
        note = clip(str(told.get("note") or ""), NOTE_LIMIT)
        found = {"status": status, "done": done, "total": total, "share": share, "note": note}
        return found | {"ended": status in FINISHED}
    return None


def number_of(value: Any) -> float | None:
    """Return the value if it is a number that JSON and browsers know."""
    return value if isinstance(value, int | float) and abs(value) <= LARGEST else None


def batch_progress(pk: UUID, backend: str) -> dict[str, Any]:
    counts = Batch(pk, database(backend)).progress()
    ended = not counts.open
    return {
        "status": "ENDED" if ended else "RUNNING",
        "done": counts.total - counts.open,
        "total": counts.total,
        "failed": counts.failed + counts.cancelled,
        "share": counts.ended,
        "ended": ended,
    }
