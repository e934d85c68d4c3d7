"""A project built by following a page to the letter: its files are written, its commands run, their output compared."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.docs.pages import ROOT, Snippet
from tests.example.programs import environment

INSTALLED = ("python -m pip install", "pip install")
PROGRAMS = {"python": [sys.executable], "django-admin": [sys.executable, "-m", "django"]}


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def follow(self, steps: Iterable[Snippet]) -> None:
        for step in steps:
            if step.language == "python" and step.caption:
                self.write(step.caption, step.text)
            elif step.language == "console":
                for command, expected in commands(step.text):
                    self.run(command, expected)

    def write(self, path: str, text: str) -> None:
        """Settings grow at their end; other files are as the page shows them."""
        file = self.folder / path
        before = file.read_text() if file.name == "settings.py" and file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{before}\n{text}")

    def run(self, command: str, expected: list[str]) -> None:
        if command.startswith(INSTALLED):
            return
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [*PROGRAMS[program], *arguments],
            cwd=self.folder,
            env=environment(PYTHONPATH=str(ROOT), DJANGO_SETTINGS_MODULE="mysite.settings" * (program == "python")),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{output}"
        missing = [line for line in expected if line not in output]
        assert not missing, f"$ {command}\nshould have printed {missing}, but printed\n{output}"


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it is shown to print."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(lines[0], [line for line in lines[1:] if line]) for lines in (part.splitlines() for part in parts)]
