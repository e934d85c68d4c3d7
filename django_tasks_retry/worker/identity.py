"""Names for workers: unique per start, never reused. Host and pid are only labels in them."""

from __future__ import annotations

import os
import platform
import re
import secrets
import socket
from functools import cache
from importlib.metadata import distributions

MOST_PACKAGES = 500


def new_worker_id(name: str = "") -> str:
    label = re.sub(r"[^A-Za-z0-9_.-]", "-", name or socket.gethostname())[:40]
    return f"{label}-{os.getpid()}-{secrets.token_hex(6)}"


def child_id(supervisor: str, number: int) -> str:
    """A supervisor may speak for the workers whose names begin with its own."""
    return f"{supervisor}/{number}"


@cache
def installed_versions() -> dict[str, str]:
    """What this process runs on: Python, and every installed package."""
    packages: dict[str, str] = {}
    for package in distributions():
        name = package.metadata["Name"] if package.metadata else None
        if name and len(packages) < MOST_PACKAGES:
            packages[str(name)[:60].lower()] = str(package.version)[:40]
    return {"python": platform.python_version(), **packages}
