"""The project in which Django's task tests run, on the database that CONFORMANCE_DATABASE names."""

import os

from tests import pg

SECRET_KEY = "tests"
USE_TZ = True
INSTALLED_APPS = ["django_tasks_retry", "tasks"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
POSTGRESQL = {
    "ENGINE": "django.db.backends.postgresql",
    "TEST": {"NAME": "test_conformance"},
    **(pg.server() or {}),
}
DATABASES = {"default": POSTGRESQL if os.environ["CONFORMANCE_DATABASE"] == "postgresql" else SQLITE}
