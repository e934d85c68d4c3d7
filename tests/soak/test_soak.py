"""A short soak on each database. Longer ones: `python -m tests.soak --tasks 100000 --seed 1`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.soak.fire import traceback_in
from tests.worker.harness import DEADLINE, ROOT, wait_for


@pytest.fixture
def surroundings() -> Iterator[dict[str, str]]:
    """An environment by which everything that was started in it can be found, and a folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="dtr-soak-test-"))
    folder.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))}
    yield kept | {"TMPDIR": str(folder), "SOAK_MARK": uuid4().hex}
    shutil.rmtree(folder, ignore_errors=True)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.soak", *arguments]


@pytest.mark.long
@pytest.mark.parametrize(
    ("database", "size"),
    [
        ("postgresql", "--tasks 500 --laned 60 --workflows 5 --seconds 10 --lease 2"),
        ("sqlite", "--tasks 150 --laned 30 --workflows 2 --seconds 6 --lease 3"),
    ],
    ids=["postgresql", "sqlite"],
)
def test_under_fire_nothing_is_lost_or_finished_twice(surroundings, database, size):
    fleet = "--children 2 --threads 4"  # what two busy cores can carry
    arguments = command(*size.split(), *fleet.split(), "--database", database, "--seed", "1", "--untimed")
    soak = subprocess.run(
        arguments, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    print(soak.stdout, soak.stderr)  # noqa: T201 - figures for who runs with -rP
    assert soak.returncode == 0, soak.stdout[:10_000]
    assert "violations: none" in soak.stdout
    assert not relatives(surroundings)


@pytest.mark.long
def test_a_killed_soak_leaves_no_process_behind(surroundings):
    soak = subprocess.Popen(command("--tasks", "1000"), cwd=ROOT, env=surroundings, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: count_workers(surroundings) > 4, "workers and their children", seconds=3 * DEADLINE)
    finally:
        soak.kill()
        soak.wait()
    wait_for(lambda: not relatives(surroundings), f"the end of {relatives(surroundings)}")


@pytest.mark.parametrize("where", ["", " thread started by"])
def test_an_interruption_that_python_dropped_is_no_error_and_any_other_traceback_is(where):
    dropped = (
        f"12:00 INFO up\nException ignored in{where}: <function BaseConnection.__del__ at 0x7f>\n"
        'Traceback (most recent call last):\n  File "base.py", line 140, in __del__\n    def __del__(self) -> None:\n\n'
        "django_tasks_retry.errors.TaskCancelled: \n12:01 WARN on\n"
    )
    assert traceback_in(dropped) == ""
    for error in ("ValueError: 1", "django_tasks_retry.errors.TaskCancelled: "):
        assert traceback_in(f"{dropped}Traceback (most recent call last):\n  File\n{error}\n").endswith(f"{error}\n")


def count_workers(surroundings: dict[str, str]) -> int:
    return sum("runworker" in words for words in relatives(surroundings))


def relatives(surroundings: dict[str, str]) -> list[str]:
    """The command lines of all processes that were started with this mark."""
    mark = f"SOAK_MARK={surroundings['SOAK_MARK']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # gone, or not ours
            continue
    return found
