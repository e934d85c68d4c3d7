"""For the soak and the workers that it starts: the environment says where they work and how."""

import json
import os

SECRET_KEY = "soak"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_tasks_retry", "tests.soak"]
DATABASES = {"default": json.loads(os.environ["SOAK_DATABASE"])}
TASKS = {
    "default": {
        "BACKEND": "django_tasks_retry.backend.RetryBackend",
        "QUEUES": ["default", "narrow"],
        "OPTIONS": json.loads(os.environ["SOAK_OPTIONS"]),
    },
}
ROOT_URLCONF = __name__
urlpatterns: list[str] = []
