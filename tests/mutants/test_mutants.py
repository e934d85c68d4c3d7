"""The tests see the bugs they are there for: `python -m tests.mutants` plants them all, and CI plants a sample."""

from tests.mutants.catalogue import MUTANTS
from tests.mutants.harness import ROOT
from tests.mutants.mutant import PACKAGE
from tests.mutants.sweep import ROOMS


def test_every_bug_of_the_catalogue_can_still_be_planted():
    for mutant in MUTANTS:
        assert all(edit.planted(ROOT) for edit in mutant.edits)


def test_the_rooms_of_a_sweep_and_their_tests_exist():
    places = [ROOT / PACKAGE / room for room in ROOMS] + [ROOT / test for tests in ROOMS.values() for test in tests]
    assert [place for place in places if not place.exists()] == []
