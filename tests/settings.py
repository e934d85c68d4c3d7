"""Two databases, one test suite: a router sends every model to the database that the current test is about."""

import os
import tempfile
from pathlib import Path

from tests import pg

SECRET_KEY = "tests"
USE_TZ = True
DEBUG = False
ROOT_URLCONF = "tests.urls"
if "TEST_SQLITE_FOLDER" not in os.environ and "PYTEST_VERSION" in os.environ:
    os.environ["TEST_SQLITE_FOLDER"] = tempfile.mkdtemp(prefix="dtr-sqlite-")
PLANNER = os.environ.get("PLANNER", "")
"""`PLANNER=nestloop pytest tests/contract` plans without nested loops where it can; or `indexscan`, or `hashjoin`.

Statements must mean the same in whichever order a planner reads and filters rows.
"""
SQLITE_FOLDER = Path(os.environ.get("TEST_SQLITE_FOLDER", "."))

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.admin",
    "django_tasks_retry",
    "tests",
    "tests.worker",
]
MIDDLEWARE = [
    "tests.admin.csp.strict_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # half a second sooner at each login

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": SQLITE_FOLDER / "db.sqlite3",
        "TEST": {"NAME": SQLITE_FOLDER / "test.sqlite3"},
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
if server := pg.server():
    DATABASES["postgresql"] = {"ENGINE": "django.db.backends.postgresql", "TEST": {"DEPENDENCIES": []}, **server}
    if PLANNER:
        DATABASES["postgresql"]["OPTIONS"] = {"options": f"-c enable_{PLANNER}=off"}
DATABASE_ROUTERS = ["tests.router.CurrentDatabase"]

TASKS = {
    "default": {
        "BACKEND": "django_tasks_retry.backend.RetryBackend",
        "QUEUES": ["default", "emails", "reports", "bulk"],
    },
}
