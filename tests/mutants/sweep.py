"""`python -m tests.mutants.sweep [--sample N] [--seed N] [room …]`: change code by rules, and list what no test sees.

Each change flips a comparison, drops a `not`, swaps `and` and `or`, counts one further, leaves out a call or returns
nothing. The tests of the room run, on SQLite first, until one is red. Survivors are killed by a test, or argued away in
`argued.txt`: the change leaves nothing that anybody could see.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.harness import ROOT, copy_of_the_package, environment
from tests.mutants.mutant import PACKAGE

ARGUED = Path(__file__).with_name("argued.txt")
SECONDS = 400
ROOMS = {
    "rules": ("tests/rules", "tests/typed", "tests/lanes", "tests/admin/test_redaction.py", "tests/contract"),
    "durations.py": ("tests/rules", "tests/backend", "tests/taskqueue/test_wrong_calls.py"),
    "conf": ("tests/backend", "tests/lanes"),
    "registry.py": ("tests/backend",),
    "middleware.py": ("tests/middleware", "tests/contrib"),
    "payloads.py": ("tests/typed/test_payloads.py",),
    "models": ("tests/contract", "tests/taskqueue", "tests/schedules"),
    "guard": ("tests/guard",),
    "taskqueue/claim": ("tests/taskqueue", "tests/lanes"),
    "taskqueue/control": ("tests/lanes", "tests/taskqueue", "tests/cli"),
    "taskqueue/enqueue": ("tests/taskqueue", "tests/backend"),
    "taskqueue/engines": ("tests/taskqueue", "tests/contract"),
    "taskqueue/lanes.py": ("tests/lanes",),
    "taskqueue/retention": ("tests/taskqueue", "tests/partitions", "tests/cli"),
    "taskqueue/schedules": ("tests/schedules",),
    "taskqueue/statistics": (
        "tests/metrics",
        "tests/lanes",
        "tests/admin/test_overview.py",
        "tests/admin/test_failures_and_charts.py",
    ),
    "taskqueue/workflows": ("tests/workflows",),
    "display": ("tests/admin", "tests/cli", "tests/schedules"),
    "verify": ("tests/verify",),
    "selection": ("tests/selection", "tests/admin/test_search.py"),
    "analysis": ("tests/analysis", "tests/admin/test_functions.py"),
    "bridge.py": ("tests/backend", "tests/workflows"),
    "backend.py": ("tests/backend", "tests/taskqueue/test_wrong_calls.py"),
    "checks.py": ("tests/backend", "tests/guard"),
    "metrics.py": ("tests/metrics", "tests/docs/test_prometheus.py"),
    "monitoring.py": ("tests/metrics",),
    "contrib": ("tests/contrib",),
    "cli": ("tests/cli", "tests/schedules"),
    "admin": ("tests/admin",),
    "testing": ("tests/testing",),
    "worker/shared": ("tests/worker",),
    "worker/child": ("tests/worker",),
    "worker/supervisor": ("tests/worker",),
}
FLIPPED = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SILENT = ("logger.", "logging.", "log_once(", "log_exception(", "warnings.")


@dataclass(frozen=True)
class Change:
    """In one function of a file, from one text to another, at this place of the source."""

    file: str
    function: str
    old: str
    new: str
    begin: int
    end: int

    @property
    def key(self) -> str:
        return f"{self.file} | {self.function} | {self.old} -> {self.new}"

    def apply(self, root: Path) -> None:
        source = (ROOT / PACKAGE / self.file).read_bytes()
        (root / PACKAGE / self.file).write_bytes(source[: self.begin] + self.new.encode() + source[self.end :])

    def undo(self, root: Path) -> None:
        (root / PACKAGE / self.file).write_bytes((ROOT / PACKAGE / self.file).read_bytes())


def changed(node: ast.AST) -> ast.AST | None:
    """Return what stands in the node's place, or None if no rule is for it."""
    new = deepcopy(node)
    match new:
        case ast.Compare(ops=[operator]) if type(operator) in FLIPPED:
            new.ops = [FLIPPED[type(operator)]()]
        case ast.UnaryOp(op=ast.Not()):
            return new.operand
        case ast.BoolOp(op=operator):
            new.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            new.value = number + 1
        case ast.Expr(value=ast.Call()) if not ast.unparse(new).startswith(SILENT):
            return ast.Pass()
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in {
            "None",
            "[]",
            "{}",
            "''",
            "0",
            "False",
        }:
            new.value = ast.Constant(None)
        case _:
            return None
    return new


def changes_of(file: Path) -> Iterator[Change]:
    source = file.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            new = changed(node)
            if new is None or isinstance(node, ast.FunctionDef):
                continue
            begin, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(new)
            text = f"({text})" if isinstance(new, ast.Compare | ast.BoolOp) else text
            old = " ".join(source[begin:end].decode().split())
            yield Change(str(file.relative_to(ROOT / PACKAGE)), function.name, old, text, begin, end)


def sites(room: str) -> list[Change]:
    place = ROOT / PACKAGE / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return [change for file in files for change in dict.fromkeys(changes_of(file))]


def survives(change: Change, room: str, root: Path) -> bool:
    """Run the tests of the room, the quick ones first."""
    change.apply(root)
    try:
        runs = ((tier, database) for database in ("not postgresql", "postgresql") for tier in ("not long", "long"))
        return all(is_green(room, root, *run) for run in runs)
    finally:
        change.undo(root)


def is_green(room: str, root: Path, tier: str, database: str) -> bool:
    """A run that does not end, or cannot begin, has noticed the change. A room may have no tests of the tier."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", database]
    try:
        done = subprocess.run(
            [*command, "-m", tier, *ROOMS[room]],
            cwd=root, env=environment(), capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in (0, 5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="room", help=", ".join(ROOMS))
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.nice(10)
    chance = random.Random(options.seed)
    rooms = options.rooms or list(ROOMS)
    known = {room: sites(room) for room in rooms}
    picked = [(room, chance.choice(known[room])) for room in chance.choices(rooms, k=options.sample)]
    argued = ARGUED.read_text(encoding="utf-8") if ARGUED.exists() else ""
    survivors = 0
    with copy_of_the_package() as root:
        for room, change in picked:
            is_argued = change.key in argued
            survived = not is_argued and survives(change, room, root)
            survivors += survived
            sys.stdout.write(f"{'argued  ' if is_argued else 'SURVIVED' if survived else 'killed  '} {change.key}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{survivors} of {len(picked)} survive\n")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
