"""A `tasks` module that cannot be imported is named, and breaks nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = ["broken", "django_tasks_retry", "sound"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3", "OPTIONS": {"transaction_mode": "IMMEDIATE"},
}}
TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}
"""
SOUND = """
from django_tasks_retry.compat import task

@task
def fine() -> str:
    return "fine"
"""
BROKEN = {
    "another queue's": SOUND + "\nfrom celery_that_is_not_here import shared_task\n",
    "mistyped": SOUND + "\ndef (:\n",
    "a program": SOUND + "\nraise SystemExit(3)\n",
}


@pytest.fixture(params=BROKEN)
def project(request, tmp_path):
    write_project(tmp_path, BROKEN[request.param])
    return tmp_path


def write_project(folder, broken):
    (folder / "project_settings.py").write_text(SETTINGS)
    for app, text in {"broken": broken, "sound": SOUND}.items():
        (folder / app).mkdir()
        (folder / app / "__init__.py").touch()
        (folder / app / "tasks.py").write_text(text)


def manage(project, *arguments):
    told = {"DJANGO_SETTINGS_MODULE": "project_settings", "PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "django", *arguments]
    return subprocess.run(
        command, env=os.environ | told, cwd=project, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """A database as `migrate` leaves it, made in a project whose `tasks` is mistyped."""
    folder = tmp_path_factory.mktemp("migrated")
    write_project(folder, BROKEN["mistyped"])
    done = manage(folder, "migrate", "-v0")
    assert done.returncode == 0, done.stderr
    assert "django_tasks_retry.W006" in done.stderr
    return folder / "db.sqlite3"


@pytest.mark.fault("tasks_module_not_importable")
def test_every_command_goes_on_and_the_module_is_named(project, migrated):
    shutil.copy(migrated, project)
    for command in (["check"], ["makemigrations", "--check", "--dry-run"], ["migrate", "-v0"]):
        done = manage(project, *command)
        assert done.returncode == 0, done.stderr
        assert "django_tasks_retry.W006" in done.stderr, done.stderr
        assert "broken.tasks cannot be imported" in done.stderr


@pytest.mark.fault("tasks_module_not_importable")
def test_a_worker_names_it_and_runs_the_tasks_of_others(project, migrated):
    shutil.copy(migrated, project)
    program = (
        "from sound.tasks import fine; fine.enqueue(); from django_tasks_retry import registry; "
        "print(sorted(path for path in registry.known_paths() if path.startswith(('broken', 'sound'))))"
    )
    enqueued = manage(project, "shell", "-c", program)
    assert "['sound.tasks.fine']" in enqueued.stdout, enqueued.stderr
    worker = manage(project, "runworker", "--drain")
    assert worker.returncode == 0, worker.stderr
    assert "ERROR broken.tasks cannot be imported; tasks in it wait" in worker.stderr
    assert "done      fine" in worker.stderr
