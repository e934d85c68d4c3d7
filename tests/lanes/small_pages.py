"""An app that makes few lanes many, in the worker that installs it: small pages, and refreshes that are all slow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from django.apps import AppConfig


class SmallPages(AppConfig):
    name = "tests.lanes"
    label = "small_pages"

    def ready(self) -> None:
        from django_tasks_retry.taskqueue import ClaimMemory
        from django_tasks_retry.taskqueue.claim.tuning import TUNING
        from django_tasks_retry.worker.child import claimer
        from django_tasks_retry.worker.supervisor import dispatch

        dispatch.ClaimMemory = partial(ClaimMemory, tuning=replace(TUNING, ranges_a_page=8))
        claimer.ClaimMemory = partial(ClaimMemory, tuning=replace(TUNING, ranges_a_page=8, slow_seconds=-1.0))
