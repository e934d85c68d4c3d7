"""The README's quick start and the tutorial, to the letter, from a wheel: `python -m tests.first_hour dist/*.whl`.

On SQLite and on PostgreSQL, for every pair of Python and Django whose interpreter is found. With `--here` only for the
Python that runs it, and on PostgreSQL: the tests of the documentation follow both pages on SQLite.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.pages import DOCS, snippets
from tests.docs.project import Project
from tests.legs import PAIRS, Pair, find_interpreter, say
from tests.pg import PgCluster

HERE = "{}.{}".format(*sys.version_info)
BOTH = ("sqlite", "postgresql")


def main(wheel: Path, *, here: bool) -> int:
    failed = []
    with postgresql() as server:
        for pair in [pair for pair in PAIRS if pair.python == HERE or not here]:
            interpreter = find_interpreter(pair.python)
            if interpreter is None:
                say(f"{pair.name}: skipped, there is no Python {pair.python} on this machine")
            elif not follow_all(pair, interpreter, wheel.resolve(), server, ("postgresql",) if here else BOTH):
                failed.append(pair.name)
    return int(bool(failed))


def follow_all(pair: Pair, interpreter: Path, wheel: Path, server: PgCluster, databases: tuple[str, ...]) -> bool:
    with tempfile.TemporaryDirectory(prefix="dtr-first-hour-") as scratch:
        python = install(pair, interpreter, wheel, Path(scratch) / "venv")
        outcomes = [
            follow(pair, python, page, database, Path(scratch), server)
            for page in ("README", "tutorial")
            for database in databases
        ]
    return all(outcomes)


def install(pair: Pair, interpreter: Path, wheel: Path, folder: Path) -> Path:
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    extras = "postgres,backport" if pair.also else "postgres"  # as README says
    wanted = [f"django-tasks-retry[{extras}] @ {wheel.as_uri()}", f"Django=={pair.django}.*"]
    subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted], check=True)
    return python


def follow(pair: Pair, python: Path, page: str, database: str, scratch: Path, server: PgCluster) -> bool:
    folder = scratch / f"{page}-{database}"
    folder.mkdir()
    name = f"{page}_{database}_{pair.python}_{pair.django}".replace(".", "_").lower()
    project = Project(folder, python, None, on_postgresql(name, server) if database == "postgresql" else "")
    try:
        if page == "README":
            project.follow_readme(core_has_tasks=not pair.also)
        else:
            project.follow(snippets(DOCS / f"{page}.rst", core_has_tasks=not pair.also))
    except (AssertionError, subprocess.SubprocessError) as error:
        say(f"{pair.name}: {page} on {database} FAILED\n{error}")
        return False
    say(f"{pair.name}: {page} on {database}: every command as written")
    return True


@contextmanager
def postgresql() -> Iterator[PgCluster]:
    server = PgCluster()
    try:
        server.initdb()
        server.start()
        yield server
    finally:
        server.remove()


def on_postgresql(name: str, server: PgCluster) -> str:
    """Settings of a new database."""
    import psycopg

    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    place = {"NAME": name, "USER": "postgres", "HOST": "127.0.0.1", "PORT": server.port}
    return f"\nDATABASES = {{'default': { ({'ENGINE': 'django.db.backends.postgresql'} | place)!r}}}\n"


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--here"]
    raise SystemExit(main(Path(arguments[0]), here="--here" in sys.argv))
