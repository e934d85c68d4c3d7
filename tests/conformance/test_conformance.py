"""Django's own task tests, asked of our backend in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import django
import pytest

from django_tasks_retry.compat import CORE_HAS_TASKS
from tests.conformance.sdist import SDISTS, NotAvailable
from tests.conformance.transform import transform

ROOT = Path(__file__).resolve().parents[2]
RESULT = re.compile(r"^(?:FAIL|ERROR): \w+ \(tasks\.([\w.]+)\)", re.MULTILINE)

SECTIONS = {
    "[every Django]": True,
    "[the backport]": not CORE_HAS_TASKS,
    "[Python 3.11]": sys.version_info < (3, 12),
}
LEGS = {
    # Django: whose tests, and how many of them must pass
    (5, 2): ((6, 1), 71),
    (6, 0): ((6, 0), 70),
    (6, 1): ((6, 1), 79),
}
NEWEST = max(LEGS)


def leg() -> tuple[tuple[int, int], int]:
    """Of this Django; one that is newer than all we know is asked what the newest of them is asked."""
    return LEGS[min(django.VERSION[:2], NEWEST)]


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `tasks`: Django's tests, pointed at our backend."""
    folder = tmp_path_factory.mktemp("conformance")
    series, _ = leg()
    try:
        source = SDISTS[series].extract_tests(folder / "source")
    except NotAvailable as reason:
        pytest.skip(f"needs Django's own task tests: {reason}")
    transform(source, folder / "tasks", backport=not CORE_HAS_TASKS)
    return folder


def not_applicable() -> set[str]:
    """The committed list: tests that assert the opposite of what we support, or that fail in the framework itself."""
    found, applies = set(), False
    for line in (Path(__file__).parent / "not_applicable.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            applies = SECTIONS[line]
        elif applies and line and not line.startswith("#"):
            found.add(line)
    return found


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_the_applicable_tests_of_django_pass(suite: Path, vendor: str) -> None:
    told = {
        "DJANGO_SETTINGS_MODULE": "tests.conformance.settings",
        "CONFORMANCE_DATABASE": vendor,
        "PYTHONPATH": f"{suite}{os.pathsep}{ROOT}",
    }
    command = [sys.executable, "-m", "django", "test", "tasks", "--noinput"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")} | told
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert ran, done.stderr
    failed = set(RESULT.findall(done.stderr))
    assert failed == not_applicable(), done.stderr
    assert int(ran.group(1)) - len(failed) >= leg()[1]
