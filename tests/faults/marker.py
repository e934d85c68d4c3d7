"""`@pytest.mark.fault("F01")` puts a fault's number into a test's name, wherever the test stands.

`pytest -k F01` runs what shows that fault; `pytest -m fault` runs what shows any. The faults: tests/faults/coverage.py.
"""

from __future__ import annotations

import re

import pytest

NUMBER = re.compile(r"(?<![A-Za-z0-9])[Ff](\d{2,3})(?!\d)")


def faults_of(name: str) -> set[str]:
    """The faults that a test's name tells of."""
    return {f"F{digits}" for digits in NUMBER.findall(name.replace("_", " "))}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(*numbers): shows what becomes of these faults")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = sorted(number for mark in metafunc.definition.iter_markers("fault") for number in mark.args)
    if numbers:
        metafunc.fixturenames.append("faults_shown")
        metafunc.parametrize("faults_shown", [numbers], ids=["_".join(numbers)])


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    if faults_of(item.name) and not item.get_closest_marker("fault"):
        item.add_marker("fault")
