"""Every fault has its test, and every test that is named exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.coverage import DOES_NOT_APPLY, SHOWN

TESTS = Path(__file__).parents[1]
KNOWN = [*range(1, 18), *range(20, 26), *range(30, 53), *range(60, 67)]


def test_every_fault_is_shown_or_does_not_apply():
    named = sorted(int(fault[1:3]) for fault in SHOWN | DOES_NOT_APPLY)
    assert named == KNOWN


@pytest.mark.parametrize("fault", SHOWN)
def test_the_tests_of_a_fault_exist(fault):
    for name in SHOWN[fault]:
        file, _, test = name.partition("::")
        tree = ast.parse((TESTS / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
