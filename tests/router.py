from __future__ import annotations

from typing import Any


class CurrentDatabase:
    """Every model lives in the database that the current test is about."""

    current = "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self.current

    db_for_write = db_for_read

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True
