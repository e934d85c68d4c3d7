"""A worker of an ordinary project whose only database is away: it waits, and Ctrl-C ends that without a traceback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from tests.example.programs import ROOT, SECONDS, environment
from tests.pg import free_port


def start(*arguments: str, port: int = 0) -> subprocess.Popen[str]:
    nobody = f"postgres://shop@127.0.0.1:{port or free_port()}/shop"
    command = [sys.executable, "-u", str(ROOT / "manage.py"), "runworker", "--no-reload", *arguments]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(DATABASE_URL=nobody), preexec_fn=ignore_interrupts, **both
    )


def ignore_interrupts() -> None:
    """As a shell does for background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_waits_until_it_is_told_not_to(told):
    worker = start()
    assert "the database does not answer; trying for" in worker.stdout.readline()
    worker.send_signal(told)
    said, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 128 + told
    assert "Traceback" not in said


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_says_nothing_keeps_no_worker_from_ending(told):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        worker = start(port=silent.getsockname()[1])
        with silent.accept()[0]:
            worker.send_signal(told)
            said, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 128 + told
    assert "Traceback" not in said


@pytest.mark.parametrize("option", ["--drain", "--once", "--max-tasks=3"])
def test_one_that_is_to_end_says_so_at_once(option):
    worker = start(option)
    said, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 1
    assert said.startswith("CommandError: The database cannot be used: ")
