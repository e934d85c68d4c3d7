"""The page of one group of failures, the search over groups, and retries that are spread over time."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.admin import failures
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import statistics
from django_tasks_retry.taskqueue.statistics import failure_groups
from tests import tasks
from tests.admin.conftest import PERMISSIONS

BASE = "/admin/django_tasks_retry"
GROUPS = f"{BASE}/failuregroup/"
ACT = f"{BASE}/task/bulk-action/"


def fail(count: int, error: Exception, function=tasks.noop, **options) -> list[Task]:
    """So many tasks that failed for good with this error."""
    made = Task.objects.enqueue_many([{"func": function, "max_attempts": 1, **options} for _ in range(count)])
    taskqueue.finish([taskqueue.Failed(lease, error) for lease in taskqueue.claim("w", limit=count)])
    for task in made:
        task.refresh_from_db()
    return made


def text_of(response) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def group_url(task: Task) -> str:
    return f"{GROUPS}{task.fingerprint}/"


def ask(client, task: Task, action: str = "retry", **data):
    return client.post(f"{group_url(task)}{action}/", data)


def act(client, asked, **data):
    return client.post(ACT, {"token": asked.context["token"], "reason": "INC-204", **data}, follow=True)


@pytest.mark.fault("failures_named_by_a_hash")
def test_a_group_tells_its_error_place_arguments_and_counts(played, operator):
    played["failed"].refresh_from_db()
    shown = operator.get(group_url(played["failed"]))
    page = text_of(shown)
    assert shown.status_code == 200
    assert "MailServerDown" in page
    assert "shop.py" in page
    assert "order_id" in page
    assert "planted-secret" not in shown.content.decode()
    assert "First seen" in page
    assert "Last seen" in page
    assert {name: number for name, number, _ in shown.context["counts"]}["Failed"] == "6"


def test_the_traceback_begins_with_the_projects_own_frame(played, operator):
    played["import"].refresh_from_db()
    traceback = operator.get(group_url(played["import"])).context["traceback"]
    assert "shop.py" in traceback.project_frames[0].location


def test_without_the_permission_neither_message_nor_arguments_are_shown(played, session_with):
    played["failed"].refresh_from_db()
    shown = session_with("view_task").get(group_url(played["failed"])).content.decode()
    assert "customer" not in shown
    assert "MailServerDown" in shown
    assert "order_id" not in shown


def test_nobody_sees_a_group_without_permission(played, session_with):
    played["failed"].refresh_from_db()
    assert session_with("view_worker").get(group_url(played["failed"])).status_code == 403


@pytest.mark.parametrize("fingerprint", ["0" * 16, "nonsense", "%F0%9F%92%A3"])
def test_a_group_that_is_gone_says_so(fingerprint, database, operator):
    gone = operator.get(f"{GROUPS}{fingerprint}/")
    assert gone.status_code == 404
    assert "No task with this error is stored" in text_of(gone)


def test_open_retried_and_succeeded_are_counted(database, operator):
    made = fail(5, ValueError("boom"))
    taskqueue.retry([task.pk for task in made[:3]])
    [first, second] = taskqueue.claim("w", limit=2)
    taskqueue.complete_task(first)
    taskqueue.fail_task(second, KeyError("other"))
    found = failure_groups.group_outcomes(made[0].fingerprint, database)
    assert (found.failed, found.open, found.retried, found.succeeded) == (5, 2, 3, 1)
    assert "3 tasks of this group were retried already; 1 succeeded since." in text_of(ask(operator, made[0]))


def test_more_failures_than_are_looked_at_are_said_to_be(database, operator, monkeypatch):
    monkeypatch.setattr(failure_groups, "LOOKED_AT", 2)
    [first, *_] = fail(3, ValueError("boom"))
    assert "count only the newest 2 failures" in text_of(operator.get(group_url(first)))


def begin_with_an_empty_table(using: str) -> None:
    """Without the dead rows of other tests, which ANALYZE would stumble over. Rolled back with the test."""
    with connections[using].cursor() as cursor:
        cursor.execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
        cursor.execute("TRUNCATE django_tasks_retry_task")
        cursor.execute("ALTER TABLE django_tasks_retry_task ENABLE TRIGGER USER")


def test_a_group_too_large_to_count_is_estimated_where_the_database_can(database, operator, monkeypatch):
    for module in (statistics, failure_groups):
        monkeypatch.setattr(module, "COUNTED", 20)
    if database == "postgresql":
        begin_with_an_empty_table(database)
    [first, *_] = fail(40, ValueError("boom"))
    fail(3, KeyError("else"))
    if database == "postgresql":
        with connections[database].cursor() as cursor:
            cursor.execute("ANALYZE django_tasks_retry_task")
        assert failure_groups.estimate_groups(database)[first.fingerprint] == 40
    said = operator.get(group_url(first)).context["counts"][0][1]
    assert said == "≈ 40"


def test_the_confirmation_names_the_error_and_not_its_fingerprint(database, operator):
    [task] = fail(1, ValueError("no such warehouse"))
    asked = ask(operator, task)
    assert "ValueError: no such warehouse" in text_of(asked)
    assert task.fingerprint not in text_of(asked)


def test_the_list_finds_groups_by_words(database, operator):
    fail(1, ValueError("no such warehouse"))
    fail(1, KeyError("colour"), function=tasks.explode, queue="emails")
    found = {query: len(operator.get(GROUPS, {"q": query}).context["groups"]) for query in WORDS}
    assert found == WORDS


def test_the_list_finds_a_word_as_far_into_a_message_as_the_search_of_tasks_does(database, operator):
    fail(1, ValueError(f"{'no such ' * 300}warehouse"))
    assert operator.get(f"{BASE}/task/", {"q": "error:warehouse"}).context["cl"].result_count == 1
    assert len(operator.get(GROUPS, {"q": "warehouse"}).context["groups"]) == 1


WORDS = {"": 2, "warehouse": 1, "VALUEERROR such": 1, "explode": 1, "emails": 1, "keyerror warehouse": 0, "error": 2}


def test_a_search_does_not_tell_what_may_not_be_seen(database, session_with):
    fail(1, ValueError("no such warehouse"))
    staff = session_with("view_task")
    assert not staff.get(GROUPS, {"q": "warehouse"}).context["groups"]
    assert staff.get(GROUPS, {"q": "ValueError"}).context["groups"]


def test_the_list_has_pages_over_all_groups(database, operator, monkeypatch):
    monkeypatch.setattr(failures, "PER_PAGE", 2)
    for word in ("one", "two", "three", "four", "five"):
        fail(1, ValueError(word))
    pages = [operator.get(GROUPS, {"p": n}).context["groups"] for n in (1, 2, 3)]
    assert [group["message"] for page in pages for group in page] == ["five", "four", "three", "two", "one"]
    assert "5 groups" in text_of(operator.get(GROUPS))
    assert "p=2" in operator.get(GROUPS, {"q": "ValueError"}).content.decode()


@pytest.mark.fault("retries_all_due_at_once")
def test_retries_are_spread_evenly_by_the_queues_clock(database, operator):
    made = fail(6, ValueError("boom"))
    asked = ask(operator, made[0], spread="30")
    assert 'value="30"' in asked.content.decode()
    before = clock.now(database)
    page = text_of(act(operator, asked, spread="30"))
    after = clock.now(database)
    etas = list(Task.objects.filter(retry_of__isnull=False).order_by("retry_of").values_list("eta", flat=True))
    assert [b - a for a, b in itertools.pairwise(etas)] == [timedelta(minutes=5)] * 5
    assert before <= etas[0] <= after
    assert "6 tasks retried." in page
    assert "They are due one after another" in page
    [event] = Task.objects.get(retry_of=made[0]).events.all()
    assert event.actor.startswith("user:")
    assert event.data["reason"] == "INC-204"


def test_a_spread_goes_on_from_batch_to_batch(database, operator, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.admin.bulk.BATCH", 2)
    monkeypatch.setattr("django_tasks_retry.admin.bulk.SECONDS", -1.0)
    made = fail(5, ValueError("boom"))
    page = act(operator, ask(operator, made[0]), spread="5")
    while "token" in (page.context or {}):
        page = act(operator, page)
    etas = list(Task.objects.filter(retry_of__isnull=False).order_by("retry_of").values_list("eta", flat=True))
    assert [b - a for a, b in itertools.pairwise(etas)] == [timedelta(minutes=1)] * 4


def test_a_spread_is_over_all_that_match_however_many_the_confirmation_counts(database, operator, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.admin.parts.selection.DRY_RUN_LIMIT", 2)
    made = fail(5, ValueError("boom"))
    act(operator, ask(operator, made[0]), spread="5")
    etas = list(Task.objects.filter(retry_of__isnull=False).order_by("retry_of").values_list("eta", flat=True))
    assert etas[-1] - etas[0] == timedelta(minutes=4)


def test_the_service_layer_staggers_what_it_retries(database):
    made = fail(3, ValueError("boom"))
    start = clock.now(database)
    retried = taskqueue.retry([each.pk for each in made], eta=start, step=timedelta(seconds=7))
    assert [task.eta - start for task in retried] == [timedelta(seconds=7 * n) for n in range(3)]


def test_some_are_retried_first_and_the_others_wait_for_them(database, operator, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.admin.bulk.BATCH", 2)
    made = fail(7, ConnectionError("boom"))
    asked = ask(operator, made[0])
    assert "First retry only" in text_of(asked)
    page = text_of(act(operator, asked, canaries="3", enough="60"))
    assert "7 tasks retried." in page
    assert "The others wait until the first 3 have ended" in page
    assert Task.objects.suspended().count() == 4
    leases = taskqueue.claim("w", limit=9)
    taskqueue.finish([taskqueue.Completed(each, None) for each in leases])
    assert len(leases) == 3
    assert len(taskqueue.CanarySweep()()) == 4
    assert len(taskqueue.claim("w", limit=9)) == 4


def test_a_stopped_request_goes_on_with_the_same_canaries(database, operator, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.admin.bulk.SECONDS", -1.0)
    monkeypatch.setattr("django_tasks_retry.admin.bulk.BATCH", 2)
    made = fail(5, ConnectionError("boom"))
    shown = act(operator, ask(operator, made[0]), canaries="3", enough="100")
    while shown.context and "token" in shown.context:
        shown = act(operator, shown)
    assert Task.objects.suspended().values("waits_for").distinct().count() == 1
    assert Task.objects.suspended().count() == 2


@pytest.mark.parametrize("canaries", ["-1", "five", "101"])
def test_canaries_that_are_none_are_refused(canaries, database, operator):
    [task] = fail(1, ConnectionError("boom"))
    refused = act(operator, ask(operator, task), canaries=canaries, enough="80")
    assert refused.status_code == 400
    assert "at most 100. Nothing was changed." in text_of(refused)
    assert not Task.objects.pending().exists()


@pytest.mark.parametrize("spread", ["-1", "1.5", "soon", "999999", "٣"])
def test_a_spread_that_is_none_is_refused(spread, database, operator):
    [task] = fail(1, ValueError("boom"))
    refused = act(operator, ask(operator, task), spread=spread)
    assert refused.status_code == 400
    assert "a whole number of minutes" in text_of(refused)
    assert Task.objects.count() == 1


def test_a_retry_without_a_spread_is_due_at_once(database, operator):
    [task] = fail(1, ValueError("boom"))
    act(operator, ask(operator, task), spread="0")
    assert [lease.id for lease in taskqueue.claim("w")] == [Task.objects.get(retry_of=task).pk]


def test_every_page_links_to_the_group(played, operator):
    played["failed"].refresh_from_db()
    link = f'href="{group_url(played["failed"])}"'
    for page in ("overview/", "failuregroup/", f"task/{played['failed'].pk}/change/"):
        assert link in operator.get(f"{BASE}/{page}").content.decode(), page


def test_a_group_shows_the_buttons_that_the_user_may_press(played, session_with):
    played["failed"].refresh_from_db()
    page = session_with(*PERMISSIONS).get(group_url(played["failed"])).content.decode()
    assert "Retry all…" not in page
    assert "Cancel all…" not in page


@pytest.mark.fault("past_failures_shown_as_future")
def test_what_has_failed_is_never_said_to_fail_in_the_future(database, operator, monkeypatch):
    """The clock was read before the rows were: a failure in between is new, not to come."""
    fail(1, ValueError("boom"))
    clock.shift(timedelta(seconds=-1), database)
    for page in (GROUPS, f"{BASE}/overview/"):
        assert [row["last_text"] for row in operator.get(page).context["groups"]] == ["0 ms ago"]


@pytest.mark.fault("run_now_in_a_paused_queue")
def test_run_now_in_a_paused_queue_says_that_it_waits(database, operator):
    task = Task.objects.enqueue(tasks.scheduled, [1], eta=timedelta(days=3), queue="emails")
    taskqueue.pause("emails", by="ann")
    single = operator.post(f"{BASE}/task/{task.pk}/run-now/", follow=True)
    assert "Queue emails is paused" in text_of(single)
    data = {"action": "run_now_selected", "index": 0, "_selected_action": [str(task.pk)]}
    asked = operator.post(f"{BASE}/task/", data)
    assert "Queue emails is paused" in text_of(asked)
    assert "Queue emails is paused" in text_of(act(operator, asked))


def test_a_group_is_found_however_many_there_are(database):
    assert failure_groups.group_head(uuid4().hex[:16], database) is None
    [task] = fail(1, ValueError("boom"))
    head = failure_groups.group_head(task.fingerprint, database)
    assert head == failure_groups.group_heads(database)[0]
    assert head.sample == task.pk


def test_the_latest_of_failed_and_waiting_tasks_is_the_last_failure(database, travel):
    fail(1, ValueError("boom"))
    travel(60)
    waiting = Task.objects.enqueue(tasks.noop, max_attempts=3)
    [lease] = taskqueue.claim("w")
    taskqueue.fail_task(lease, ValueError("boom"))
    waiting.refresh_from_db()
    [head] = failure_groups.group_heads(database)
    assert head.last_failed_at == waiting.updated_at
