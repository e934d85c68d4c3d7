"""The project whose workers run in the lab. How it reaches its database is told by the environment."""

import json
import os

SECRET_KEY = "lab"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_tasks_retry", "tests.lab"]
TASKS = {
    "default": {
        "BACKEND": "django_tasks_retry.backend.RetryBackend",
        "QUEUES": ["default", "haproxy", "multihost", "silent"],
        "OPTIONS": {"LEASE": int(os.environ["LAB_LEASE"]), "ENQUEUE_TIMEOUT": 5},
    }
}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "lab",
        "USER": "postgres",
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        **json.loads(os.environ["LAB_PLACE"]),
    }
}
