"""A finding of a checker."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    task: UUID
    text: str
