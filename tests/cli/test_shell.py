"""In a real shell: pipes, xargs, and a terminal."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.example.programs import environment

ROOT = Path(__file__).parents[2]
MANAGE = f"{shlex.quote(sys.executable)} {ROOT / 'manage.py'}"
ENQUEUE = (
    "from django_tasks_retry.models import Task; from example_project.shop.tasks import welcome_customer; "
    "Task.objects.enqueue_many([(welcome_customer,)] * 300)"
)
SECONDS = 60.0


@pytest.fixture(scope="module")
def shell(tmp_path_factory) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """A shell with a project of 300 tasks."""
    folder = tmp_path_factory.mktemp("shell")
    variables = environment(DATABASE_URL=f"sqlite:///{folder / 'shell.sqlite3'}")

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=60
        )

    migrated = run(f'{MANAGE} migrate -v0 && {MANAGE} shell -v0 -c "{ENQUEUE}"')
    assert migrated.returncode == 0, migrated.stderr
    return run


def test_ids_go_through_a_pipe_and_a_closed_pipe_is_no_error(shell):
    cancel = f"{MANAGE} tasks cancel --reason storm -y --json"
    done = shell(
        f"{MANAGE} tasks list -n 0 --json | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}; "
        f"{MANAGE} tasks list -n 40 --ids | xargs {cancel}"
    )
    assert done.stdout.splitlines() == ["141", '{"action": "cancel", "done": 40, "skipped": 0}']
    assert done.stderr == "The newest 40; -n 0 shows all.\n"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux: apt-get install tmux")
def test_top_is_drawn_on_a_terminal_and_ends_with_ctrl_c(shell, tmp_path):
    socket = tmp_path / "tmux"
    session = f"tmux -S {socket} -f /dev/null"
    command = shlex.quote(f"{MANAGE} tasks top --interval 200ms; echo ended with $?; read")
    assert shell(f"{session} new-session -d -x 110 -y 30 {command}").returncode == 0
    try:
        drawn = wait_for(shell, f"{session} capture-pane -p", "Ctrl-C quits")
        assert "tasks top" in drawn
        assert "No worker" in drawn
        assert all(len(line) <= 110 for line in drawn.splitlines())
        shell(f"{session} send-keys C-c")
        wait_for(shell, f"{session} capture-pane -p", "ended with 0")
    finally:
        shell(f"{session} kill-server")


def wait_for(shell, command: str, text: str) -> str:
    give_up_at = time.monotonic() + SECONDS
    while text not in (shown := shell(command).stdout):
        assert time.monotonic() < give_up_at, shown
        time.sleep(0.1)
    return shown
