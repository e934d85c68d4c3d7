"""Names for workers: unique per start, never reused. Host and pid are only labels in them."""

from __future__ import annotations

import os
import re
import secrets
import socket


def new_worker_id(name: str = "") -> str:
    label = re.sub(r"[^A-Za-z0-9_.-]", "-", name or socket.gethostname())[:40]
    return f"{label}-{os.getpid()}-{secrets.token_hex(6)}"


def child_id(supervisor: str, number: int) -> str:
    """A supervisor may speak for the workers whose names begin with its own."""
    return f"{supervisor}/{number}"
