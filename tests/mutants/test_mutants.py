"""The tests see the bugs they are there for. Two are planted here; `python -m tests.mutants` plants them all."""

from __future__ import annotations

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.harness import ROOT, run_planted
from tests.mutants.leases import FENCES


def test_every_bug_of_the_catalogue_can_still_be_planted():
    for mutant in MUTANTS:
        assert all(edit.planted(ROOT) for edit in mutant.edits)


@pytest.mark.parametrize("mutant", FENCES[:1], ids=lambda mutant: mutant.name)
def test_the_tests_see_a_planted_bug_without_the_help_of_the_guard(mutant):
    verdict = run_planted(mutant, guards=[False])
    assert verdict.seen, verdict.runs[0].tail
