"""An exported task is found in its files again, whatever the place and however it was pruned."""

from __future__ import annotations

import json

import pytest
from django.core.files.storage import FileSystemStorage

from django_tasks_retry import Abort, taskqueue
from django_tasks_retry.conf import InvalidOptions, options
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.retention.archive import Archive, find_exported
from tests import tasks
from tests.cli.conftest import tasks_command

DAY = 86_400


class Broken(FileSystemStorage):
    """A bucket whose library raises errors of its own."""

    def save(self, *_: object, **__: object) -> str:
        raise ValueError("403 Forbidden")


@pytest.fixture(params=["folder", "storage"])
def place(request, tmp_path, settings, configure) -> str:
    settings.STORAGES = {
        **settings.STORAGES,
        "archive": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path}},
        "broken": {"BACKEND": f"{__name__}.Broken", "OPTIONS": {"location": tmp_path}},
    }
    configure(EXPORT_TO=str(tmp_path) if request.param == "folder" else "archive")
    return request.param


def pruned(travel, count: int, **given: object) -> list[Task]:
    made = Task.objects.enqueue_many([{"func": tasks.add, "args": [1, 2], **given}] * count)
    for lease in taskqueue.claim("worker", limit=count):
        taskqueue.fail_task(lease, Abort("password=hunter2"))
    travel(200 * DAY)
    list(taskqueue.prune(batch=2))
    return made


def read(task: Task, *arguments: str) -> dict:
    return json.loads(tasks_command("archive", "read", str(task.pk), *arguments).out)


def test_each_pruned_task_is_found_with_all_that_tells_of_it(database, place, travel):
    for task in pruned(travel, 5):
        found = read(task)
        assert (found["task"]["id"], found["result"]["status"]) == (str(task.pk), "FAILED")
        assert [event["kind"] for event in found["events"]] == ["task.running", "task.failed"]
        assert "hunter2" not in str(found)
    assert Task.objects.count() == 0


@pytest.fixture
def folder(tmp_path, configure):
    configure(EXPORT_TO=str(tmp_path))
    return tmp_path


def test_a_file_whose_index_is_short_is_read_whole(database, folder, travel):
    """A writer was killed between the two, or an earlier release wrote the file."""
    made = pruned(travel, 4)
    [index] = folder.glob("*.index")
    index.write_text("".join(index.read_text().splitlines(keepends=True)[:1]))
    assert [read(task)["task"]["id"] for task in made] == [str(task.pk) for task in made]
    index.unlink()
    assert read(made[-1])["task"]["id"] == str(made[-1].pk)


def test_a_line_that_only_names_a_task_is_not_that_task(database, folder, travel):
    pruned(travel, 1)
    retried = new_id()
    [rows] = folder.glob("*.jsonl")
    rows.write_text(rows.read_text().replace('"retry_of_id": null', f'"retry_of_id": "{retried}"'))
    assert str(retried) in rows.read_text()
    assert find_exported(retried, Archive(folder)) is None


def test_a_task_in_no_file_is_not_found_and_a_missing_folder_is_named(database, folder, travel):
    pruned(travel, 1)
    other = Task.objects.enqueue(tasks.noop)
    refused = tasks_command("archive", "read", str(other.pk))
    assert (refused.code, f"No file holds task {other.pk}" in refused.err) == (4, True)
    assert "Cannot read" in tasks_command("archive", "read", str(other.pk), "--from", str(folder / "x")).err
    assert "rows" in tasks_command("archive").out


def test_nothing_is_pruned_that_a_storage_refuses(database, place, configure, travel, caplog):
    configure(EXPORT_TO="broken")
    pruned(travel, 2)
    assert Task.objects.count() == 2
    assert "403 Forbidden" in caplog.text


def test_a_word_that_is_no_storage_is_refused(on, configure):
    configure(EXPORT_TO="nowhere")
    with pytest.raises(InvalidOptions, match="an alias of STORAGES"):
        options()
