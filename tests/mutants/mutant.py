"""A planted bug: how to plant it, and the tests that must go red."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = "django_tasks_retry"
BOTH = ("postgresql", "sqlite")
PG, SQLITE = ("postgresql",), ("sqlite",)
UNNAMED = ("",)
"""For tests whose names tell of no database, because they know one only, or none."""

MODEL = "tests/model/test_model.py::test_the_queue_behaves_like_the_model"
INTERLEAVED = (
    "tests/races/test_interleavings.py::test_overlapping_verbs_leave_what_they_would_leave_one_after_the_other"
)
ZOMBIES = "tests/model/test_zombies.py::"
PROMISES = "tests/model/test_promises.py::"
CLAIMS = "tests/races/test_claims.py::"
REPORTS = "tests/races/test_reports.py::"
OPERATORS = "tests/races/test_operators.py::"


@dataclass(frozen=True, slots=True)
class Edit:
    """In `file` of the package, `old` becomes `new`. `old` stands there exactly once."""

    file: str
    old: str
    new: str

    def planted(self, root: Path) -> str:
        """The text of the file with the bug in it."""
        text = (root / PACKAGE / self.file).read_text()
        if text.count(self.old) != 1:
            raise CannotPlant(f"{self.file} holds {self.old!r} {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)

    def apply(self, root: Path) -> None:
        (root / PACKAGE / self.file).write_text(self.planted(root))


class CannotPlant(Exception):
    """The code has moved on; the catalogue must follow."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`on` names the databases that the bug shows on; a test must go red on each.

    Where `guarded`, the database refuses what the bug does, so that it corrupts nothing; then the bug is planted twice,
    once with the guard in place and once without it, and the tests must see both.
    """

    name: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]
    guarded: bool = False
    on: tuple[str, ...] = BOTH

    @property
    def files(self) -> str:
        return ", ".join(dict.fromkeys(Path(edit.file).name for edit in self.edits))
