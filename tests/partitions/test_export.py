"""Export: what retention forgets stands in a file first, complete, or is not forgotten."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from django.db import connections

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.retention import export
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.partitions.scene import archive_all, done, failed, partitions, today
from tests.worker.harness import environment, place_of

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
    [path] = tmp_path.glob("*.gz")
    assert path.name == f"{export.label_of(parted)}-{name}.jsonl.gz"
    lines = read(path)
    said = json.loads(path.with_name(f"{path.name}.json").read_text())
    assert (said["rows"], said["period"], said["is_over"], said["backends"]) == (5, name, True, ["default"])
    assert said["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [line["task"]["id"] for line in lines] == [str(task.pk) for task in made]
    assert lines[0]["result"]["result"] == {"n": 1}
    assert [event["kind"] for event in lines[0]["events"]] == ["task.running", "task.completed"]


@pytest.mark.fault("dropped_history_not_exported")
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


@pytest.mark.fault("dropped_history_not_exported")
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


KILLED = """
import os, signal, django
django.setup()
from django_tasks_retry import taskqueue
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.retention import export
export.PAGE = 1
pages = taskqueue.prune_pages()
next(pages)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.fault("dropped_history_not_exported")
def test_a_killed_export_drops_nothing_and_the_next_one_leaves_nothing_of_it(parted, travel, configure, tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    configure(EXPORT_TO=str(folder))
    moved(parted, travel, 3)
    first = today(parted)
    travel(20 * DAY)
    variables = environment(parted, tmp_path, place_of(parted), {"EXPORT_TO": str(folder)})
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False, env=variables, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    [part] = folder.iterdir()
    assert part.suffix == ".part"
    assert (Task.objects.count(), first in partitions(parted)) == (3, True)
    list(taskqueue.prune())
    assert (Task.objects.count(), first in partitions(parted)) == (0, False)
    [path] = folder.glob("*.gz")
    assert len(read(path)) == 3
    assert not part.exists()


@pytest.mark.fault("dropped_history_not_exported")
def test_of_two_that_export_a_period_one_gives_up_and_nothing_is_lost(
    parted, travel, configure, tmp_path, monkeypatch, caplog
):
    configure(EXPORT_TO=str(tmp_path))
    monkeypatch.setattr(export, "PAGE", 1)
    moved(parted, travel, 3)
    travel(20 * DAY)
    slow, fast = taskqueue.prune_pages(), taskqueue.prune_pages()
    next(slow)
    next(fast)
    with caplog.at_level(logging.WARNING):
        next(slow), next(slow), next(slow)
    assert "not dropped yet" in caplog.text
    assert Task.objects.count() == 3
    list(fast)
    [path] = tmp_path.glob("*.gz")
    assert (Task.objects.count(), len(read(path))) == (0, 3)


@pytest.mark.fault("dropped_history_not_exported")
def test_nothing_is_dropped_while_the_folder_is_gone(parted, travel, configure, tmp_path, caplog):
    folder = tmp_path / "share" / "exports"
    configure(EXPORT_TO=str(folder))
    moved(parted, travel, 2)
    failed()
    travel(200 * DAY)
    with caplog.at_level(logging.WARNING):
        list(taskqueue.prune())
    assert Task.objects.count() == 3
    assert caplog.text.count(f"Create or mount: '{folder}'") == 2, "of the period, and of rows"
    assert not folder.parent.exists()
    refused = tasks_command("partitions", "export", today(parted).name, folder)
    assert "Create or mount" in refused.err
    folder.mkdir(parents=True)
    list(taskqueue.prune())
    assert Task.objects.count() == 0


@pytest.fixture
def early(parted, travel, configure, tmp_path):
    """A period of five tasks, of which a file holds the first two."""
    configure(EXPORT_TO=str(tmp_path))
    moved(parted, travel, 2)
    answer = tasks_command("partitions", "export", today(parted).name, tmp_path)
    moved(parted, travel, 3)
    return answer


@pytest.mark.fault("dropped_history_not_exported")
def test_a_file_written_before_the_end_of_its_period_does_not_count(early, travel, tmp_path):
    assert "holds the period so far" in early.err
    travel(20 * DAY)
    list(taskqueue.prune())
    assert Task.objects.count() == 0
    assert sorted(len(read(path)) for path in tmp_path.glob("*.gz")) == [2, 5]


def end_badly(path):
    path.with_name(f"{path.name}.json").unlink()


def spoil(path):
    path.write_bytes(path.read_bytes()[:-5])


def belong_to_another(path):
    beside = path.with_name(f"{path.name}.json")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "database": "default-0badcafe"}))


@pytest.mark.fault("dropped_history_not_exported")
@pytest.mark.parametrize("harm", [None, end_badly, spoil, belong_to_another])
def test_only_a_whole_file_of_this_database_counts_and_none_is_replaced(parted, travel, configure, tmp_path, harm):
    configure(EXPORT_TO=str(tmp_path))
    moved(parted, travel, 3)
    travel(2 * DAY)
    assert "holds the period." in tasks_command("partitions", "export", today(parted).name, tmp_path).err
    [path] = tmp_path.glob("*.gz")
    if harm:
        harm(path)
    before = path.read_bytes()
    travel(20 * DAY)
    list(taskqueue.prune())
    assert Task.objects.count() == 0
    assert path.read_bytes() == before
    others = [each for each in tmp_path.glob("*.gz") if each != path]
    assert [len(read(each)) for each in others] == ([3] if harm else [])


@pytest.mark.fault("dropped_history_not_exported")
def test_tasks_archived_while_their_period_is_written_are_not_dropped(parted, travel, configure, tmp_path, caplog):
    configure(EXPORT_TO=str(tmp_path))
    Task.objects.enqueue_many([tasks.noop] * 3)
    first, *others = taskqueue.claim("worker", limit=3)
    for lease in others:
        taskqueue.complete_task(lease)
    travel(30)
    archive_all(parted)
    taskqueue.complete_task(first)
    travel(20 * DAY)
    pages = taskqueue.prune_pages()
    next(pages)
    archive_all(parted)
    with caplog.at_level(logging.WARNING):
        next(pages)
    assert "2 of its 3 tasks are exported" in caplog.text
    assert Task.objects.count() == 3
    pages.close()
    list(taskqueue.prune())
    assert Task.objects.count() == 0
    assert sorted(len(read(path)) for path in tmp_path.glob("*.gz")) == [2, 3]


@contextmanager
def full_disk(size: int):
    """Let files grow to so many bytes only. Pytest may write to a file too, so the limit ends with the block."""
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.fault("dropped_history_not_exported")
def test_on_a_full_disk_nothing_is_forgotten_and_no_half_line_stays(parted, travel, configure, tmp_path, caplog):
    configure(EXPORT_TO=str(tmp_path))
    moved(parted, travel, 2)
    failed()
    travel(200 * DAY)
    with caplog.at_level(logging.WARNING), full_disk(100):
        list(taskqueue.prune())
    assert Task.objects.count() == 3
    assert "not dropped yet" in caplog.text
    assert "cannot be exported" in caplog.text
    assert not list(tmp_path.glob("*.gz")) + list(tmp_path.glob(".*.part"))
    [rows] = tmp_path.glob("*-rows-*.jsonl")
    assert rows.read_bytes() == b""


def test_a_line_after_half_a_line_can_be_read(parted, travel, configure, tmp_path):
    configure(EXPORT_TO=str(tmp_path))
    failed()
    travel(200 * DAY)
    day = clock.now(parted)
    (tmp_path / f"{export.label_of(parted)}-rows-{day:%Y%m%d}.jsonl").write_text('{"task": ')
    list(taskqueue.prune())
    [rows] = tmp_path.glob("*-rows-*.jsonl")
    assert json.loads(rows.read_text().splitlines()[1])["task"]["status"] == "FAILED"


def test_two_services_of_one_server_write_different_files(database):
    label = export.label_of(database)
    with connections[database].cursor() as cursor:
        cursor.execute("CREATE SCHEMA another_service")
        cursor.execute("SET LOCAL search_path = another_service")
    assert export.label_of(database) != label


@pytest.mark.parametrize("place", ["folder", "storage"])
def test_a_task_of_a_dropped_period_is_found_by_its_page(
    parted, travel, configure, settings, tmp_path, monkeypatch, place
):
    settings.STORAGES = {
        **settings.STORAGES,
        "archive": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path}},
    }
    configure(EXPORT_TO=str(tmp_path) if place == "folder" else "archive")
    monkeypatch.setattr(export, "PAGE", 2)
    made = moved(parted, travel, 5)
    travel(20 * DAY)
    list(taskqueue.prune())
    assert Task.objects.count() == 0
    for task in made:
        found = json.loads(tasks_command("archive", "read", str(task.pk)).out)
        assert (found["task"]["id"], found["result"]["result"]) == (str(task.pk), {"n": 1})
    assert tasks_command("archive", "read", str(new_id())).code == 4
