"""The tests see the bugs they are there for: `python -m tests.mutants` plants them all, and CI plants a sample."""

from __future__ import annotations

from tests.mutants.catalogue import MUTANTS
from tests.mutants.harness import ROOT


def test_every_bug_of_the_catalogue_can_still_be_planted():
    for mutant in MUTANTS:
        assert all(edit.planted(ROOT) for edit in mutant.edits)
