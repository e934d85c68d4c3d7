"""The published tables of neighbours show what was seen."""

from __future__ import annotations

import json
import re
from collections import Counter

from tests.docs.pages import DOCS, ROOT
from tests.neighbours.__main__ import PAGE, ROWS, counted
from tests.neighbours.test_behaviours import BEHAVIOURS, WITHOUT

BEHAVIOURS_PAGE = (DOCS / "behaviours.rst").read_text(encoding="utf-8")


def test_the_published_table_counts_right():
    told = json.loads(PAGE.read_text(encoding="utf-8"))
    columns = [[cells[n] for cells in told["rows"].values()] for n in range(len(told["titles"]))]
    assert list(told["rows"]) == list(ROWS.values())
    assert told["passed"] == [counted(column) for column in columns]


def cells(title: str) -> list[list[str]]:
    """The rows of the first table under this title, without its header."""
    table = BEHAVIOURS_PAGE.partition(f"\n{title}\n")[2].partition(".. list-table::")[2].partition("\n\n\n")[0]
    rows = re.split(r"^   \* - ", re.split(r"\n\n(?=\S)", table)[0], flags=re.MULTILINE)[2:]
    return [[" ".join(cell.split()) for cell in re.split(r"^     -", row, flags=re.MULTILINE)] for row in rows]


def test_the_page_of_behaviours_counts_right():
    *rows, total = [[name.strip("*"), *(int(n.strip("*") or 0) for n in row)] for name, *row in cells("Counted")]
    assert total[1:] == [sum(column) for column in list(zip(*rows, strict=True))[1:]]
    assert all(checks == sum(parts) for _, checks, *parts in rows)
    without = Counter({name: row[2] for name, *row in rows if row[2]})
    assert without == Counter(wish.partition(":")[0] for wish in WITHOUT)
    assert f"holds {len(BEHAVIOURS)} behaviours" in BEHAVIOURS_PAGE


def test_the_page_of_behaviours_lists_what_has_no_counterpart():
    assert [wish for wish, _why in cells("Without a counterpart")] == list(WITHOUT)


def test_tests_that_the_page_of_behaviours_names_exist():
    named = re.findall(r"``(tests/[\w/]+\.py)::(test_\w+)``", BEHAVIOURS_PAGE)
    assert len(named) >= 9
    assert not [(path, name) for path, name in named if f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")]
