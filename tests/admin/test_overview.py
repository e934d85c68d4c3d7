"""The overview: warnings that name all of it and lead on, threads and coroutines apart, figures that agree."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest

from django_tasks_retry import clock, registry, taskqueue
from django_tasks_retry.admin.parts.timeline import read_progress
from django_tasks_retry.compat import task
from django_tasks_retry.display import formatting
from django_tasks_retry.models import FlowLimit, Queue, Schedule, Task, TaskStat
from django_tasks_retry.taskqueue import statistics
from django_tasks_retry.taskqueue.renewal import report_progress
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.supervisor.maintenance.problems import Problems
from tests import tasks
from tests.admin import scene
from tests.cli.conftest import tasks_command

BASE = "/admin/django_tasks_retry"


@task
async def poll() -> None:
    """A coroutine."""


def serve(name: str = "w-1", known=("tests.tasks.noop",), **facts) -> None:
    taskqueue.register_worker(
        name, "default", host="h", pid=1, version="1", queues=["*"], exclude=[], tasks=list(known), processes=1,
        **{"slots": 102, "threads": 2, **facts},
    )  # fmt: skip


def problems(client) -> list[str]:
    return [problem.text for problem, *_ in client.get(f"{BASE}/overview/").context["problems"]]


def cards(client) -> dict[str, str]:
    shown = client.get(f"{BASE}/overview/").context["cards"]
    return {name: f"{value} {note}" for name, value, note, *_ in shown}


@pytest.mark.fault("unknown_functions_hide_each_other")
def test_every_unknown_function_is_named(database, operator):
    """Also the second one of a lane, behind many tasks that call the first."""
    Task.objects.enqueue_many([(function_named("first"),)] * 3 + [(tasks.noop,), (function_named("second"),)])
    serve()
    one, other = problems(operator)
    assert "knows tests.admin.test_overview.first." in one
    assert "knows tests.admin.test_overview.second." in other


def test_unknown_functions_are_named_up_to_a_bound(database, operator):
    Task.objects.enqueue_many([(function_named(f"f{n}"),) for n in range(8)])
    serve()
    said = problems(operator)
    assert len(said) == 6
    assert "knows 3 more functions" in said[-1]


def function_named(name: str):
    def function() -> None:
        """Does nothing."""

    function.__name__ = function.__qualname__ = name
    return task(function)


@pytest.mark.fault("all_workers_gone")
def test_one_line_says_that_all_workers_are_gone(database, operator, travel):
    serve()
    for queue in ("default", "emails", "reports", "bulk"):
        Task.objects.enqueue(tasks.noop, queue=queue)
    Task.objects.enqueue(tasks.noop)
    taskqueue.claim("w-1/1", limit=1)
    travel(600)
    [line] = problems(operator)
    assert line.startswith("No worker is running: 4 tasks are waiting. 1 task lost its worker")
    assert line.endswith("Start one:")


def test_an_unknown_effect_links_to_the_page_with_its_two_buttons(played, operator):
    asking = scene.asking_about("charge")
    page = f"/admin/django_tasks_retry/task/{asking.pk}/change/"
    assert f'href="{page}"' in operator.get("/admin/django_tasks_retry/overview/").content.decode()
    form = operator.get(page).content.decode().partition('action="../answer/"')[2].partition("</form>")[0]
    assert form.count('type="submit"') == 2


def test_without_work_no_worker_is_missed(database, operator):
    Task.objects.enqueue(tasks.noop, eta=timedelta(days=1))
    assert problems(operator) == []


def test_a_paused_queue_is_resumed_from_its_warning(database, operator):
    serve()
    Task.objects.enqueue(tasks.noop, queue="emails")
    taskqueue.pause("emails", by="ann")
    page = operator.get(f"{BASE}/overview/").content.decode()
    assert f"{BASE}/task/?queue=emails&amp;status=ready" in page
    [action] = re.findall(r'action="([^"]*)" class="dtr-inline"', page)
    operator.post(html.unescape(action))
    assert Queue.objects.get(name="emails").paused_at is None


def test_who_may_not_resume_has_no_button(database, session_with):
    serve()
    Task.objects.enqueue(tasks.noop, queue="emails")
    taskqueue.pause("emails", by="ann")
    assert "dtr-inline" not in session_with("view_task").get(f"{BASE}/overview/").content.decode()


@pytest.mark.fault("threads_full_coroutines_not")
def test_threads_and_coroutines_are_counted_apart(database, operator):
    registry.register(poll)
    serve()
    Task.objects.enqueue_many([(tasks.noop,), (tasks.noop,), (poll,)])
    taskqueue.claim("w-1/1", limit=3)
    assert cards(operator)["Running"] == "3 2 of 2 threads, 1 of 100 async"
    page = operator.get(f"{BASE}/worker/").content.decode()
    assert "2/2 threads" in page
    assert "1/100 async" in page


def test_a_worker_of_an_earlier_release_tells_its_slots(database, operator):
    serve(threads=0, slots=8)
    assert cards(operator)["Running"] == "0 of 8 slots"
    assert "0/8 slots" in operator.get(f"{BASE}/worker/").content.decode()


def test_a_worker_that_crashed_is_not_shown_as_calm(database, operator, travel):
    serve()
    travel(600)
    page = operator.get(f"{BASE}/worker/").content.decode()
    assert re.search(r'dtr-badge dtr-failed">.{0,60}not responding', page)
    assert "Last seen" in page


@pytest.mark.parametrize(
    ("count", "said"),
    [(999_949, "≈ 999.9 k"), (999_950, "≈ 1.0 M"), (1_000_000, "≈ 1.0 M"), (999_960_000, "≈ 1.0 G")],
)
@pytest.mark.fault("numbers_that_disagree")
def test_what_is_rounded_to_a_thousand_is_one_of_the_next_unit(count, said, on):
    assert formatting.format_approximate(count) == said


@pytest.mark.parametrize("value", [1.05, 1.0499999999999998, 1.95, 1.9500000000000002, 0.25])
def test_a_figure_is_the_same_however_it_was_worked_out(value):
    assert formatting.format_decimal(value) == {1: "1.1", 2: "2.0", 0: "0.3"}[round(value)]


def test_a_backlog_says_how_long_it_lasts_at_this_rate(database, operator):
    Task.objects.enqueue_many([(tasks.noop,)] * 30)
    assert "at this rate empty" not in operator.get(f"{BASE}/queue/").content.decode(), "nothing has run"
    taskqueue.add_stats([taskqueue.Stat("default", "shop.pay", completed=100)])
    for page in ("queue", "overview"):
        assert "at this rate empty in 3 min" in operator.get(f"{BASE}/{page}/").content.decode()
    taskqueue.pause("default", by="ann", reason="x")
    assert "at this rate empty" not in operator.get(f"{BASE}/queue/").content.decode(), "nothing starts"


def test_an_estimate_is_said_with_two_digits():
    assert formatting.format_capped(51_234) == "≈ 51,000"
    assert formatting.format_capped(77) == "77"


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ({"done": 3, "total": 10, "note": "rows"}, "3 / 10 (30.0 %)"),
        ({"done": 1.5, "total": 2}, "1.5 / 2 (75.0 %)"),
        ({"done": 12, "total": 10}, "10 / 10 (100.0 %)"),
        ({"done": -1, "total": 10}, "0 / 10 (0.0 %)"),
        ({"done": 7, "total": None}, "7"),
        ({"done": 7, "total": 0}, "7"),
    ],
)
def test_progress_is_told_in_numbers(progress, said):
    found = read_progress(progress)
    assert found is not None
    assert found["text"] == said


@pytest.mark.parametrize("progress", [None, 3, [], {}, {"done": "x"}, {"done": True}, {"done": 1, "total": "many"}])
def test_what_is_no_progress_is_drawn_as_none(progress):
    assert read_progress(progress) is None


def test_progress_is_drawn_with_a_name(database, operator):
    reporting = Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("w")
    report_progress(lease, 3, 10, "importing password=hunter2")
    page = operator.get(f"{BASE}/task/{reporting.pk}/change/").content.decode()
    assert (
        '<progress max="10.000000" value="3.000000" aria-labelledby="dtr-progress">3 / 10 (30.0 %)</progress>' in page
    )
    assert "importing" in page
    assert "hunter2" not in page


@pytest.mark.fault("history_where_django_has_none")
def test_the_history_of_a_task_is_its_events(played, operator):
    """Django's own page would say that it has none."""
    page = operator.get(f"{BASE}/task/{played['cancelled'].pk}/history/").content.decode()
    assert "change history" not in page
    assert "deploy script" in page
    assert "It was cancelled, so it has no result." in page


def test_a_task_leads_to_its_queue_worker_and_run(database, operator):
    serve("web 1/a")
    first = Task.objects.enqueue(tasks.noop, queue="emails")
    [lease] = taskqueue.claim("web 1/a/1")
    page = operator.get(f"{BASE}/task/{first.pk}/change/").content.decode()
    assert f'href="{BASE}/task/?queue=emails"' in page
    assert f'href="{BASE}/worker/#worker-web%201%2Fa"' in page
    assert 'id="worker-web%201%2Fa"' in operator.get(f"{BASE}/worker/").content.decode()
    taskqueue.complete_task(lease)
    [again] = taskqueue.retry([first.pk])
    member = operator.get(f"{BASE}/task/{again.pk}/change/").content.decode()
    [link] = re.findall(rf'<dd><a href="([^"]*)">{str(first.pk)[:18]}</a></dd>', member)
    run = operator.get(html.unescape(link)).content.decode()
    assert all(f"{BASE}/task/{task.pk}/change/" in run for task in (first, again))


def test_a_search_for_an_error_says_that_it_means_failed_tasks(database, operator):
    waiting, failed = Task.objects.enqueue_many(
        [{"func": tasks.noop, "max_attempts": 3}, {"func": tasks.noop, "max_attempts": 1}]
    )
    taskqueue.finish([taskqueue.Failed(lease, ValueError("boom")) for lease in taskqueue.claim("w", limit=2)])
    page = operator.get(f"{BASE}/task/", {"q": "error:boom"})
    assert [task.pk for task in page.context["cl"].result_list] == [failed.pk]
    [link] = re.findall(r'href="([^"]*)">Show tasks that wait', page.content.decode())
    others = operator.get(f"{BASE}/task/{html.unescape(link)}")
    assert [task.pk for task in others.context["cl"].result_list] == [waiting.pk]


# Problems of functions, schedules, lanes and workers


@pytest.mark.fault("unknown_functions_hide_each_other")
def test_the_check_the_probe_and_the_log_name_functions_that_no_worker_knows(database, client, configure, caplog):
    Task.objects.enqueue(function_named("lost"))
    serve()
    answer = tasks_command("check", "--json")
    assert answer.code == 1
    [found] = answer.record["findings"]
    assert (found["what"], found["queue"]) == ("unknown_function", "default")
    assert "no running worker knows tests.admin.test_overview.lost. " in found["text"]
    assert "TASK_MODULES" in found["text"]
    configure(METRICS_TOKEN="a-token-of-this-test")
    assert client.get("/tasks/ready").content == b"ready\n"
    told = client.get("/tasks/ready", headers={"authorization": "Bearer a-token-of-this-test"})
    assert (told.status_code, "'tests.admin.test_overview.lost'" in told.content.decode()) == (200, True)
    service = Problems("default", DatabaseCaller(database, 60.0))
    for _look in range(2):
        service.run()
    [logged] = [record.getMessage() for record in caplog.records if record.name.endswith("maintenance.problems")]
    assert logged.startswith("Queue default: no running worker knows tests.admin.test_overview.lost.")


def stats(minutes_ago: float, database: str, **counts: int) -> None:
    minute = clock.now(database).replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    TaskStat.objects.using(database).create(minute=minute, queue="default", func_path="shop.charge_card", **counts)


def test_a_function_that_fails_is_named_while_it_is_retried_with_the_release(database, operator, travel):
    serve("old", release="v41")
    travel(7200)
    serve("new", release="v42", known=("shop.charge_card",))
    travel(150)
    serve("newer", release="v42", known=("shop.charge_card",))
    for minutes in (100, 60, 20):
        stats(minutes, database, completed=3000)
    for minutes in (0, 1, 2):
        stats(minutes, database, retried=200)
    [problem] = [problem for problem in problems(operator) if "charge_card" in problem]
    assert problem.startswith("charge_card fails since release v42, ")
    assert problem.endswith(": 600 of 600 attempts, before 0 of 9,000.")
    page = operator.get(f"{BASE}/overview/").content.decode()
    assert 'name="lane" value="function:shop.charge_card"' in page
    assert f"{BASE}/taskfunction/?function=shop.charge_card" in page
    operator.post(f"{BASE}/flowlimit/pause/", {"lane": "function:shop.charge_card", "reason": "it fails"})
    assert FlowLimit.objects.get(kind="function").paused_at is not None
    assert [each["what"] for each in tasks_command("check", "--json").record["findings"]] == []
    assert "failing_function" in tasks_command("check", "--json", "--max-failing", "20%").out


def test_a_few_failures_and_mostly_successful_functions_are_not_called_failing(database, operator):
    serve()
    stats(1, database, retried=4)
    stats(2, database, failed=90, completed=100)
    assert problems(operator) == []


def test_what_the_package_runs_itself_is_no_function_of_the_project(database, operator):
    taskqueue.add_stats([taskqueue.Stat("default", "django_tasks_retry.tasks.run_chain", completed=1)])
    shown = operator.get(f"{BASE}/taskfunction/").content.decode()
    assert "tests.tasks.noop" in shown
    assert "run_chain" not in shown
    assert "run_chain" not in operator.get(f"{BASE}/task/").content.decode()


def test_the_uptime_of_a_worker_that_died_ends_with_its_last_heartbeat(database, operator, travel):
    serve()
    travel(3600)
    assert re.search(r"w-1 +not responding +0/102 +\* +1 +1 +\d+ ms ", tasks_command("workers", "--all").out)


def test_missed_slots_stand_on_overview_list_and_page(database, operator, travel):
    serve()
    plan = Schedule.objects.create(name="often", task=tasks.noop, every=60, overlap="allow")
    travel(200)
    serve("w-2")
    taskqueue.tick()
    [said] = [problem for problem in problems(operator) if "Schedule" in problem]
    assert said.startswith("Schedule often missed 2 slots in 24 hours, the last at ")
    assert "2 slots missed in 24 hours" in operator.get(f"{BASE}/schedule/").content.decode()
    page = operator.get(f"{BASE}/schedule/{plan.name}/change/").content.decode()
    assert "2 slots · missed: no worker was there" in page
    [strip] = re.findall(r'<svg class="dtr-spark dtr-strip".*?</svg>', page)
    kinds = re.findall(r'class="dtr-bar-(\w+)"', strip)
    assert kinds == ["missed", "waiting", *["next"] * 5], "slots in their order: past ones by outcome, then the next"
    assert 'aria-label="1 2 slots · missed: no worker was there, 1 Ready, 5 Scheduled"' in strip
    assert strip in operator.get(f"{BASE}/schedule/").content.decode()
    travel(300)
    taskqueue.claim("w-2/1")
    page = operator.get(f"{BASE}/schedule/{plan.name}/change/").content.decode()
    assert re.search(r"5 min \d+ s late", page)


def test_a_worker_that_died_stands_on_the_overview_with_what_it_held(database, operator, travel):
    serve("dead")
    Task.objects.enqueue_many([(tasks.noop,)] * 3)
    taskqueue.claim("dead/1", limit=2)
    travel(40)
    serve("alive")
    assert cards(operator)["Running"] == "2 0 of 2 threads, 0 of 100 async, 2 of workers that are gone"
    [said] = problems(operator)
    assert re.fullmatch(r"Worker dead does not respond since .*\. It holds 2 tasks\.", said)
    assert tasks_command("check").code == 1


def test_more_tasks_than_threads_were_claimed_ahead(database, operator):
    serve()
    Task.objects.enqueue_many([(tasks.noop,)] * 5)
    taskqueue.claim("w-1/1", limit=5)
    assert cards(operator)["Running"] == "5 2 of 2 threads, 0 of 100 async, 3 claimed ahead"


def test_lanes_that_hold_tasks_back_stand_on_the_overview(database, operator, travel):
    taskqueue.limit_lane("acme", concurrency=1, by="ann", reason="fragile")
    taskqueue.limit_lane("globex", concurrency=1, by="ann", reason="fragile")
    Task.objects.enqueue_many([{"func": tasks.noop, "lane": lane} for lane in ("acme", "acme", "globex", "idle")])
    taskqueue.claim("w-1/1", limit=10)
    taskqueue.pause("quiet", kind="lane", by="ann", reason="not now")
    serve()
    assert problems(operator) == []
    travel(900)
    serve()
    [full] = [said for said in problems(operator) if "is full" in said]
    assert re.fullmatch(r"Lane acme is full: a task has been running in it for 15 min.*, and 1 wait\.", full)
    Task.objects.enqueue(tasks.noop, lane="quiet")
    assert "quiet is paused by ann (not now): 1 waiting." in problems(operator)


def test_more_failures_than_are_counted_are_read_from_the_statistics(database, operator, monkeypatch):
    """A night of failures must not break the page that tells of it."""
    monkeypatch.setattr(statistics, "CAP", 1)
    for _ in range(2):
        Task.objects.enqueue(tasks.noop, max_attempts=1)
        [lease] = taskqueue.claim("w-1-1-a/1")
        taskqueue.fail_task(lease, ValueError("gone"))
    minute = clock.now(database).replace(second=0, microsecond=0)
    for queue in ("default", "emails"):
        TaskStat.objects.create(minute=minute, queue=queue, func_path="shop.tasks.charge", failed=20)
    assert cards(operator)["Failed"].startswith("40")
