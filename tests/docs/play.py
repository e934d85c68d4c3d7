"""Runs the Python snippets of pages, as a program: `python -m tests.docs.play howto/retries …`. Prints what failed.

The snippets of a page share one namespace, as a reader's file would. Functions named `test_…` are called with the
harness, and test cases are run.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import types
import unittest
from typing import Any

import django
from django.core.management import call_command
from django.db import transaction


def play(name: str) -> None:
    from tests.docs.pages import DOCS, snippets

    module = types.ModuleType(f"docs.{name.replace('/', '.').replace('-', '_')}")
    sys.modules[module.__name__] = module
    for snippet in snippets(DOCS / f"{name}.rst"):
        if snippet.language == "python":
            exec(compile(snippet.text, f"{name}.rst", "exec"), vars(module))
    rehearse(module)


def rehearse(module: Any) -> None:
    from django_tasks_retry.testing import Tasks

    for name, function in list(vars(module).items()):
        if name.startswith("test_"):
            with transaction.atomic():
                harness = Tasks()
                function(harness)
                harness.close()
                transaction.set_rollback(True)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    outcome = unittest.TextTestRunner().run(suite)
    assert outcome.wasSuccessful(), outcome


def failures(names: list[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            play(name)
        except Exception:  # noqa: BLE001 - told with the page it belongs to
            found[name] = traceback.format_exc()
    return found


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    django.setup()
    call_command("migrate", verbosity=0)
    sys.stdout.write("\n" + json.dumps(failures(sys.argv[1:])) + "\n")
