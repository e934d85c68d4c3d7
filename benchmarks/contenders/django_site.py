"""A Django project in one call, for neighbours that are Django apps."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import django
import verbs
from django.conf import settings


def set_up(app: str, backend: str, **backend_options: Any) -> None:
    url = urlsplit(verbs.URL)
    postgresql = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.lstrip("/"),
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
        "CONN_MAX_AGE": None,
    }
    sqlite = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": url.path,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL;"},
    }
    settings.configure(
        SECRET_KEY="benchmarks",
        USE_TZ=True,
        INSTALLED_APPS=["django.contrib.contenttypes", app],
        DATABASES={"default": sqlite if url.scheme == "sqlite" else postgresql},
        TASKS={"default": {"BACKEND": backend, "QUEUES": [], **backend_options}},
        LOGGING={"version": 1, "disable_existing_loggers": False, "root": {"level": "WARNING"}},
    )
    django.setup()
