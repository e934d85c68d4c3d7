"""The published table of neighbours shows what was seen."""

from __future__ import annotations

import json

from tests.neighbours.__main__ import PAGE, ROWS, counted


def test_the_published_table_counts_right():
    told = json.loads(PAGE.read_text(encoding="utf-8"))
    columns = [[cells[n] for cells in told["rows"].values()] for n in range(len(told["titles"]))]
    assert list(told["rows"]) == list(ROWS.values())
    assert told["passed"] == [counted(column) for column in columns]
