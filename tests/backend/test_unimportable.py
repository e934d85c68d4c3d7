"""A `tasks` module that cannot be imported is named, and breaks nothing else."""

from __future__ import annotations

import os
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
    (tmp_path / "project_settings.py").write_text(SETTINGS)
    for app, text in {"broken": BROKEN[request.param], "sound": SOUND}.items():
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
        (tmp_path / app / "tasks.py").write_text(text)
    return tmp_path


def manage(project, *arguments):
    told = {"DJANGO_SETTINGS_MODULE": "project_settings", "PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "django", *arguments]
    return subprocess.run(
        command, env=os.environ | told, cwd=project, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.fault("F90")
def test_every_command_goes_on_and_the_module_is_named(project):
    for command in (["check"], ["makemigrations", "--check", "--dry-run"], ["migrate", "-v0"], ["showmigrations"]):
        done = manage(project, *command)
        assert done.returncode == 0, done.stderr
        assert "django_tasks_retry.W006" in done.stderr or command[0] == "showmigrations", done.stderr
    assert "broken.tasks cannot be imported" in manage(project, "check").stderr


@pytest.mark.fault("F90")
def test_a_worker_names_it_and_runs_the_tasks_of_others(project):
    manage(project, "migrate", "-v0")
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
