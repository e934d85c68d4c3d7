"""A planted bug: how to plant it, and the tests that must go red."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.taskqueue.variants import family

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
    """In `file` of the package, `old` becomes `new`. `old` stands there exactly once.

    The variants of a statement that hold it are edited as well.
    """

    file: str
    old: str
    new: str

    def planted(self, root: Path) -> dict[Path, str]:
        """The texts of the files with the bug in them."""
        file = root / PACKAGE / self.file
        text = file.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise CannotPlant(f"{self.file} holds {self.old!r} {text.count(self.old)} times, not once")
        alike = [file.with_stem(name) for name in family(file.stem)] if file.suffix == ".sql" else [file]
        return {path: path.read_text(encoding="utf-8").replace(self.old, self.new) for path in alike}

    def apply(self, root: Path) -> None:
        for path, text in self.planted(root).items():
            path.write_text(text, encoding="utf-8")


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
