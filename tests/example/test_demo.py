"""The README's first command ends well, on both databases, and touches nothing it was not pointed at."""

from __future__ import annotations

import re

from tests.example.programs import manage

ENDS = {
    "succeeds atomically, and enqueues a receipt": ("2 SUCCESS", "1/5"),
    "fails twice, then succeeds": ("SUCCESS", "3/4"),
    "fails permanently after three retries": ("FAILED", "4/4"),
    "aborts: a retry could not help": ("FAILED", "1/4"),
    "times out after two seconds": ("FAILED", "1/1"),
    "snoozes twice, spending no attempt": ("SUCCESS", "3/5, 2 refunded"),
    "imports 2,000 rows and reports progress": ("SUCCESS", "1/3"),
    "is cancelled while it runs": ("CANCELLED", "1/5"),
    "runs beside ninety-nine other coroutines": ("100 SUCCESS", "1/5 each"),
}


def final_table(output: str) -> dict[str, tuple[str, str]]:
    """What the task does → how it ended, after which attempts; of the lines that say it was right."""
    rows = [re.split(r" {2,}", line) for line in output.splitlines() if line.startswith("✔")]
    return {row[1]: (row[3], row[4]) for row in rows}


def test_the_demo_ends_with_a_table_of_what_happened(database_url):
    shown = manage("demo", "--use-database-url", DATABASE_URL=database_url)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "10 of 10 ended as they should." in shown.stdout
    table = final_table(shown.stdout)
    series = table.pop("repeats, until it is cancelled")
    assert re.fullmatch(r"\d+ SUCCESS, 1 CANCELLED", series[0])
    assert table == ENDS
    assert timeline(shown.stdout, "fails permanently after three retries") == [
        "enqueued", *["running", "failed", "requeued"] * 3, "running", "failed",
    ]  # fmt: skip


def timeline(output: str, title: str) -> list[str]:
    story = output.split(f"{title} · ")[1].partition("\n\n")[0]
    return [line.split()[2] for line in story.splitlines()[1:]]


def test_the_demo_does_not_write_to_a_database_it_was_not_pointed_at(tmp_path):
    file = tmp_path / "real.sqlite3"
    refused = manage("demo", DATABASE_URL=f"sqlite:///{file}")
    assert refused.returncode == 1
    assert str(file) in refused.stderr
    assert "--use-database-url" in refused.stderr
    assert not file.exists()


def test_the_examples_own_tests_pass(database_url):
    done = manage("test", "example_project", DATABASE_URL=database_url)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_wants_a_secret_in_production(tmp_path):
    refused = manage("check", DEBUG="0", DATABASE_URL=f"sqlite:///{tmp_path / 'x.sqlite3'}")
    assert refused.returncode != 0
    assert "SECRET_KEY" in refused.stderr


def test_the_example_names_the_extra_that_postgresql_needs(tmp_path):
    """As after the first command of the README, which installs no driver."""
    (tmp_path / "sitecustomize.py").write_text('import sys; sys.modules["psycopg"] = None', encoding="utf-8")
    refused = manage("check", DATABASE_URL="postgres://app@localhost/app", PYTHONPATH=str(tmp_path))
    assert refused.returncode != 0
    assert "pip install -e '.[example,postgres]'" in refused.stderr
