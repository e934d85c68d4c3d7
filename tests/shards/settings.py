"""A project whose queue lives on three servers of its own, for `python -m tests.shards`."""

import os

SECRET_KEY = "tests"
USE_TZ = True
PORTS = os.environ["SHARD_PORTS"].split(",")
SERVER = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1"}
DATABASES = {"default": {**SERVER, "PORT": PORTS[0]}}
DATABASES |= {f"q{number}": {**SERVER, "PORT": port} for number, port in enumerate(PORTS)}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_tasks_retry", "tests.shards"]
TASKS = {
    "default": {
        "BACKEND": "django_tasks_retry.backend.RetryBackend",
        "QUEUES": [],
        "OPTIONS": {
            "SHARDS": ["q0", "q1", "q2"],
            "ENQUEUE_TIMEOUT": 0.6,
            "LEASE": 4,
            "LANES": {"lane-*": {"concurrency": 2}},
            "SCHEDULES": {
                f"each-second-{n}": {"task": "tests.shards.tasks.note", "args": [n], "every": 1} for n in range(6)
            },
        },
    },
}
