"""For the worker processes that the tests start: the environment says where they work and how."""

import json
import os

from tests.router import CurrentDatabase
from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, TASKS

CurrentDatabase.current = os.environ["WORKER_DATABASE"]
DATABASES["default"]["NAME"] = os.environ["WORKER_SQLITE"]
DATABASES[CurrentDatabase.current] |= json.loads(os.environ["WORKER_PLACE"])
TASKS["default"]["OPTIONS"] = json.loads(os.environ["WORKER_OPTIONS"])
TASKS["default"] |= {"QUEUES": TASKS["default"]["OPTIONS"].pop("QUEUES", TASKS["default"].get("QUEUES", ["default"]))}
DEBUG = "WORKER_DEBUG" in os.environ

# What a worker does not need would only make it start more slowly.
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_tasks_retry", "tests.worker"]
MIDDLEWARE: list[str] = []
TEMPLATES: list[str] = []
ROOT_URLCONF = __name__
urlpatterns: list[str] = []

INSTALLED_APPS += os.environ.get("WORKER_APPS", "").split()

if "WORKER_ENGINE" in os.environ:
    DATABASES[CurrentDatabase.current]["ENGINE"] = os.environ["WORKER_ENGINE"]

if "WORKER_LOG_FOLDER" in os.environ:  # production, as many projects log: the root's handlers, and mails to admins
    FOLDER = os.environ["WORKER_LOG_FOLDER"]
    ADMINS = [("Admin", "admin@example.com")]
    EMAIL_BACKEND, EMAIL_FILE_PATH = "django.core.mail.backends.filebased.EmailBackend", f"{FOLDER}/mails"
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {
            "file": {
                "class": "logging.FileHandler",
                "filename": f"{FOLDER}/log",
                "formatter": "plain",
                "encoding": "utf-8",
            },
            "mail": {"class": "django.utils.log.AdminEmailHandler", "level": "ERROR"},
        },
        "formatters": {"plain": {"format": "%(levelname)s %(name)s %(message)s"}},
        "root": {"handlers": ["file", "mail"], "level": "WARNING"},
        "loggers": {"django": {"handlers": []}},  # which has one for mails of its own
    }

if "WORKER_SENTRY" in os.environ or "WORKER_COLLECTOR" in os.environ:
    import tests.worker.telemetry  # noqa: F401 - as projects set it up, in their settings

if "FAILPOINT" in os.environ:
    INSTALLED_APPS.append("tests.faults.armed.Armed")
