"""Health of the web process. Workers have their own: the file of `runworker --heartbeat-file`."""

from __future__ import annotations

import logging

from django.db.utils import DatabaseError
from django.http import HttpRequest, JsonResponse

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import alive_workers

logger = logging.getLogger(__name__)


def live(request: HttpRequest) -> JsonResponse:
    """Asks no database: a restart of this process would not mend one."""
    return JsonResponse({"live": True})


def ready(request: HttpRequest) -> JsonResponse:
    """Can requests be served? Enqueuing needs the database; that a worker is alive is told, not demanded."""
    try:
        facts = {"ready": True, "workers": alive_workers().count(), "due": Task.objects.due()[:1000].count()}
        return JsonResponse(facts)
    except DatabaseError:  # its text names host, port and user, which are for the log alone
        logger.warning("not ready: the database does not answer", exc_info=True)
        return JsonResponse({"ready": False, "why": "the database does not answer"}, status=503)
