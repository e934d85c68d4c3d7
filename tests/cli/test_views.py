"""Output of the command line: data on stdout, talk on stderr, one meaning for each exit code."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.db import connections

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.cli.subcommand import subcommands
from django_tasks_retry.display.states import task_facts, timing
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from tests import tasks
from tests.admin import scene
from tests.admin.conftest import _shop, operator  # noqa: F401
from tests.cli.conftest import tasks_command

CONSOLE = "/admin/django_tasks_retry"


@pytest.fixture
def failed(database) -> Task:
    task = Task.objects.enqueue(tasks.noop, ["planted"], {"password": "hunter2"}, max_attempts=1)
    [lease] = taskqueue.claim("w-1-1-a/1")
    taskqueue.fail_task(lease, RuntimeError("login failed for password=hunter2 at bank"))
    return Task.objects.get(pk=task.pk)


class TestList:
    def test_it_shows_the_newest_that_match(self, cli):
        stored = Task.objects.enqueue_many([(tasks.noop,)] * 3)
        Task.objects.enqueue(tasks.noop, queue="emails")
        assert cli("list", "queue:default", "-n", 2, "--ids").out.split() == [str(stored[2].pk), str(stored[1].pk)]
        shown = cli("list", "queue:emails")
        assert (shown.code, shown.out.count("\n")) == (0, 2)
        assert "ready" in shown.out

    def test_as_json_each_line_is_a_task(self, cli, failed):
        record = cli("list", "status:failed", "--json").record
        assert (record["id"], record["status"], record["shown_as"]) == (str(failed.pk), "FAILED", "failed")
        assert record["error"]["exception"] == "builtins.RuntimeError"
        assert "hunter2" not in str(record)

    def test_more_tasks_take_no_more_queries(self, cli, database, django_assert_max_num_queries):
        Task.objects.enqueue_many([(tasks.noop,)] * 30)
        with django_assert_max_num_queries(15, connection=connections[database]):
            assert len(cli("list", "--json", "-n", 0).records) == 30

    def test_it_looks_as_far_back_as_it_takes(self, cli, monkeypatch):
        from django_tasks_retry.selection import matching

        monkeypatch.setattr(matching, "STRIDE", 3)
        first, *_others = Task.objects.enqueue_many([{"func": tasks.noop, "args": [n]} for n in range(10)])
        assert cli("list", "arg:0", "--ids").out.split() == [str(first.pk)]

    def test_nothing_found_is_an_exit_code_and_a_word_on_stderr(self, cli):
        assert cli("list", "queue:nowhere") == (4, "", "No task matches.\n")

    def test_a_slip_is_answered_with_what_to_type(self, cli):
        answer = cli("list", "stauts:failed")
        assert (answer.code, answer.out) == (2, "")
        assert "Did you mean status?" in answer.err


class TestShow:
    def test_the_first_digits_are_enough(self, cli, failed):
        shown = cli("show", str(failed.pk)[:18])
        assert shown.code == 0
        for text in ("tests.tasks.noop", "planted", "RuntimeError", "w-1-1-a/1"):
            assert text in shown.out
        assert "hunter2" not in shown.out

    def test_digits_of_several_or_of_none_are_no_answer(self, cli):
        stored = Task.objects.enqueue_many([(tasks.noop,)] * 2)
        several = cli("show", str(stored[0].pk)[:8])
        assert (several.code, several.out) == (2, "")
        assert all(str(task.pk) in several.err for task in stored)
        assert cli("show", "ffff0000").code == 4
        assert cli("show", "no id").code == 2

    def test_why_is_what_the_console_says(self, cli, operator):  # noqa: F811
        for task in scene.play(Task.objects.db).values():
            page = html.unescape(operator.get(f"{CONSOLE}/task/{task.pk}/change/").content.decode())
            [sentence, *_command] = cli("show", task.pk, "--why").out.splitlines()
            assert sentence.partition(" for ")[0] in page  # how long it has run by now differs

    def test_how_safe_a_retry_is_stands_there_as_in_the_console(self, cli, operator, failed):  # noqa: F811
        waiting = Task.objects.enqueue(tasks.noop)
        for state, reason in (("doubtful", "It is not atomic"), ("risky", "It was retried already")):
            told = cli("show", failed.pk, "--json").record["retry"]
            assert told["state"] == state
            assert reason in " ".join(told["reasons"])
            assert " ".join(told["reasons"]) in cli("show", failed.pk).out
            page = operator.get(f"{CONSOLE}/task/{failed.pk}/change/")
            assert page.context["safety"]["reasons"] == told["reasons"]
            failed.retry(by="tests")
        assert cli("show", waiting.pk, "--json").record["retry"] is None
        assert "to retry" not in cli("show", waiting.pk).out

    def test_what_the_attempt_logged_before_it_failed_is_shown(self, cli, database):
        task = Task.objects.enqueue(tasks.noop, max_attempts=1)
        [lease] = taskqueue.claim("w")
        report = taskqueue.report_of(taskqueue.Failed(lease, KeyError("x")))
        report.data[0]["log"] = "asked the bank with password=hunter2"
        taskqueue.record([report])
        shown = cli("show", task.pk).out
        assert "asked the bank" in shown
        assert "hunter2" not in shown

    def test_until_when_it_may_wait_and_behind_which_task(self, cli, database):
        first = Task.objects.enqueue(tasks.noop, unique_key="key")
        assert not re.search(r"^(expires|after):", cli("show", first.pk).out, re.M)
        taskqueue.claim("w")
        hour = timedelta(hours=1)
        second = Task.objects.enqueue(tasks.noop, unique_key="key", on_conflict="run_again", expires=hour)
        shown = cli("show", second.pk).out
        assert re.search(r"^expires: +\d", shown, re.M)
        assert re.search(rf"^after: +{first.pk}$", shown, re.M)
        assert f"It runs once more after the task {first.pk}" in cli("show", second.pk, "--why").out
        record = cli("show", second.pk, "--json").record
        assert (record["follows"], record["expires_at"][:4]) == (str(first.pk), str(second.expires_at.year))

    def test_how_the_process_of_an_attempt_ended(self, cli, database):
        task = Task.objects.enqueue(tasks.noop)
        taskqueue.claim("boss/1")
        facts = {"process": {"signal": "SIGKILL", "exit_code": None, "peak_memory": 64 * 1024**2}}
        taskqueue.recover(dead="boss/1", actor="boss", crashed=True, facts=facts)
        assert "SIGKILL, peak memory 64 MiB" in cli("show", task.pk, "--events").out

    def test_parts_of_it_can_be_asked_for(self, cli, failed):
        assert cli("show", failed.pk, "--traceback").out.startswith("RuntimeError: login failed")
        assert cli("show", failed.pk, "--events").out.count("\n") == 3
        assert cli("show", failed.pk, "--json").record["why"] == cli("show", failed.pk, "--why").out.strip()


class TestTables:
    @pytest.fixture(autouse=True)
    def _played(self, database):
        scene.play(database)

    def test_queues_tell_what_is_due_and_who_paused_them(self, cli):
        queues = {record["name"]: record for record in cli("queues", "--json").records}
        assert queues["emails"]["paused_by"] == "on call"
        assert queues["emails"]["due"] == 12
        assert queues["default"]["workers"] == 2
        assert "emails was paused by on call: mail provider is down, INC-204" in cli("queues").err

    def test_a_full_queue_says_what_becomes_of_more(self, cli, configure):
        configure(BACKLOG={"emails": {"max_pending": 12}, "default": 1000})
        assert "emails is full: 12 tasks wait, and more calls raise QueueFull\n" in cli("queues").err
        assert "full" not in cli("queues", "--json").err
        configure(BACKLOG={"emails": 13})
        assert "full" not in cli("queues").err

    def test_workers_tell_what_they_run(self, cli):
        workers = cli("workers", "--json").records
        assert {worker["id"] for worker in workers} == set(scene.WORKERS)
        assert all(worker["state"] == "alive" for worker in workers)
        assert scene.WORKERS[0] in cli("workers").out

    def test_failures_are_grouped(self, cli):
        groups = cli("failures", "--json").records
        assert {"shop.tasks.MailServerDown", "builtins.ValueError"} >= {
            group["exception"] for group in groups
        } or groups
        assert groups[0]["fingerprint"] in cli("failures").out

    def test_one_failure_is_compared_with_what_worked_before(self, cli):
        [group, *_others] = cli("failures", "--json").records
        assert cli("failures", group["fingerprint"]).out.startswith("It first failed at ")
        told = cli("failures", group["fingerprint"], "--json").record
        assert told["task"] == group["func_path"]
        assert cli("failures", "nothing").code == 4

    def test_stats_count_by_function(self, cli):
        rows = cli("stats", "--since", "2h", "--json").records
        assert sum(row["attempts"] for row in rows) > 100
        assert rows[0]["attempts"] == max(row["attempts"] for row in rows)

    def test_events_are_the_newest_of_all_or_of_one_task(self, cli):
        newest = [event.pk for event in TaskEvent.objects.order_by("-id")[:5]][::-1]
        assert [record["id"] for record in cli("events", "-n", 5, "--json").records] == newest
        task = Task.objects.cancelled().first()
        assert [record["kind"] for record in cli("events", task.pk, "--json").records] == ["task.cancelled"]
        assert "wrong image" in cli("events", task.pk).out

    def test_new_events_are_followed_each_once_and_late_ones_too(self, cli, monkeypatch):
        turns = []

        def a_moment_passes(_seconds: float) -> None:
            turns.append(len(turns))
            if len(turns) == 3:
                raise KeyboardInterrupt
            Task.objects.enqueue(tasks.noop, queue="bulk").cancel(reason=f"turn {len(turns)}")

        monkeypatch.setattr("time.sleep", a_moment_passes)
        answer = cli("events", "-n", 1, "-f", "--json")
        assert answer.code == 130
        assert [record["data"].get("reason") for record in answer.records][1:] == ["turn 1", "turn 2"]

    def test_an_export_holds_each_task_with_all_that_happened(self, cli):
        records = cli("export", "status:failed", "--json").records
        assert len(records) == Task.objects.failed().count()
        assert (
            sum(len(record["events"]) for record in records) == TaskEvent.objects.filter(task__status="FAILED").count()
        )
        assert all(record["events"][-1]["kind"] == "task.failed" for record in records)

    def test_secrets_are_exported_only_on_demand(self, cli):
        assert "planted-secret" not in cli("export", "queue:emails").out
        assert "planted-secret" in cli("export", "queue:emails", "--raw").out

    def test_top_prints_one_frame_where_there_is_no_terminal(self, cli):
        frame = cli("top", "--once").out
        for text in ("tasks top", "Paused", "RUNNING LONGEST", "ERROR", scene.WORKERS[0]):
            assert text in frame

    def test_there_is_no_colour_off_a_terminal(self, cli):
        for name in ("queues", "workers", "failures", "stats", "events", "top", "list", "check"):
            answer = cli(name)
            assert "\x1b" not in answer.out + answer.err


class TestCheck:
    def test_all_is_well(self, cli):
        scene.sign_on()
        assert cli("check", "--max-wait", "10m", "--workers", 2).code == 0

    def test_each_trouble_has_its_line(self, cli, travel):
        Task.objects.enqueue(tasks.noop)
        travel(700)
        answer = cli("check", "--max-wait", "10m", "--json")
        assert answer.code == 1
        assert [each["what"] for each in answer.record["findings"]] == ["workers", "unserved", "wait"]
        assert answer.record["ok"] is False
        assert "Queue default: the oldest due task has waited 11 min 4" in cli("check", "--max-wait", "10m").out

    def test_it_looks_at_the_queues_it_is_told(self, cli, travel):
        scene.sign_on()
        Task.objects.enqueue(tasks.noop, queue="emails")
        travel(20)
        assert cli("check", "--max-wait", "10s", "--queues", "emails").code == 1
        assert cli("check", "--max-wait", "10s", "--queues", "def*").code == 0

    def test_a_share_of_failures_can_be_too_much(self, cli):
        scene.sign_on()
        taskqueue.add_stats([taskqueue.Stat("default", "tests.tasks.noop", completed=1, failed=1)])
        assert cli("check", "--max-failing", "50%").code == 0
        assert cli("check", "--max-failing", "20%").code == 1
        assert cli("check", "--max-failing", "much").code == 2


def test_a_task_has_the_facts_and_the_timing_of_the_console(cli, database):
    task = Task.objects.enqueue(tasks.noop, unique_key="once", eta=timedelta(days=2.52), interval=timedelta(hours=2))
    task.refresh_from_db()
    shown, listed = cli("show", str(task.pk)).out, cli("list").out
    facts = {name for name, _label, _value in task_facts(task, clock.now(database), can_see_payload=True)}
    assert {"unique key", "repeats every", "backend"} <= facts
    assert [name for name in facts if f"\n{name}:" not in shown] == []
    task.refresh_from_db()
    assert timing(task, clock.now(database)) in listed


def test_prune_tells_what_it_would_delete_by_backend_and_queue(cli, travel):
    for queue in ("default", "default", "emails"):
        Task.objects.enqueue(tasks.noop, queue=queue).cancel()
    travel(timedelta(days=91).total_seconds())
    Task.objects.enqueue(tasks.noop).cancel()
    told = cli("prune", "--dry-run", "--json").records
    assert [(each["backend"], each["queue"], each["tasks"]) for each in told] == [
        ("default", "default", 2),
        ("default", "emails", 1),
    ]
    assert Task.objects.count() == 4
    assert cli("prune", "-y", "--reason", "disk").code == 0
    assert Task.objects.count() == TaskResult.objects.count() == 1


def test_a_backend_that_is_none_is_answered_by_every_subcommand(cli):
    needed = {"show": ["abcd"], "execute": ["abcd"], "pause": ["q", "--reason", "x"], "resume": ["q"], "stop": ["w"]}
    needed |= {"enqueue": ["tests.tasks.noop"], "signal": ["paid"], "rehearse": ["f", "--database", "other"]}
    needed |= {"token": ["somebody"]}
    needed |= {f"schedules {verb}": ["s"] for verb in ("show", "resume", "run")}
    needed |= {"schedules pause": ["s", "--reason", "x"], "archive read": ["0199a3f2-77aa-7000-8000-000000000000"]}
    needed |= {f"effects {verb}": ["abcd", "charge", "--reason", "x"] for verb in ("happened", "retry")}
    needed |= {
        "shards add": ["q1"],
        "shards drain": ["q1"],
        "limit": ["lane", "--clear", "--reason", "x"],
        "partitions export": ["p20260101", "out"],
        "reschedule": ["--now"],
        "token": ["agent"],
    }
    for name in subcommands():
        answer = cli(*name.split(), *needed.get(name, []), "--backend", "defualt")
        assert (answer.code, answer.out) == (2, ""), name
        assert "Did you mean 'default'?" in answer.err, name


def test_a_shard_of_a_backend_without_shards_is_answered_in_a_sentence(cli):
    answer = cli("shards", "drain", "q1", "--yes")
    assert (answer.code, answer.out) == (2, "")
    assert "has no shard 'q1' (it is not set)" in answer.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["partition"], "tasks partitions create, tasks partitions undo?"),
        (["partition", "--undo"], "tasks partitions undo?"),
        (["export-partition", "p20260101", "out"], "tasks partitions export?"),
        (["partitions", "craete"], "tasks partitions create?"),
        (["run", "abcd"], "tasks execute, tasks schedules run?"),
        (["run-now", "abcd"], "tasks reschedule?"),
        (["pause-schedule", "x"], "tasks schedules pause?"),
        (["schedules", "nightly"], "There are: tasks schedules pause, tasks schedules resume,"),
        (["quues"], "tasks queues, tasks enqueue?"),
    ],
)
def test_a_word_that_is_no_subcommand_is_answered_with_the_one_that_is_meant(typed, meant):
    answer = tasks_command(*typed)
    assert (answer.code, answer.out) == (2, "")
    assert meant in answer.err
