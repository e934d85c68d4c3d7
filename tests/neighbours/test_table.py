"""What is published about the neighbours is what was seen."""

from __future__ import annotations

import json

from tests.neighbours.__main__ import PAGE, ROWS, counted, row


def test_the_published_table_counts_right_and_the_readme_tells_the_same():
    told = json.loads(PAGE.read_text())
    columns = [[cells[n] for cells in told["rows"].values()] for n in range(len(told["titles"]))]
    assert list(told["rows"]) == list(ROWS.values())
    assert told["passed"] == [counted(column) for column in columns]
    assert row(told["passed"][0], told["passed"][1:]) in (PAGE.parents[1] / "README.md").read_text()
