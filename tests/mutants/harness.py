"""Plants bugs in copies of the package and runs the tests against them. The work tree is never touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import pg
from tests.mutants.mutant import PACKAGE, Mutant

ROOT = Path(__file__).resolve().parents[2]
NEEDED = (PACKAGE, "tests", "pyproject.toml")
GUARD_SPEAKS = re.compile(r"IllegalMove: |constraint \"?dtr_|CHECK constraint failed: dtr_")
TIMEOUT = 900


@dataclass(frozen=True, slots=True)
class Run:
    """The result of pytest: which tests went red on which database, and whether the guard spoke."""

    red: frozenset[tuple[str, str]]
    refused: bool
    tail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    runs: tuple[Run, ...]

    @property
    def seen(self) -> bool:
        """Every named test went red on every database, by itself."""
        wanted = {(test, database) for test in self.mutant.caught_by for database in self.mutant.on}
        return wanted <= self.runs[0].red

    @property
    def refused(self) -> bool:
        return self.mutant.guarded and bool(self.runs[-1].red) and self.runs[-1].refused

    @property
    def caught(self) -> bool:
        return self.seen and self.refused == self.mutant.guarded


@contextmanager
def copy_of_the_package(mutant: Mutant | None = None) -> Iterator[Path]:
    """A temporary copy with the bug in it."""
    with tempfile.TemporaryDirectory(prefix="dtr-mutant-") as folder:
        root = Path(folder)
        for name in NEEDED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, root / name)
        for edit in mutant.edits if mutant else ():
            edit.apply(root)
        yield root


def judge(mutant: Mutant) -> Verdict:
    """Without the guard first, where it would refuse the bug; then with it."""
    return run_planted(mutant, guards=(False, True) if mutant.guarded else (True,))


def run_planted(mutant: Mutant, guards: Sequence[bool]) -> Verdict:
    with copy_of_the_package(mutant) as root:
        return Verdict(mutant, tuple(run_tests(root, mutant.caught_by, guard=guard, on=mutant.on) for guard in guards))


def run_tests(root: Path, tests: Sequence[str], *, guard: bool = True, on: Sequence[str]) -> Run:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        "-m",
        "",  # of both tiers
        "-k",
        " or ".join(on),
    ]
    command += [] if guard else ["-p", "tests.mutants.unguarded"]
    done = subprocess.run(
        [*command, *tests], cwd=root, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest could not run {' '.join(tests)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    red = {
        (test, database) for test in tests for database in on for line in failed if test in line and database in line
    }
    return Run(frozenset(red), bool(GUARD_SPEAKS.search(done.stdout)), done.stdout[-1500:])


def environment() -> dict[str, str]:
    """One PostgreSQL server for all runs; no shrinking of counterexamples, no long waiting for what never comes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_SQLITE"))}
    short = {
        "MODEL_EXAMPLES": "120",
        "MODEL_SHRINK": "0",
        "RACE_DEADLINE": "5",
        "WORKER_DEADLINE": "20",
        "PYTHONPATH": "",
    }
    return {**inherited, **short, "TEST_POSTGRESQL": server()}


def server() -> str:
    if "MUTANTS_POSTGRESQL" not in os.environ:
        port = pg.start_keeper(pg.version())
        os.environ["MUTANTS_POSTGRESQL"] = f"postgres://postgres@127.0.0.1:{port}/postgres"
    return os.environ["MUTANTS_POSTGRESQL"]
