"""Is the wheel whole? `python -m tests.package dist/*.whl` compares it with the package's files in git."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "django_tasks_retry"


def tracked() -> set[str]:
    listed = subprocess.run(["git", "ls-files", PACKAGE], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def packed(wheel: Path) -> set[str]:
    return {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name and not name.endswith("/")}


def main(wheel: Path) -> int:
    missing, strange = tracked() - packed(wheel), packed(wheel) - tracked()
    for name in sorted(missing):
        sys.stderr.write(f"missing in the wheel: {name}\n")
    for name in sorted(strange):
        sys.stderr.write(f"not in git: {name}\n")
    return 1 if missing or strange else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
