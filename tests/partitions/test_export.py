"""Export: what retention forgets stands in a file first, complete, or is not forgotten."""

from __future__ import annotations

import gzip
import json
import logging

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.partitions import export
from tests.partitions.scene import archive_all, done, failed, today

DAY = 86_400


def read(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def moved(using, travel, count, **options):
    made = done(count, **options)
    travel(60)
    archive_all(using)
    return made


def test_a_period_is_written_with_all_that_tells_of_its_tasks(parted, travel, configure, tmp_path, monkeypatch):
    configure(EXPORT_TO=str(tmp_path))
    monkeypatch.setattr(export, "PAGE", 2)
    made, name = moved(parted, travel, 5), today(parted).name
    travel(20 * DAY)
    list(taskqueue.prune())
    assert Task.objects.count() == 0
    [path] = tmp_path.iterdir()
    assert path.name == f"{parted}-{name}.jsonl.gz"
    lines = read(path)
    assert [line["task"]["id"] for line in lines] == [str(task.pk) for task in made]
    assert lines[0]["result"]["result"] == {"n": 1}
    assert [event["kind"] for event in lines[0]["events"]] == ["task.running", "task.completed"]


@pytest.mark.fault("F359")
def test_nothing_is_dropped_where_it_cannot_be_written(parted, travel, configure, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    configure(EXPORT_TO=str(tmp_path / "file"))
    moved(parted, travel, 2)
    failed()
    travel(200 * DAY)
    with caplog.at_level(logging.WARNING):
        list(taskqueue.prune())
    assert Task.objects.count() == 3
    assert "not dropped yet" in caplog.text
    assert "cannot be exported" in caplog.text


@pytest.mark.fault("F359")
def test_an_export_that_was_interrupted_leaves_no_file_under_its_name(parted, travel, configure, tmp_path, monkeypatch):
    configure(EXPORT_TO=str(tmp_path))
    monkeypatch.setattr(export, "PAGE", 1)
    moved(parted, travel, 3)
    travel(20 * DAY)
    pages = taskqueue.prune_pages()
    next(pages)
    pages.close()
    assert not list(tmp_path.glob("*.gz"))
    assert Task.objects.count() == 3
    list(taskqueue.prune())
    [path] = tmp_path.glob("*.gz")
    assert len(read(path)) == 3


def test_it_can_be_parquet(parted, travel, configure, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    configure(EXPORT_TO=str(tmp_path), EXPORT_AS="parquet")
    made = moved(parted, travel, 3)
    travel(20 * DAY)
    list(taskqueue.prune())
    [path] = tmp_path.iterdir()
    rows = parquet.read_table(path).to_pylist()
    assert [row["id"] for row in rows] == [str(task.pk) for task in made]
    assert json.loads(rows[0]["record"])["task"]["status"] == rows[0]["status"] == "SUCCESS"
