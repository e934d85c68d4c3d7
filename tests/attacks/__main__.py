"""`python -m tests.attacks [NAME …]`: make the attacks, and tell of each whether it held. Fails if one did not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.attacks.attacks import ATTACKS

TESTS = Path(__file__).resolve().parents[1]


def made(name: str) -> bool:
    paths = [f"{TESTS}/{test}" for test in ATTACKS[name]]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "long or not long", "-n", os.environ.get("ATTACKERS", "2")]
    done = subprocess.run([*command, *paths], cwd=TESTS.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stdout.write(done.stdout)
    return done.returncode == 0


def main(names: list[str]) -> int:
    held = {}
    for name in names or ATTACKS:
        held[name] = made(name)
        sys.stdout.write(f"{'HELD' if held[name] else 'REPRODUCED':12}{name}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{sum(held.values())} of {len(held)} attacks held\n")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
