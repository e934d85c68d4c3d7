"""Loud when nothing can run: no task known, one that workers will not find, no backend, no tables."""

from __future__ import annotations

import shutil

import pytest

from tests.backend.test_unimportable import SETTINGS, SOUND, manage

TASK = SOUND.replace("fine", "{name}")
NO_APPS = '["django_tasks_retry"]'


class Project:
    """A package `shop` and settings, as files."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.settings = SETTINGS.replace('["broken", "django_tasks_retry", "sound"]', '["django_tasks_retry", "shop"]')
        self.write("shop/__init__.py", "")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write_task(self, path: str, name: str) -> None:
        self.write(path, TASK.format(name=name))

    def manage(self, *arguments: str):
        self.write("project_settings.py", self.settings)
        return manage(self.folder, *arguments)

    def enqueue(self, module: str, name: str) -> str:
        """Return the standard error."""
        done = self.manage("shell", "--no-imports", "-c", f"from {module} import {name}\n{name}.enqueue()")
        assert done.returncode == 0, done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """A database as `migrate` leaves it."""
    project = Project(tmp_path_factory.mktemp("migrated"))
    project.manage("migrate", "-v0")
    return project.folder / "db.sqlite3"


@pytest.fixture
def unmigrated(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def project(unmigrated, migrated):
    shutil.copy(migrated, unmigrated.folder)
    return unmigrated


@pytest.mark.fault("no_task_known")
def test_a_worker_that_knows_no_task_says_what_to_type(project):
    assert "django_tasks_retry.W008" in project.manage("check").stderr
    said = project.manage("runworker", "--drain").stderr
    assert "ERROR this worker knows no task, so it will run none" in said
    assert "INSTALLED_APPS" in said
    project.write_task("shop/tasks.py", "mail")
    assert "W008" not in project.manage("check").stderr
    assert "knows no task" not in project.manage("runworker", "--drain").stderr


@pytest.mark.fault("task_that_workers_will_not_find")
def test_a_task_that_workers_will_not_find_is_told_at_enqueue_and_found_once_it_is_declared(project):
    project.write_task("shop/receipts.py", "mail")
    said = project.enqueue("shop.receipts", "mail")
    assert "shop.receipts.mail was enqueued, but workers will not find it" in said
    assert "Add 'shop.receipts' to TASKS['default']['OPTIONS']['TASK_MODULES']" in said
    assert "0 tasks known" in project.manage("runworker", "--drain").stderr
    project.settings += 'TASKS["default"]["OPTIONS"] = {"TASK_MODULES": ["shop.receipts"]}\n'
    assert project.enqueue("shop.receipts", "mail") == ""
    assert "2 done" in project.manage("runworker", "--drain").stderr


READY = """
from django.apps import AppConfig

class Shop(AppConfig):
    name = "{app}"

    def ready(self):
        from . import receipts
"""
FOUND = {
    "by_name": ("tasks.py", "from {app}.receipts import mail"),
    "as_module": ("tasks.py", "from {app} import receipts"),
    "relative": ("tasks.py", "from . import receipts"),
    "dotted": ("tasks.py", "import {app}.receipts"),
    "by_neighbour": ("tasks.py", "import {app}.billing"),
    "of_package": ("tasks/__init__.py", "from ..receipts import mail"),
    "when_ready": ("apps.py", READY),
}
NOT_FOUND = {
    "in_function": ("tasks.py", "def later():\n    from {app}.receipts import mail\n"),
    "in_no_module": ("views.py", "from {app}.receipts import mail\n"),
}
TELL = """
import importlib
from django.conf import settings
from django_tasks_retry.taskqueue.enqueue import discovery
shops = [app for app in settings.INSTALLED_APPS if app != "django_tasks_retry"]
functions = {app: importlib.import_module(f"{app}.receipts").mail.func for app in shops}  # as views do, first
print([app for app, function in functions.items() if discovery.will_be_found(function)])
"""


@pytest.mark.fault("task_that_workers_will_not_find")
def test_a_task_is_found_wherever_a_tasks_module_imports_it_and_nowhere_else(project):
    for app, (path, text) in (FOUND | NOT_FOUND).items():
        project.write(f"{app}/__init__.py", "")
        project.write_task(f"{app}/receipts.py", "mail")
        project.write(f"{app}/billing.py", f"from {app}.receipts import mail\n")
        project.write(f"{app}/{path}", text.format(app=app))
    project.settings += f"INSTALLED_APPS = ['django_tasks_retry', *{[*FOUND, *NOT_FOUND]}]\n"
    told = project.manage("shell", "--no-imports", "-c", TELL)
    assert told.stdout.strip() == str(list(FOUND)), told.stderr


@pytest.mark.fault("task_that_workers_will_not_find")
def test_an_app_that_is_not_installed_is_what_is_named(project):
    project.settings = project.settings.replace('["django_tasks_retry", "shop"]', NO_APPS)
    project.write_task("shop/tasks.py", "mail")
    said = project.enqueue("shop.tasks", "mail")
    assert "shop is not in INSTALLED_APPS. Add 'shop' to INSTALLED_APPS, and restart the workers." in said


@pytest.mark.fault("task_that_workers_will_not_find")
def test_the_check_knows_what_the_views_import(project):
    project.write_task("shop/receipts.py", "mail")
    project.write("shop/urls.py", "from shop.receipts import mail\nurlpatterns = []\n")
    project.settings += 'ROOT_URLCONF = "shop.urls"\n'
    said = project.manage("check").stderr
    assert "django_tasks_retry.W009) Workers will not find the tasks in shop.receipts" in said


@pytest.mark.fault("no_backend_in_the_settings")
def test_without_a_backend_of_ours_a_worker_refuses_and_the_check_warns(project):
    project.settings += "TASKS = {}\n"
    assert "django_tasks_retry.W007" in project.manage("check").stderr
    refused = project.manage("runworker")
    assert refused.returncode == 1
    assert 'add TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}' in refused.stderr


@pytest.mark.fault("not_migrated")
def test_what_is_not_migrated_is_said_with_the_command(unmigrated):
    unmigrated.write_task("shop/tasks.py", "mail")
    assert "django_tasks_retry.W010" in unmigrated.manage("check", "--database", "default").stderr
    refused = unmigrated.manage("runworker")
    assert refused.returncode == 1
    assert "does not have the tables of the task queue. Run: python manage.py migrate" in refused.stderr
    enqueue = "from shop.tasks import mail; mail.enqueue()"
    enqueued = unmigrated.manage("shell", "--no-imports", "-c", enqueue)
    assert "NotMigrated: Database 'default' does not have the tables" in enqueued.stderr
