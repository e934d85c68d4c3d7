"""`manage.py tasks partition`, `partitions` and `export-partition`."""

from __future__ import annotations

from django_tasks_retry.models import OperatorEvent
from django_tasks_retry.taskqueue.partitions.layout import read_layout
from tests.cli.conftest import tasks_command
from tests.partitions.scene import archive_all, done, stretches, today


def test_history_is_partitioned_listed_and_brought_back(whole):
    assert "not partitioned" in tasks_command("partitions").err
    answer = tasks_command("partition", "--by", "hour")
    assert answer.code == 0
    assert "partitioned by hour" in answer.err
    assert read_layout(whole).backends == ("default",)
    listed = tasks_command("partitions", "--json").records
    assert [each["name"] for each in listed] == [stretch.name for stretch in stretches(whole)]
    assert "DROPPED FROM" in tasks_command("partitions").out
    assert tasks_command("partition", "--undo").code == 0
    assert read_layout(whole) is None
    assert [event.kind for event in OperatorEvent.objects.all()] == ["history.partitioned", "history.unpartitioned"]


def test_a_period_is_exported_by_its_name(parted, travel, tmp_path):
    done(3)
    travel(60)
    archive_all(parted)
    answer = tasks_command("export-partition", today(parted).name, tmp_path)
    assert answer.code == 0
    assert "3 tasks exported" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == [f"postgresql-{today(parted).name}.jsonl.gz"]
    assert tasks_command("export-partition", "p19990101", tmp_path).code != 0
