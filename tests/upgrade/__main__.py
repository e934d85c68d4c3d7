"""Record the release from which the tier of upgrades starts: `python -m tests.upgrade record [commit]`.

The tree of that commit is kept beside this file, so that the tier needs no history.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
from pathlib import Path

from tests.legs import say

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = Path(__file__).with_name("base.tar.xz")
COMMIT = Path(__file__).with_name("base.txt")
TREE = ("django_tasks_retry", "example_project", "manage.py", ":!django_tasks_retry/locale")


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def record(commit: str) -> None:
    ARCHIVE.write_bytes(lzma.compress(git("archive", commit, *TREE), preset=9 | lzma.PRESET_EXTREME))
    COMMIT.write_bytes(git("log", "-1", "--format=%H %cs %s", commit))
    say(f"{COMMIT.read_text(encoding='utf-8').strip()} in {ARCHIVE.stat().st_size:,} bytes")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record"]:
            record("HEAD")
        case ["record", commit]:
            record(commit)
        case _:
            sys.exit(__doc__)
