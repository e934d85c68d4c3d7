"""How much memory this process takes."""

from __future__ import annotations

import resource
from pathlib import Path

PAGE = resource.getpagesize()
STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """What is resident now; where the system does not tell, the most there ever was."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE
    except (OSError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
