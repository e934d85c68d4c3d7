"""A project built by following a page to the letter: its files are written, its commands run, their output compared."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.error import URLError

from tests.docs.pages import README, ROOT, Snippet, snippets, titled
from tests.example.programs import environment
from tests.pg import free_port

INSTALLED = ("python -m pip install", "pip install")
CONSOLE = "admin/django_tasks_retry/overview/"
SECONDS = 90


class Project:
    """In a folder of its own. `database` takes the place of the one that `startproject` sets up."""

    def __init__(
        self, folder: Path, python: Path | str = sys.executable, path: Path | None = ROOT, database: str = ""
    ) -> None:
        self.folder, self.python, self.database = folder, str(python), database
        self.variables = {"PYTHONPATH": str(path)} if path else {}

    def follow(self, steps: Iterable[Snippet]) -> None:
        for step in steps:
            if step.language == "python" and step.caption:
                self.write(step.caption, step.text)
            elif step.language == "console":
                for command, expected in commands(step.text):
                    self.run(command, expected)

    def follow_readme(self, *, core_has_tasks: bool) -> None:
        """The quick start, in a project with an app."""
        self.run("django-admin startproject mysite .", [])
        self.run("python manage.py startapp shop", [])
        shown = snippets(README, core_has_tasks=core_has_tasks)
        files = [file for snippet in shown if snippet.language == "python" for file in titled(snippet)]
        assert [file.caption for file in files] == ["shop/tasks.py", "shop/views.py", "settings.py"]
        for file in files:
            self.write({"settings.py": "mysite/settings.py"}.get(file.caption, file.caption), file.text)
        self.run("python manage.py migrate", [])
        self.run('python manage.py shell -c "import shop.views"', [])
        self.run("python manage.py runworker --drain", ["2 done"])
        self.run("python manage.py check --database default --fail-level WARNING", ["no issues"])

    def write(self, path: str, text: str) -> None:
        """Settings grow at their end; other files are as the page shows them."""
        file = self.folder / path
        before = file.read_text(encoding="utf-8") if file.name == "settings.py" and file.exists() else ""
        if file.name == "settings.py" and self.database:
            text = without_sqlite(text) + self.database
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{before}\n{text}")

    def run(self, command: str, expected: list[str]) -> None:
        if command.startswith(INSTALLED):
            return None
        variables, program, *arguments = self.parsed(command)
        if arguments[-1:] == ["runserver"]:
            return self.serve([*program, *arguments], variables)
        done = subprocess.run(
            [*program, *arguments],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{output}"
        missing = [line for line in expected if line not in output]
        assert not missing, f"$ {command}\nshould have printed {missing}, but printed\n{output}"
        return None

    def parsed(self, command: str) -> list[Any]:
        """The environment, the program and its arguments, of a command that may begin with variables."""
        words = shlex.split(command)
        given = {}
        while "=" in words[0]:
            name, _, given[name] = words.pop(0).partition("=")
        is_python = words[0] == "python"
        program = [self.python] if is_python else [self.python, "-m", "django"]
        settings = {"DJANGO_SETTINGS_MODULE": "mysite.settings" * is_python}
        return [environment(**self.variables, **settings, **given), program, *words[1:]]

    def serve(self, command: list[str], variables: dict[str, str]) -> None:
        """The web server answers where the page says that the console is: with a login."""
        port = free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen([*command, "--noreload", str(port)], cwd=self.folder, env=variables, **quiet)
        try:
            assert "/admin/login/" in visited(f"http://127.0.0.1:{port}/{CONSOLE}")
        finally:
            server.terminate()
            server.wait(timeout=SECONDS)


def visited(address: str) -> str:
    """Return the address where a browser that goes there ends."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                return str(answer.url)
        except URLError:
            assert time.monotonic() < deadline, f"{address} does not answer"
            time.sleep(0.1)


def without_sqlite(text: str) -> str:
    """The pages' mark of a line for SQLite only."""
    return re.sub(r"^DATABASES.*transaction_mode.*\n", "", text, flags=re.MULTILINE)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it is shown to print."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(lines[0], [line for line in lines[1:] if line]) for lines in (part.splitlines() for part in parts)]
