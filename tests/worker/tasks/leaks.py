"""Tasks that leave something behind in their process."""

from __future__ import annotations

import os

from django.utils import timezone, translation

from django_tasks_retry import retry
from django_tasks_retry.compat import task

from .marks import mark

hoard: list[bytearray] = []


@task
def grow(megabytes: int) -> None:
    mark("pid", os.getpid())
    hoard.append(bytearray(os.urandom(1024)) * 1024 * megabytes)


@task
@retry(max_attempts=1)
def speak_german() -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")


@task
@retry(max_attempts=1)
def say_language() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name()]
