"""Every fault has its test, on every database that knows the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.coverage import DOES_NOT_APPLY, FAULTS, ON_POSTGRESQL_ALONE, ROOT, by_fault, collected

MODELLED = [*range(1, 18), *range(20, 26), *range(30, 53), *range(60, 67)]
"""The faults that the product was designed for. What was found beside them has numbers from F67 on."""


@pytest.fixture(scope="module")
def tests(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Of all tests; where only some of them run, another process collects the rest."""
    config = request.config
    chosen = config.option.keyword or config.option.markexpr or config.option.deselect
    if chosen or not {Path(path).resolve() for path in config.args} <= {ROOT, ROOT / "tests"}:
        return by_fault(collected())
    return by_fault(item.nodeid for item in request.session.items if item.get_closest_marker("fault"))


def test_the_list_of_faults_is_whole():
    assert {f"F{number:02}" for number in MODELLED} <= (FAULTS | DOES_NOT_APPLY).keys()
    assert ON_POSTGRESQL_ALONE.keys() < FAULTS.keys()


def test_every_fault_that_applies_is_shown_and_no_other(tests):
    assert sorted(tests) == sorted(FAULTS)


def test_a_fault_that_both_databases_know_is_shown_on_both(tests):
    both = FAULTS.keys() - ON_POSTGRESQL_ALONE
    for database in ("sqlite", "postgresql"):
        assert {fault for fault in both if not any(database in test for test in tests[fault])} == set()
