"""A Django project with one no-op task, on the database that BENCHMARK_DATABASE names."""

import os
from urllib.parse import urlsplit

SECRET_KEY = "benchmarks"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_tasks_retry", "benchmarks"]
if os.environ.get("BENCHMARK_RECEIVERS"):
    INSTALLED_APPS.append("benchmarks.receivers.Receivers")
MIDDLEWARE_OF_TASKS = list(filter(None, os.environ.get("BENCHMARK_MIDDLEWARE", "").split(",")))
OPTIONS = {"MIDDLEWARE": MIDDLEWARE_OF_TASKS} if MIDDLEWARE_OF_TASKS else {}
OPTIONS |= {"LANES": {"limited-*": {"concurrency": 5}, "single-*": {"concurrency": 1}, "heavy-*": {"weight": 3}}}
if not os.environ.get("BENCHMARK_PRUNES"):  # a crowd of finished tasks is to stay while others are run beside it
    OPTIONS |= dict.fromkeys(("KEEP_SUCCESS", "KEEP_FAILED", "KEEP_CANCELLED"))
TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend", "QUEUES": [], "OPTIONS": OPTIONS}}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {name: {"level": "WARNING"} for name in ("django.tasks", "django_tasks", "django_tasks_retry")},
}

url = urlsplit(os.environ["BENCHMARK_DATABASE"])
if url.scheme == "sqlite":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": url.path,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL;",
            },
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path.lstrip("/"),
            "USER": url.username,
            "HOST": url.hostname,
            "PORT": url.port,
            "CONN_MAX_AGE": None,
        }
    }
