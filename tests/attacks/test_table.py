"""Every attack lives on in tests that exist."""

from __future__ import annotations

import ast

import pytest

from tests.attacks.__main__ import TESTS
from tests.attacks.attacks import ATTACKS


def names_in(path: str) -> set[str]:
    """Return the tests as pytest is given them: those of a class with its name."""
    found = set()
    for node in ast.parse((TESTS / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_is_made_by_tests_that_exist(attack):
    for test in ATTACKS[attack]:
        path, _, name = test.partition("::")
        assert (not name and names_in(path)) or name in names_in(path), test


def test_each_test_of_this_folder_is_an_attack():
    ours = "attacks/test_attacks.py"
    made = {test.partition("::")[2] for tests in ATTACKS.values() for test in tests if test.startswith(ours)}
    assert {name for name in names_in(ours) if name.startswith("test_")} == made
