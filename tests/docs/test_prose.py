"""The checker of sentences finds what it is for, and its list of exceptions only shrinks."""

from __future__ import annotations

import pytest

from tests.docs.prose import ROOT, allowed, in_code, in_comments, in_page, report

MOST_EXCEPTIONS = 192
LONG = "A task " + "that is long " * 12 + "ends."


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[str, str]]]:
    return report(ROOT)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("What is hidden is not found, by nobody.", ["by nobody", "headless"]),
        ("Whoever asks waits.\n\nOf the two the first counts.", ["headless", "headless"]),
        ("It waits only where there is\nwork.", ["where for if"]),
        (LONG, ["over 35 words"]),
        ("- It waits.\n- Where it waits, it waits.", ["headless"]),
        ("What can go wrong\n-----------------\n\nNothing. Who knows?", []),
        (".. code-block:: text\n\n   What is code is code.\n\nIt waits.", []),
        ("#. ``What is code.`` It :doc:`waits <there>`.", []),
        ("# What is new\n\n```text\nWhat is code.\n```\n", []),
    ],
)
def test_it_finds_these_in_pages(text: str, patterns: list[str]):
    assert [name for name, _ in in_page(text)] == patterns


@pytest.mark.parametrize(
    ("source", "patterns"),
    [
        ('"""What a module holds."""', ["headless"]),
        ('def f():\n    """Return it. None where it is gone."""', ["where for if", "headless"]),
        ('limit = 3\n"""Of a lane."""', ["headless"]),
        ('text = "What is new"', []),
        ('text = "Nothing, except where it is new."', ["where for if"]),
        ("limit = 3  # read by nobody", ["by nobody"]),
    ],
)
def test_it_finds_these_in_code(source: str, patterns: list[str]):
    assert [name for name, _ in in_code(source)] == patterns


def test_it_reads_the_comments_of_sql_and_not_its_clauses():
    assert [name for name, _ in in_comments("-- rows that wait, only where due\nSELECT 1 WHERE none")] == [
        "where for if"
    ]


def test_files_outside_the_list_of_exceptions_are_clean(found):
    assert not {name: each for name, each in found.items() if name not in allowed()}


def test_a_file_that_is_clean_leaves_the_list_and_none_is_added(found):
    assert not allowed() - found.keys(), "clean or gone: remove them from tests/docs/prose_allowed.txt"
    assert len(allowed()) <= MOST_EXCEPTIONS, "lower MOST_EXCEPTIONS with the list, and never raise it"
