"""The tests see the bugs they are there for. Five are planted here; `python -m tests.mutants` plants them all."""

from __future__ import annotations

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.harness import ROOT, judge
from tests.mutants.leases import FENCES


def test_every_bug_of_the_catalogue_can_still_be_planted():
    for mutant in MUTANTS:
        assert all(edit.planted(ROOT) for edit in mutant.edits)


@pytest.mark.parametrize("mutant", FENCES, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught_by_its_test_and_refused_by_the_guard(mutant):
    verdict = judge(mutant)
    assert verdict.caught, "\n".join(run.tail for run in verdict.runs)
