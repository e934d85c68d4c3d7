"""Points Django's task tests at our backend: names of backends and base classes are replaced, never an assertion."""

from __future__ import annotations

import shutil
from pathlib import Path

ADAPTERS = "tests.conformance.adapters"
ADAPTED = ("test_tasks.py", "test_dummy_backend.py", "test_immediate_backend.py")

OUR_BACKEND = {
    "django.tasks.backends.dummy.DummyBackend": f"{ADAPTERS}.Dummy",
    "django.tasks.backends.immediate.ImmediateBackend": f"{ADAPTERS}.Immediate",
    "from django.tasks.backends.dummy import DummyBackend": f"from {ADAPTERS} import Dummy as DummyBackend",
    "from django.tasks.backends.immediate import ImmediateBackend": (
        f"from {ADAPTERS} import Immediate as ImmediateBackend"
    ),
    # Our results are rows, which tests without a database would not be allowed to write.
    "import SimpleTestCase, override_settings": "import TransactionTestCase, override_settings",
    "(SimpleTestCase)": "(TransactionTestCase)",
    "    available_apps = []\n": "",
}
THE_BACKPORT = {
    "django.tasks": "django_tasks",
    "    InvalidTask,\n    InvalidTaskBackend,\n": (
        "    InvalidTaskError as InvalidTask,\n    InvalidTaskBackendError as InvalidTaskBackend,\n"
    ),
    "import InvalidTask\n": "import InvalidTaskError as InvalidTask\n",
    "import InvalidTask,": "import InvalidTaskError as InvalidTask,",
    "from django_tasks import Task, ": "from django_tasks.base import Task\nfrom django_tasks import ",
}


def transform(source: Path, package: Path, *, backport: bool) -> None:
    """Copy the tests in `source` to the package `package`."""
    shutil.copytree(source, package)
    for file in package.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name in ADAPTED:
            text = replaced(text, OUR_BACKEND)
        if backport:
            text = replaced(text, THE_BACKPORT)
        file.write_text(text)


def replaced(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text
