"""Wagtail's own tasks through our backend, where Wagtail is installed: `pip install wagtail` and run this file."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.harness import place_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("wagtail") is None, reason="needs Wagtail: pip install wagtail"
)

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
import json, os
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = [
    "wagtail.users", "wagtail.images", "wagtail.documents", "wagtail.search", "wagtail.admin", "wagtail",
    "modelcluster", "taggit", "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
    "django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles", "django.contrib.postgres",
    "django_tasks_retry",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
DATABASES = {"default": json.loads(os.environ["DATABASE"])}
TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}
WAGTAIL_SITE_NAME = "site"
WAGTAILADMIN_BASE_URL = "http://localhost"
STATIC_URL = "static/"
ROOT_URLCONF = __name__
urlpatterns = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""
EDIT = """
from wagtail.models import Page
root = Page.objects.get(depth=1)
root.add_child(instance=Page(title="Quokka", slug="quokka"))
from django_tasks_retry.models import Task
print(sorted({task.func_path for task in Task.objects.all()}))
print([page.title for page in Page.objects.search("quokka")])
"""
FIND = """
from wagtail.models import Page
from django_tasks_retry.models import Task
print([page.title for page in Page.objects.search("quokka")], {task.status for task in Task.objects.all()})
"""


@pytest.fixture
def manage(tmp_path, on, request):
    """Commands of a Wagtail project with a database of its own."""
    (tmp_path / "wagtail_settings.py").write_text(SETTINGS)
    place = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
    place["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    if on == "postgresql":
        request.getfixturevalue("django_db_setup")
        place = {"ENGINE": "django.db.backends.postgresql"} | place_of(on) | {"NAME": new_database(request)}
    told = {
        "DJANGO_SETTINGS_MODULE": "wagtail_settings",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "DATABASE": json.dumps(place),
    }

    def run(*arguments):
        command = [sys.executable, "-m", "django", *arguments]
        done = subprocess.run(
            command, env=os.environ | told, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


def new_database(request):
    from django.db import connections

    request.getfixturevalue("django_db_blocker").unblock()
    name = "test_wagtail"
    with connections["postgresql"]._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    return name


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_pages_are_found_once_a_worker_has_indexed_them(manage):
    manage("migrate", "-v0")
    edited = manage("shell", "-v0", "-c", EDIT).stdout
    assert "insert_or_update_object_task" in edited
    assert edited.splitlines()[-1] == "[]"
    worker = manage("runworker", "--drain", "--threads", "1")
    assert "0 failed" in worker.stderr
    assert manage("shell", "-v0", "-c", FIND).stdout.split("\n")[0] == "['Quokka'] {'SUCCESS'}"
