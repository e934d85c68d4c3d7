"""The checker of sentences finds what it is for, and the numbers of its exceptions only fall."""

from __future__ import annotations

import pytest

from tests.docs.prose import ROOT, allowed, in_code, in_page, in_sql, report

MOST_SENTENCES = 147
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
    text = "-- Due: what waits, only where due.\n-- What others locked is skipped.\nSELECT 1 WHERE none"
    assert [name for name, _ in in_sql(text)] == ["where for if", "headless"]


def test_no_file_gets_worse(found):
    assert not {name: each for name, each in found.items() if len(each) > allowed().get(name, 0)}


def test_a_file_that_gets_better_has_its_lower_number_written_down(found):
    better = {name: len(found.get(name, ())) for name, count in allowed().items() if len(found.get(name, ())) < count}
    assert not better, "write these numbers into tests/docs/prose_allowed.txt; remove a file that has none"
    assert sum(allowed().values()) <= MOST_SENTENCES, "lower MOST_SENTENCES with the list, and never raise it"
