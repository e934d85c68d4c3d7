"""`manage.py` of the example project, run as a user would, on a database of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90


def environment(**changes: str) -> dict[str, str]:
    ours = {"DJANGO_SETTINGS_MODULE", "DATABASE_URL", "PYTEST_VERSION", "PYTEST_CURRENT_TEST"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PYTHONIOENCODING": "utf-8", **changes}


def manage(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
