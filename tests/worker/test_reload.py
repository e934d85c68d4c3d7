from __future__ import annotations

import os
import signal
from pathlib import Path

from django_tasks_retry.models import Task

from . import tasks
from .harness import ROOT, story, wait_for, wait_until_finished

ASKED, DEBUG = (["--reload"], {}), ([], {"WORKER_DEBUG": "1"})


def test_a_changed_file_restarts_the_worker_after_its_tasks_have_ended(start, effects, tmp_path: Path, committed: str):
    """Where it is asked to, and of itself under DEBUG."""
    arguments, variables = ASKED if committed == "postgresql" else DEBUG
    changing = tmp_path / "changing_module.py"
    changing.write_text("")
    extra = {"EXTRA_MODULE": "changing_module", "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start(*arguments, variables=extra | variables)
    effects.wait_for("begin a")
    worker.wait_for_line("reload on")
    wait_for(lambda: touched(changing, worker), "the change being noticed")
    tasks.gate("a").touch()
    assert story(wait_until_finished(task)) == ["running", "completed"]
    wait_for(lambda: worker.output.count("reload on") == 2, "the second start")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0


def test_code_that_cannot_be_loaded_is_waited_for(start, effects, tmp_path: Path):
    changing = tmp_path / "changing_module.py"
    changing.write_text("")
    extra = {"EXTRA_MODULE": "changing_module", "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    worker = start("--reload", variables=extra)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    rewrite_until(changing, "def broken(:", lambda: "changing_module.py changed" in worker.output)
    worker.wait_for_line("the code cannot be loaded")
    worker.wait_for_line("SyntaxError")
    rewrite_until(changing, "", lambda: worker.output.count("reload on") == 2)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0


def rewrite_until(file: Path, text: str, fact) -> None:
    """With a later time at each try, for the worker's first look may come after the first change."""

    def rewritten() -> bool:
        later = file.stat().st_mtime + 1
        file.write_text(text, encoding="utf-8")
        os.utime(file, (later, later))
        return fact()

    wait_for(rewritten, f"{file.name} being noticed")


def touched(file: Path, worker) -> bool:
    """Again and again, for the worker's first look may come after the first change."""
    os.utime(file, (file.stat().st_atime, file.stat().st_mtime + 1))
    return "changing_module.py changed: stopping · 1 running" in worker.output
