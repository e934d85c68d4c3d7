"""Who may read the metrics: whoever has the token, or a user with the permission. Nobody, where neither is set."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest
from django.utils.crypto import constant_time_compare

from ..compat import DEFAULT_TASK_BACKEND_ALIAS
from ..conf import configured_backends, options

SCHEME = "bearer "


def backend_of(request: HttpRequest) -> str:
    """The backend that is asked about; 404 where it is none of ours."""
    alias = request.GET.get("backend", DEFAULT_TASK_BACKEND_ALIAS)
    if alias not in configured_backends():
        raise Http404
    return alias


def is_open(backend: str) -> bool:
    """Whether anybody may read at all."""
    chosen = options(backend)
    return bool(chosen.metrics_token or chosen.metrics_permission)


def may_read(request: HttpRequest, backend: str) -> bool:
    chosen = options(backend)
    if chosen.metrics_token and constant_time_compare(given_token(request), chosen.metrics_token):
        return True
    return bool(chosen.metrics_permission and has_permission(request, chosen.metrics_permission))


def given_token(request: HttpRequest) -> str:
    """Of the header `Authorization: Bearer …`; never of the address, which servers log."""
    header = request.headers.get("Authorization", "")
    return header[len(SCHEME) :].strip() if header.lower().startswith(SCHEME) else ""


def has_permission(request: HttpRequest, permission: str) -> bool:
    user: Any = getattr(request, "user", None)
    return user is not None and user.is_active and user.has_perm(permission)
