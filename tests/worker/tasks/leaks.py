"""Tasks that leave something behind in their process, or want more than there is."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any

from django.utils import timezone, translation

from django_tasks_retry import retry
from django_tasks_retry.compat import task

from .marks import mark

hoard: list[Any] = []
MEGABYTE = 1024 * 1024


@task
def grow(megabytes: int) -> None:
    mark("pid", os.getpid())
    hoard.append(bytearray(os.urandom(1024)) * 1024 * megabytes)


@task
@retry(max_attempts=2, backoff=[0])
def want_memory() -> None:
    """Until there is no more. What it got is nobody's when it has failed."""
    mark("want")
    got = []
    while True:
        got.append(bytearray(16 * MEGABYTE))


@task
@retry(max_attempts=3, backoff=[0, 0])
def fill_memory() -> None:
    """With pages that are really used, so that the kernel has to find them."""
    mark("fill")
    while True:
        hoard.append(os.urandom(4 * MEGABYTE))


@task
def leave_threads() -> int:
    for daemon in (True, False):
        threading.Thread(target=time.sleep, args=[3600], daemon=daemon).start()
    return os.getpid()


@task
def leave_files() -> int:
    """As many as the process may have open."""
    with suppress(OSError):
        while True:
            hoard.append(os.open("/dev/null", os.O_RDONLY))
    return len(hoard)


@task
@retry(max_attempts=1)
def speak_german() -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")


@task
@retry(max_attempts=1)
def say_language() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name()]
