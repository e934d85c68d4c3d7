"""`@pytest.mark.fault("worker_killed")` puts a fault's name into a test's id, wherever the test stands.

`pytest -k fault:worker_killed` runs the tests of that fault; `pytest -m fault` runs those of every fault.
tests/faults/coverage.py lists the faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

NAMED = re.compile(r"\bfault:(\w+)")


def named(faults: Iterable[str]) -> str:
    """Return these faults as ids carry them. A name has no hyphen, because pytest joins parameters by hyphens."""
    return "+".join(f"fault:{fault}" for fault in sorted(faults))


def faults_of(test: str) -> set[str]:
    """Return the faults that the marker put into a test's id."""
    return set(NAMED.findall(test))


def showing(value: object, *faults: str, case: str = "") -> ParameterSet:
    """Return a parameter with which, and only with which, its test shows these faults."""
    return pytest.param(value, id="-".join(filter(None, [named(faults), case])), marks=pytest.mark.fault(*faults))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(*names): shows what becomes of these faults")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    faults = sorted(fault for mark in metafunc.definition.iter_markers("fault") for fault in mark.args)
    if faults:
        metafunc.fixturenames.append("faults_shown")
        metafunc.parametrize("faults_shown", [faults], ids=[named(faults)])
