"""`manage.py tasks partitions`: list, create, undo and export."""

from __future__ import annotations

from django_tasks_retry.models import OperatorEvent
from django_tasks_retry.taskqueue.retention.export import label_of
from django_tasks_retry.taskqueue.retention.layout import read_layout
from tests.cli.conftest import tasks_command
from tests.partitions.scene import archive_all, done, partitions, today


def test_history_is_partitioned_listed_and_brought_back(whole):
    assert "not partitioned" in tasks_command("partitions").err
    answer = tasks_command("partitions", "create", "--yes")
    assert answer.code == 0
    assert "partitioned by day" in answer.err
    assert read_layout(whole).backends == ("default",)
    listed = tasks_command("partitions", "--json").records
    assert [each["name"] for each in listed] == [partition.name for partition in partitions(whole)]
    assert "DROPPED FROM" in tasks_command("partitions").out
    assert tasks_command("partitions", "undo", "--yes").code == 0
    assert read_layout(whole) is None
    assert [event.kind for event in OperatorEvent.objects.all()] == ["history.partitioned", "history.unpartitioned"]


def test_a_period_is_exported_by_its_name(parted, travel, tmp_path):
    done(3)
    travel(60)
    archive_all(parted)
    answer = tasks_command("partitions", "export", today(parted).name, tmp_path)
    assert answer.code == 0
    assert "3 tasks exported" in answer.err
    [path] = tmp_path.glob("*.gz")
    assert path.name == f"{label_of(parted)}-{today(parted).name}.jsonl.gz"
    assert tasks_command("partitions", "export", "p19990101", tmp_path).code != 0


def test_nothing_is_partitioned_or_undone_without_a_yes(whole):
    refused = tasks_command("partitions", "create")
    assert (refused.code, refused.out) == (2, "")
    assert "pass --yes" in refused.err
    assert read_layout(whole) is None
    assert tasks_command("partitions", "create", "--yes").code == 0
    assert tasks_command("partitions", "create").code == 0, "the partitions of the next days need no yes"
    assert tasks_command("partitions", "undo").code == 2
    assert read_layout(whole) is not None
    assert tasks_command("partitions", "undo", "--yes").code == 0
