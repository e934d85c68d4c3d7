"""The legs of a whole run, and one table of how they ended.

`python -m tests.legs ci` runs what each merge must pass, `python -m tests.legs full` what a release must pass, and
`python -m tests.legs NAME …` the legs of these names; `python -m tests.legs prepare` makes the environments of a merge.
Interpreters are looked for on PATH and in the folders of pyenv, uv and distributions. Environments are made once, in a
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.sdist import cache_folder

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Pair:
    """A supported Python with its Django."""

    python: str
    django: str
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"Python {self.python}, Django {self.django}{' + backport' if self.also else ''}"

    @property
    def requirements(self) -> list[str]:
        return ["-e", f"{ROOT}[dev]", f"Django=={self.django}.*", *self.also]


OLDEST = Pair("3.11", "5.2", ("django-tasks>=0.12",))
MIDDLE = Pair("3.12", "6.0")
TARGET = Pair("3.13", "6.1")
NEWEST = Pair("3.14", "6.1")
PAIRS = [OLDEST, MIDDLE, TARGET, NEWEST]
LOWEST = Pair(
    "3.11",
    "5.2",
    ("Django==5.2", "django-tasks==0.12.0", "cronsim==2.6", "psycopg[binary]==3.2.2", "psycopg-pool==3.2"),
)
"""The lowest versions that pyproject.toml allows, of what the package itself needs."""

CORE = ("tests/contract", "tests/guard", "tests/pairs", "tests/worker")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
"""Files are read and written as ASCII unless the code names an encoding; terminals show more."""
IN_PARALLEL = ("-n", "3")


@dataclass(frozen=True)
class Leg:
    """One command: `python -m` and its arguments."""

    name: str
    command: tuple[str, ...]
    pair: Pair | None = None
    """None is the Python that runs this."""
    variables: Mapping[str, str] = field(default_factory=dict)


def both_tiers(pair: Pair) -> list[Leg]:
    return [
        Leg(f"{pair.name}: quick", ("pytest", "-q"), pair),
        Leg(f"{pair.name}: long", ("pytest", "-q", "-m", "long"), pair),
    ]


LONG = Leg("long tier", ("pytest", "-q", "-m", "long"))
ON_POSTGRESQL = ("pytest", "-q", *IN_PARALLEL, "-k", "postgresql", *CORE)
ON_18 = {"TEST_POSTGRESQL_VERSION": "18"}
PARTITIONS = {"LAYOUT": "partitioned"}
PLAIN = {"ABILITIES": "plain"}
POOLER = {"ROUTE": "pgbouncer"}
BROWSER = Leg(
    "Django 6.1: conformance, Chromium",
    ("pytest", "-q", "-m", "", *IN_PARALLEL, "--dist", "load", "tests/conformance", "tests/admin/test_browser.py"),
    TARGET,
)
SAMPLE = Leg("5 planted bugs", ("tests.mutants", "--sample", "5"))
PLANNED = ("-k", "postgresql", "tests/contract", "tests/lanes", "tests/pairs", "tests/workflows", "tests/schedules")
OTHER_PLANS = [
    Leg(f"planner without {way}", ("pytest", "-q", *IN_PARALLEL, *PLANNED), variables={"PLANNER": way})
    for way in ("nestloop", "indexscan", "hashjoin")
]

LEFT_TO_FULL = (
    "browser", "column_stops", "wagtail", "test_demo", "test_everywhere", "test_reload", "(under_fire and sqlite)",
    "(test_fuzz and sqlite)", "(test_resources and sqlite)", "(test_doors and sqlite)", "(test_one_exit and sqlite)",
    "(test_deaths and sqlite)", "(test_registry and sqlite)", "(test_middleware and sqlite)",
    "test_behaviours", "(many_queues and sqlite)",
)  # fmt: skip
# All of it takes two cores twice as long as the 25 minutes of a merge. Chromium runs once, on the main target.
CI = [
    Leg("long tier", ("pytest", "-q", "-m", "long", "-k", " and ".join(f"not {each}" for each in LEFT_TO_FULL))),
    Leg("Django 6.1, PostgreSQL 18, ASCII locale: quick", ("pytest", "-q"), TARGET, {**ON_18, **ASCII}),
    Leg("partitions, pooler", ON_POSTGRESQL, variables={**PARTITIONS, **POOLER}),
    BROWSER,
    SAMPLE,
]
FULL = [
    LONG,
    *(leg for pair in (MIDDLE, TARGET, NEWEST) for leg in both_tiers(pair)),
    Leg("Django 6.1, PostgreSQL 18", ("pytest", "-q"), TARGET, ON_18),
    BROWSER,
    Leg("partitions", ON_POSTGRESQL, variables=PARTITIONS),
    Leg("pooler", ON_POSTGRESQL, variables=POOLER),
    Leg("plain server", (*ON_POSTGRESQL, "tests/model", "tests/races", "-m", ""), variables=PLAIN),
    Leg("ASCII locale", ON_POSTGRESQL, variables=ASCII),
    *OTHER_PLANS,
    Leg("lowest versions", ("pytest", "-q"), LOWEST),
    SAMPLE,
    Leg("all planted bugs", ("tests.mutants",)),
    Leg("attacks", ("tests.attacks",)),
    Leg(
        "soak", ("tests.soak", "--tasks", "20000", "--laned", "1000", "--workflows", "200", "--seed", "1", "--untimed")
    ),
    Leg("packages of others", ("tests.clients",)),
    Leg("failover lab", ("tests.lab",)),
]


@dataclass(frozen=True)
class Outcome:
    leg: Leg
    word: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        """A leg that a machine cannot run is a failure in CI, which must have all that it needs."""
        return self.word not in ({"passed"} if "CI" in os.environ else {"passed", "skipped"})


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def places(version: str) -> Iterator[Path]:
    """Yield the files that may be an interpreter of this version."""
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
    """Return the first that runs: a shim on PATH may stand for a version that is not chosen."""
    probe = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for place in places(version):
        answer = subprocess.run([place, "-c", probe], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return place
    return None


def environment(pair: Pair, interpreter: Path) -> Path:
    """Return the Python of the pair's environment, which is made again when its requirements change."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + repr(pair.requirements).encode()).hexdigest()
    folder = cache_folder() / "legs" / wanted[:12]
    python = folder / "bin" / "python"
    stamp = folder / "stamp"
    if not stamp.exists():
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *pair.requirements]
        subprocess.run(install, check=True)
        stamp.touch()
    return python


def run(leg: Leg) -> Outcome:
    python = Path(sys.executable)
    if leg.pair:
        interpreter = find_interpreter(leg.pair.python)
        if interpreter is None:
            say(f"== {leg.name}: skipped, there is no Python {leg.pair.python} on this machine")
            return Outcome(leg, "skipped", f"no Python {leg.pair.python} here")
        try:
            python = environment(leg.pair, interpreter)
        except subprocess.CalledProcessError as error:
            return Outcome(leg, "not installed", f"pip ended with {error.returncode}")
    words = [*(f"{name}={value}" for name, value in leg.variables.items()), "python -m", *leg.command]
    say(f"\n== {leg.name}: {' '.join(words)}")
    began = time.monotonic()
    code, last = follow([str(python), "-m", *leg.command], leg.variables)
    return Outcome(leg, "failed" if code else "passed", last, time.monotonic() - began)


def follow(command: list[str], variables: Mapping[str, str]) -> tuple[int, str]:
    """Pass on what the command prints, and return its exit code and last line: the count of what passed."""
    last = ""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TEST_"))}
    with subprocess.Popen(
        command, cwd=ROOT, env={**inherited, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
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


def main(names: list[str]) -> int:
    if names == ["prepare"]:
        pairs = {leg.pair for leg in CI if leg.pair}
        found = {pair: find_interpreter(pair.python) for pair in pairs}
        return int(any(not (interpreter and environment(pair, interpreter)) for pair, interpreter in found.items()))
    known = {leg.name: leg for leg in (*FULL, *CI)}
    named = {"ci": CI, "full": FULL}.get(names[0] if names else "")
    unknown = [name for name in names if not named and name not in known]
    if unknown or not names:
        say("\n".join(["Legs: ci (all of a merge), full (all of a release), or any of", *known]))
        return 2
    outcomes = [run(leg) for leg in named or [known[name] for name in names]]
    say(f"\n{table(outcomes)}")
    return int(any(outcome.is_failure for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
