"""The faults of `python -m tests.shards`, for seconds. Times are printed there; here they are not judged."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.long
def test_nothing_is_lost_or_doubled_while_shards_freeze_die_leave_and_come():
    command = [sys.executable, "-m", "tests.shards", "--seconds", "4", "--untimed"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
