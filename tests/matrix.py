"""The whole suite on every supported pair of Python and Django: `python -m tests.matrix [pytest arguments]`.

Interpreters are looked for on PATH and where pyenv, uv and distributions put them. Environments are made once, in a
cache folder outside the tree.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.sdist import cache_folder

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Leg:
    python: str
    django: str
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"Python {self.python}, Django {self.django}{' + backport' if self.also else ''}"

    @property
    def requirements(self) -> list[str]:
        return ["-e", f"{ROOT}[dev]", f"Django=={self.django}.*", *self.also]


LEGS = [
    Leg("3.11", "5.2", ("django-tasks>=0.12",)),
    Leg("3.12", "6.0"),
    Leg("3.13", "6.1"),
    Leg("3.14", "6.1"),
]


@dataclass(frozen=True)
class Outcome:
    leg: Leg
    word: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        return self.word not in {"passed", "skipped"}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def places(version: str) -> Iterator[Path]:
    """Where an interpreter of this version may be."""
    name = f"python{version}"
    on_path = shutil.which(name)
    if on_path:
        yield Path(on_path)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    for folder, pattern in (
        (pyenv / "versions", f"{version}*/bin/{name}"),
        (home / ".local/share/uv/python", f"cpython-{version}*/bin/{name}"),
        (Path("/opt"), f"*/bin/{name}"),
        (Path("/usr/local/bin"), name),
    ):
        yield from sorted(folder.glob(pattern), reverse=True)


def find_interpreter(version: str) -> Path | None:
    """The first that really runs: a shim on PATH may stand for a version that is not chosen."""
    probe = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for place in places(version):
        told = subprocess.run([place, "-c", probe], capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return place
    return None


def environment(leg: Leg, interpreter: Path) -> Path:
    """The Python of the leg's environment, made or brought up to date where what it needs has changed."""
    folder = cache_folder() / "matrix" / f"python{leg.python}-django{leg.django}"
    python = folder / "bin" / "python"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + repr(leg.requirements).encode()).hexdigest()
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *leg.requirements]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return python


def run(leg: Leg, arguments: list[str]) -> Outcome:
    interpreter = find_interpreter(leg.python)
    if interpreter is None:
        say(f"== {leg.name}: skipped, there is no Python {leg.python} on this machine")
        return Outcome(leg, "skipped", f"no Python {leg.python} here")
    say(f"== {leg.name}: {interpreter}")
    try:
        python = environment(leg, interpreter)
    except subprocess.CalledProcessError as error:
        return Outcome(leg, "not installed", f"pip ended with {error.returncode}")
    began = time.monotonic()
    done, last = suite(python, arguments)
    return Outcome(leg, "failed" if done else "passed", last, time.monotonic() - began)


def suite(python: Path, arguments: list[str]) -> tuple[int, str]:
    """Run pytest, pass its words on, and keep the last: the count of what passed."""
    last = ""
    command = [python, "-m", "pytest", "-q", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            say(line.rstrip())
            last = line.strip() or last
    return process.returncode, re.sub(r"^=+ | =+$", "", last)


def table(outcomes: list[Outcome]) -> str:
    width = max(len(outcome.leg.name) for outcome in outcomes)
    return "\n".join(
        f"{outcome.leg.name:{width}}  {outcome.word:13}  {outcome.seconds:6.0f} s  {outcome.detail}"
        for outcome in outcomes
    )


def main(arguments: list[str]) -> int:
    outcomes = [run(leg, arguments) for leg in LEGS]
    say(f"\n{table(outcomes)}")
    return int(any(outcome.is_failure for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
