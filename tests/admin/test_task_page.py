"""A task's page: why it stands where it does, what will come, what was."""

from __future__ import annotations

import html
import re

import pytest

from django_tasks_retry import Abort, taskqueue
from django_tasks_retry.models import Task, Worker
from django_tasks_retry.taskqueue import Stat
from django_tasks_retry.worker.child.attempt_logs import with_log
from tests import tasks
from tests.admin import scene

BASE = "/admin/django_tasks_retry"


def page_of(client, task: Task) -> str:
    return html.unescape(client.get(f"{BASE}/task/{task.pk}/change/").content.decode())


def why(client, task: Task) -> str:
    [said] = re.findall(r'id="dtr-explanation">Why\?</h2>\s*<p>(.*?)</p>', page_of(client, task), re.S)
    return re.sub(r"</?code>", "", said).strip()


def serve(queues=("*",), exclude=(), known=("tests.tasks.noop",)) -> None:
    taskqueue.register_worker(
        f"w-{Worker.objects.count()}", "default", host="h", pid=1, version="1", queues=list(queues),
        exclude=list(exclude), tasks=list(known), processes=1, slots=4, running=0,
    )  # fmt: skip


class TestWhyATaskWaits:
    def test_its_queue_is_paused(self, played, operator):
        assert "Queue emails was paused by on call" in why(operator, played["paused"])
        assert "mail provider is down, INC-204" in why(operator, played["paused"])

    def test_it_is_scheduled(self, played, operator):
        assert re.search(r"scheduled for .*, in 4 h 59 min\.", why(operator, played["scheduled"]))

    def test_its_last_attempt_failed(self, database, operator):
        task = Task.objects.enqueue(tasks.scheduled, [1])
        [lease] = taskqueue.claim("w")
        taskqueue.fail_task(lease, ConnectionError("x"))
        assert "Attempt 1 of 4 failed (ConnectionError). The next one is due at" in why(operator, task)

    def test_no_live_worker_serves_its_queue(self, played, operator):
        said = why(operator, played["orphan"])
        assert said.startswith("It is due, but no running worker serves the queue reports.")
        assert said.endswith("Start one: python manage.py runworker --queues reports")

    def test_the_only_worker_has_not_been_heard_of(self, database, operator, travel):
        task = Task.objects.enqueue(tasks.noop)
        serve()
        assert "first in its queue" in why(operator, task)
        travel(60)
        assert "no running worker" in why(operator, task)

    def test_the_worker_leaves_its_queue_out(self, database, operator):
        task = Task.objects.enqueue(tasks.noop)
        serve(exclude=["def*"])
        assert "no running worker serves the queue default" in why(operator, task)

    def test_nobody_knows_its_function(self, database, operator):
        task = Task.objects.enqueue(tasks.noop)
        serve(known=["some.other"])
        serve(known=["some.other"])
        assert "none of the 2 workers of its queue knows tests.tasks.noop" in why(operator, task)

    def test_the_workers_know_no_function_at_all(self, database, operator):
        task = Task.objects.enqueue(tasks.noop)
        serve(known=[])
        said = why(operator, task)
        assert "the worker of its queue knows no task at all" in said
        assert "INSTALLED_APPS" in said
        assert "w-0 knows no task at all" in html.unescape(operator.get(f"{BASE}/overview/").content.decode())

    def test_others_are_ahead(self, database, operator):
        serve()
        first, task = Task.objects.enqueue_many([(tasks.noop,)] * 2)
        Task.objects.enqueue(tasks.noop, priority=5)
        Task.objects.enqueue(tasks.noop, priority=-5)
        Task.objects.enqueue(tasks.noop, queue="emails", priority=9)
        assert why(operator, task) == "2 tasks are ahead of it in queue default."
        assert why(operator, first) == "1 task is ahead of it in queue default."


class TestWhyATaskEnded:
    def test_it_spent_its_attempts(self, played, operator):
        assert why(operator, played["failed"]) == "It failed after all of its 5 attempts, the last with MailServerDown."

    def test_it_succeeded(self, played, operator):
        assert "It succeeded in the first attempt" in why(operator, played["success"])

    def test_it_was_cancelled(self, played, operator):
        assert re.search(r"It was cancelled by deploy script at .*: wrong image", why(operator, played["cancelled"]))

    def test_it_gave_itself_up(self, database, operator):
        task = Task.objects.enqueue(tasks.noop)
        [lease] = taskqueue.claim("w")
        taskqueue.fail_task(lease, Abort("no such order"))
        assert why(operator, task) == "It raised Abort in attempt 1, so it is not retried."

    def test_its_worker_was_lost(self, database, operator, travel):
        task = Task.objects.enqueue(tasks.noop, max_attempts=1)
        taskqueue.claim("w")
        assert "has been running for" in why(operator, task)
        travel(100)
        assert re.search(r"stopped responding: the lease expired \d+ s ago", why(operator, task))
        taskqueue.recover()
        assert "Its worker was lost during the last of 1 attempts" in why(operator, task)


def test_the_preview_tells_every_attempt_to_come(database, operator):
    task = Task.objects.enqueue(tasks.scheduled, [1])
    shown = re.sub(r"\s+", " ", page_of(operator, task))
    assert "4 attempts; delays after failures: 5 min, 15 min, 1 h" in shown
    steps = re.findall(r'<td class="dtr-number">(\d)</td><td>([^<]*)</td><td>([^<]*)</td>', shown)
    assert [(number, after) for number, after, _ in steps] == [
        ("1", "—"),
        ("2", "5 min"),
        ("3", "15 min"),
        ("4", "1 h"),
    ]
    assert [due for _, _, due in steps] == ["now", "5 min", "20 min", "1 h 20 min"]
    assert "the last one fails in 1 h 20 min at the latest" in shown


def test_the_preview_shows_jitter_as_a_span(database, operator):
    task = Task.objects.enqueue(tasks.noop, max_attempts=2)
    assert re.search(r"1\.[01] s to (1\.9|2\.0) s", page_of(operator, task))


def test_the_timeline_is_to_scale(database, operator, travel):
    task = Task.objects.enqueue(tasks.scheduled, [1])
    travel(100)
    [lease] = taskqueue.claim("w", lease=3600)
    travel(100)
    taskqueue.fail_task(lease, ConnectionError("x"))
    travel(100)
    task.cancel()
    bars = re.findall(r'class="dtr-bar-(\w+)" x="([\d.]+)" width="([\d.]+)"', page_of(operator, task))
    assert [kind for kind, _, _ in bars] == ["waiting", "failed", "waiting"]
    for (_, x, width), begin in zip(bars, (0, 333, 667), strict=True):
        assert abs(float(x) - begin) < 5
        assert abs(float(width) - 333) < 5


def test_the_page_shows_call_policy_result_and_relations(played, operator):
    done = page_of(operator, played["success"])
    assert '"W0"' in done
    assert '"articles": 1204' in done
    again = played["success"].retry(by="tests", reason="once more")
    assert str(again.pk)[:13] in page_of(operator, played["success"])
    shown = page_of(operator, again)
    for word in ("Retry of", "All tasks of this run", str(played["success"].pk)[:13], "once more"):
        assert word in shown


def test_a_child_names_its_parent_and_the_parent_its_child(database, operator):
    parent = Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("w")
    token = taskqueue.current_lease.set(lease)
    child = Task.objects.enqueue(tasks.add, [1, 2])
    taskqueue.current_lease.reset(token)
    assert "Children" in page_of(operator, parent)
    assert str(child.pk)[:13] in page_of(operator, parent)
    assert "Parent" in page_of(operator, child)
    assert "All tasks of this run" in page_of(operator, child)


def test_a_traceback_shows_the_projects_frames_first(played, operator):
    shown = page_of(operator, played["failed"])
    first = shown[shown.index('class="dtr-frames"') :]
    assert first.index("deliver") < first.index("send_receipt")
    assert "Full traceback" in shown
    assert "<details><summary>Full traceback" in shown


def test_a_page_of_a_task_that_is_gone_is_not_found(database, operator):
    for key in ("00000000-0000-7000-8000-000000000000", "nonsense"):
        assert operator.get(f"{BASE}/task/{key}/change/").status_code == 404


class TestTheOverview:
    def test_it_warns_and_names_the_mend(self, played, operator):
        shown = html.unescape(operator.get(f"{BASE}/overview/").content.decode())
        assert "Queue reports: 3 waiting, but no running worker. Start one:" in shown
        assert "python manage.py runworker --queues reports" in shown
        assert "Queue emails: 12 waiting, paused by on call (mail provider is down, INC-204)." in shown

    def test_its_cards_count(self, played, operator):
        cards = {name: value for name, value, *_ in operator.get(f"{BASE}/overview/").context["cards"]}
        assert cards["Running"] == "3"
        assert cards["Retrying"] == "1"
        assert cards["Failed"] == str(Task.objects.failed().count())
        assert cards["Workers"] == "2"
        assert cards["Stored"] == str(Task.objects.count())

    def test_its_chart_can_be_read_without_eyes(self, played, operator):
        shown = operator.get(f"{BASE}/overview/").content.decode()
        assert '<title id="dtr-chart-title">Attempts per minute</title>' in shown
        assert re.search(r'<desc id="dtr-chart-desc">[\d,]+ completed', shown)
        assert "Show as table" in shown

    def test_it_tells_of_tasks_that_nobody_takes_back(self, database, operator, travel):
        Task.objects.enqueue(tasks.noop)
        taskqueue.claim("w")
        travel(1000)
        assert "1 task lost its worker" in operator.get(f"{BASE}/overview/").content.decode()


class TestAQueueThatFails:
    @pytest.fixture
    def failing(self, database) -> None:
        taskqueue.add_stats([Stat("default", "f", failed=9, retried=1)])
        taskqueue.add_stats([Stat("emails", "f", completed=9, failed=1)])
        serve()

    def test_it_is_not_shown_as_well(self, failing, operator):
        states = {
            queue["name"]: "Failing" in queue["badge"] for queue in operator.get(f"{BASE}/overview/").context["queues"]
        }
        assert states["default"]
        assert not states["emails"]
        assert "Failing" in operator.get(f"{BASE}/queue/").content.decode()

    def test_the_overview_warns_and_leads_to_the_failures(self, failing, operator):
        shown = html.unescape(operator.get(f"{BASE}/overview/").content.decode())
        assert "Queue default: at least half of the latest attempts failed." in shown
        assert f'href="{BASE}/failuregroup/">Show' in shown

    def test_its_line_is_red(self, failing, operator):
        [queue] = [each for each in operator.get(f"{BASE}/overview/").context["queues"] if each["name"] == "default"]
        assert {shape["kind"] for shape in queue["spark"]} == {"failed"}


class TestFailures:
    def test_alike_failures_are_one_group(self, played, operator):
        groups = {group["error"]: group for group in operator.get(f"{BASE}/failuregroup/").context["groups"]}
        assert set(groups) == {"MailServerDown", "ValueError"}
        assert groups["ValueError"]["failed"] == "9"
        assert groups["ValueError"]["retrying"] == 1
        assert groups["ValueError"]["location"].startswith("admin/shop.py")
        assert groups["ValueError"]["message"] == "row #: <…> is not an IBAN"

    def test_a_group_is_retried_once_however_often_one_asks(self, played, operator):
        for expected in (9, 0):
            asked = operator.post(f"{BASE}/failuregroup/{fingerprint(played['import'])}/retry/")
            assert asked.context["possible"] == str(expected)
            operator.post(f"{BASE}/task/bulk-action/", {"token": asked.context["token"], "reason": "mended"})
        assert Task.objects.filter(retry_of__isnull=False).count() == 9

    def test_cancelling_a_group_ends_what_still_tries(self, played, operator):
        asked = operator.post(f"{BASE}/failuregroup/{fingerprint(played['retrying'])}/cancel/")
        operator.post(f"{BASE}/task/bulk-action/", {"token": asked.context["token"], "reason": "hopeless"})
        played["retrying"].refresh_from_db()
        assert played["retrying"].status == "CANCELLED"
        assert Task.objects.failed().filter(func_path__endswith="import_row").count() == 9

    @pytest.mark.parametrize("action", ["retry", "cancel"])
    def test_asking_needs_the_actions_permission(self, action, played, session_with):
        other = {"retry": "cancel_task", "cancel": "retry_task"}[action]
        client = session_with("view_task", other)
        url = f"{BASE}/failuregroup/{fingerprint(played['retrying'])}/{action}/"
        assert client.post(url).status_code == 403
        assert client.get(url).status_code == 405


def fingerprint(task: Task) -> str:
    task.refresh_from_db()
    return task.fingerprint


def test_workers_show_what_they_do(played, operator):
    shown = operator.get(f"{BASE}/worker/").context["workers"]
    assert {row["key"]: len(row["running"]) for row in shown} == {scene.WORKERS[0]: 2, scene.WORKERS[1]: 1}


def test_a_worker_that_stopped_is_listed_as_stopped(played, operator):
    taskqueue.deregister_worker(scene.WORKERS[0], "default")
    context = operator.get(f"{BASE}/worker/").context
    assert [row["key"] for row in context["stopped_workers"]] == [scene.WORKERS[0]]
    assert [row["key"] for row in context["workers"]] == [scene.WORKERS[1]]


def test_a_worker_that_died_stands_first_and_in_red_with_what_it_holds(played, operator, travel):
    travel(3000)
    taskqueue.heartbeat(scene.WORKERS[0], "default", running=2)
    answer = operator.get(f"{BASE}/worker/")
    dead, alive = answer.context["workers"]
    assert (dead["key"], dead["state"], dead["uptime"]) == (scene.WORKERS[1], "lost", "2 h")
    assert dead["heartbeat"].startswith("50 min ")
    [row] = re.findall(r'<tr id="[^"]*" class="dtr-lost">.*?</tr>', answer.content.decode(), re.DOTALL)
    assert scene.WORKERS[1] in row
    assert "holds 1 task<" in row
    assert alive["state"] == "alive"
    assert "No running workers" not in answer.content.decode()


def test_workers_that_all_died_are_listed_and_another_is_asked_for(played, operator, travel):
    travel(3000)
    page = operator.get(f"{BASE}/worker/").content.decode()
    assert page.count('class="dtr-lost"') == 2
    assert "No running workers. Start one:" in page


def test_a_paused_queue_is_not_claimed_from(played, operator):
    operator.post(f"{BASE}/queue/reports/pause/", {"reason": "x"})
    assert taskqueue.claim("w", queues=["reports"]) == []
    operator.post(f"{BASE}/queue/reports/resume/")
    assert len(taskqueue.claim("w", queues=["reports"], limit=9)) == 3


def test_actors_that_are_users_are_called_by_name(database, operator):
    task = Task.objects.enqueue(tasks.noop)
    operator.post(f"{BASE}/task/{task.pk}/cancel/", {"reason": "x"})
    assert "It was cancelled by olga at" in why(operator, task)


@pytest.mark.parametrize("actor", ["user:", "user:nobody", "user:99999999999999999999999", "user:-1"])
def test_actors_that_only_look_like_users_break_nothing(actor, database, operator):
    task = Task.objects.enqueue(tasks.noop)
    task.cancel(by=actor)
    assert f"It was cancelled by {actor} at" in why(operator, task)


@pytest.mark.fault("attempt_logs_that_quote_secrets")
def test_the_log_of_a_failed_attempt_is_shown_without_its_secrets_to_those_who_may_see_payload(
    database, operator, session_with
):
    task = Task.objects.enqueue(tasks.noop, max_attempts=1)
    [lease] = taskqueue.claim("w")
    report = with_log(taskqueue.report_of(taskqueue.Failed(lease, ValueError("x"))), LOGGED)
    taskqueue.record([report])
    shown = page_of(operator, task)
    assert "Log of this attempt" in shown
    assert "charging card" in shown
    assert "hunter2" not in shown
    assert "<script>alert" not in operator.get(f"{BASE}/task/{task.pk}/change/").content.decode()
    assert "charging card" not in page_of(session_with("view_task"), task)


LOGGED = "12:00:00.000 INFO shop: charging card\n12:00:00.100 DEBUG shop: password=hunter2 <script>alert(1)</script>"
