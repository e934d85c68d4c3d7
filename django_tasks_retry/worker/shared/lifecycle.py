"""The turns of a worker's life, told to receivers of its signals and to the middleware of its backend."""

from __future__ import annotations

import logging

from django.dispatch import Signal

from ...middleware import hooks
from ...signals import child_ending, child_started, worker_started
from ..logs import log_exception

logger = logging.getLogger(__name__)
HOOKS = {worker_started: "worker_started", child_started: "child_started", child_ending: "child_ending"}


def announce(turn: Signal, worker_id: str, backend: str) -> None:
    """To receivers first. An error of one is logged, and keeps none of the others from being told."""
    name = HOOKS[turn]
    for receiver, answer in turn.send_robust(sender=None, worker_id=worker_id):
        if isinstance(answer, Exception):
            logger.error("receiver %r of %s failed: %r", receiver, name, answer)
    for hook in hooks(backend, name):
        try:
            hook(worker_id)
        except BaseException:
            log_exception(logger, "middleware %s failed", hook.__qualname__)
