"""Modules that may be imported when: before settings, before the app registry, and in which version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from django_tasks_retry import compat

ROOT = Path(__file__).resolve().parents[2]

EARLY_MODELS = """
from django.db import models
from django_tasks_retry import retry
from django_tasks_retry.compat import task

@task(queue_name="emails")
@retry(max_attempts=3)
def greet(name: str) -> str:
    return f"hello {name}"

class Person(models.Model):
    name = models.TextField()
"""
A_PROJECT = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["early", "django_tasks_retry"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend", "QUEUES": ["emails"]}},
)
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from early.models import greet
print(greet.enqueue("you").status)
"""


def python(code: str, *paths: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    told = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *paths)))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_task_may_be_declared_before_the_apps_are_ready(tmp_path):
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "__init__.py").touch()
    (tmp_path / "early" / "models.py").write_text(EARLY_MODELS)
    assert python(A_PROJECT, tmp_path) == "READY"


@pytest.mark.parametrize("module", ["django_tasks_retry", "django_tasks_retry.pytest_plugin"])
def test_nothing_of_django_is_imported_by(module):
    assert python(f"import sys, {module}; print('django' in sys.modules)") == "False"


def test_one_module_alone_asks_for_the_version_of_django():
    package = Path(compat.__file__).parent
    asking = [file.name for file in package.rglob("*.py") if "django.VERSION" in file.read_text(encoding="utf-8")]
    assert asking == ["compat.py"]
