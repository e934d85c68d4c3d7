"""The list: what it shows, filters and finds."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.test import override_settings

from django_tasks_retry import taskqueue
from django_tasks_retry.admin.parts import filters
from django_tasks_retry.models import Task
from django_tasks_retry.rules.names import short_id
from django_tasks_retry.taskqueue import statistics
from tests import tasks
from tests.admin import scene
from tests.admin.test_limits import ANY_QUEUE

LIST = "/admin/django_tasks_retry/task/"


def found(client, **query) -> set[str]:
    return {str(task.pk) for task in client.get(LIST, query).context["cl"].result_list}


def test_the_derived_statuses_split_the_pending_tasks(played, operator):
    assert str(played["scheduled"].pk) in found(operator, status="scheduled")
    assert found(operator, status="retrying") == {str(played["retrying"].pk)}
    ready = found(operator, status="ready")
    assert str(played["orphan"].pk) in ready
    assert not ready & (found(operator, status="scheduled") | found(operator, status="retrying"))
    assert len(ready) + 2 == Task.objects.pending().count()


@pytest.mark.parametrize("status", ["running", "success", "failed", "cancelled"])
def test_the_other_statuses_are_those_of_the_rows(status, played, operator):
    rows = Task.objects.filter(status=status.upper()).order_by("-pk")[:25]
    assert found(operator, status=status) == {str(pk) for pk in rows.values_list("pk", flat=True)}
    assert found(operator, status=status)


def test_filters_combine(played, operator):
    assert found(operator, queue="emails", status="failed") == {
        str(pk) for pk in Task.objects.failed().filter(queue="emails").values_list("pk", flat=True)
    }
    path = played["orphan"].func_path
    assert len(found(operator, task=path)) == 3
    assert found(operator, task=path, queue="emails") == set()


def test_a_time_window_goes_by_the_queues_clock(database, operator, travel):
    task = Task.objects.enqueue(tasks.noop)
    assert found(operator, window="15m") == {str(task.pk)}
    travel(3600)
    assert found(operator, window="15m") == set()
    assert found(operator, window="24h") == {str(task.pk)}


def test_an_id_or_its_beginning_finds_the_task(played, operator):
    task = str(played["import"].pk)
    for text in (task, task.upper(), task.replace("-", ""), task[:20]):
        assert task in found(operator, q=text)
    assert found(operator, q=task) == {task}
    assert found(operator, q=str(uuid.uuid4())) == set()


def test_the_short_id_of_log_and_list_finds_the_task(played, operator):
    task = str(played["import"].pk)
    assert task.startswith(short_id(task))
    assert task in found(operator, q=short_id(played["import"].pk))
    assert f'<code title="{task}">{short_id(task)}</code>' in operator.get(LIST, {"q": task}).content.decode()


def test_qualifiers_search_queue_task_and_error(played, operator):
    assert len(found(operator, q="task:monthly_report")) == 3
    assert found(operator, q="task:monthly_report queue:emails") == set()
    assert found(operator, q="queue:reports") == found(operator, queue="reports")
    assert found(operator, q="error:IBAN") == found(operator, q="error:valueerror")
    assert found(operator, q="error:iban", status="retrying") == {str(played["retrying"].pk)}
    assert str(played["import"].pk) in found(operator, q="error:iban")


def test_free_text_is_answered_with_help_not_with_a_scan(played, operator):
    response = operator.get(LIST, {"q": "customer0@example.com"})
    assert list(response.context["cl"].result_list) == []
    assert "is not an id" in response.content.decode()


def test_rows_tell_status_attempts_time_and_error(played, operator):
    page = operator.get(LIST, {"q": f"{played['import'].pk}"}).content.decode()
    assert "1/1" in page
    assert "ValueError: row 0: &#x27;0&#x27; is not an IBAN" in page
    assert '<span aria-hidden="true">✕</span> Failed' in page
    assert "in 4 h 59 min" in operator.get(LIST, {"status": "scheduled"}).content.decode()


def test_the_filter_lists_queues_whose_tasks_only_ever_waited(database, operator, settings):
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    Task.objects.enqueue(tasks.noop, queue="api")
    Task.objects.enqueue(tasks.noop, queue="late", eta=timedelta(days=1))
    page = operator.get(LIST).content.decode()
    assert all(f'<option value="{queue}">' in page for queue in ("api", "late"))


def test_the_filter_lists_queues_that_ran_tasks(database, operator):
    """Settings with QUEUES = [] name no queue. Those that only ever waited are listed, too."""
    with override_settings(TASKS=ANY_QUEUE):
        Task.objects.enqueue(tasks.noop, queue="only ever waited")
        taskqueue.add_stats([taskqueue.Stat("api", "shop.pay", completed=2, retried=1)])
        offered = operator.get(LIST).context["cl"].choices
    assert dict(offered.queues)["api"] == 3
    assert dict(offered.queues)["only ever waited"] == 0
    assert dict(offered.functions)["shop.pay"] == 3
    assert {"queue:api", "task:pay", 'queue:"only ever waited"', "status:failed", "arg:"} <= set(offered.words)


def test_lanes_and_workers_are_offered_to_those_who_may_view_them(played, operator, session_with):
    taskqueue.limit_lane("tenant-7", concurrency=1)
    wanted = {"lane:tenant-7", f"worker:{scene.WORKERS[0]}"}
    found = [client.get(LIST).context["cl"].choices.words for client in (session_with("view_task"), operator)]
    assert [wanted & set(words) for words in found] == [set(), wanted]


def test_chosen_filters_are_chips_that_can_be_removed_one_by_one(played, operator):
    response = operator.get(LIST, {"status": "failed", "queue": "emails", "window": "24h"})
    chips = {title: (value, url) for title, value, url in response.context["cl"].chips}
    assert {title: value for title, (value, _url) in chips.items()} == {
        "status": "Failed", "queue": "emails", "time enqueued": "Last 24 hours",
    }  # fmt: skip
    assert chips["queue"][1] == "?status=failed&window=24h"
    assert found(operator, status="failed", window="24h", queue="") == found(operator, status="failed", window="24h")


def test_a_task_that_was_retried_says_so_and_leads_there(played, operator):
    url = f"{LIST}{{}}/change/"
    assert 'class="dtr-retried"' not in operator.get(LIST, {"status": "failed"}).content.decode()
    first, newest = played["import"].retry(by="tests"), played["import"].retry(by="tests")
    page = operator.get(LIST, {"status": "failed"}).content.decode()
    assert f'class="dtr-retried" href="{url.format(newest.pk)}"' in page
    assert str(first.pk) not in page
    assert page.count("dtr-retried") == 1


def test_an_update_holds_the_rows_alone(played, operator):
    whole = operator.get(LIST, {"status": "failed", "q": "queue:emails"})
    part = operator.get(LIST, {"status": "failed", "q": "queue:emails"}, headers={"X-Console": "update"})
    text = part.content.decode()
    assert [row["pk"] for row in part.context["cl"].rows] == [row["pk"] for row in whole.context["cl"].rows] != []
    assert all(f'data-region="{name}"' in text for name in ("results", "pages", "as-of"))
    assert "<datalist" not in text
    assert len(text) * 2 < len(whole.content)


def test_an_update_says_nothing_about_the_search_that_a_later_page_would_repeat(played, operator):
    operator.get(LIST, {"q": "nonsense"}, headers={"X-Console": "update"})
    assert "is not an id" not in operator.get(LIST).content.decode()


def test_an_empty_install_shows_how_to_begin(database, operator):
    for page in (LIST, "/admin/django_tasks_retry/overview/"):
        shown = operator.get(page).content.decode()
        assert "from yourapp.tasks import hello" in shown
        assert "hello.enqueue(" in shown
        assert "python manage.py runworker" in shown


def test_counts_stop_at_the_cap_and_the_list_goes_on(database, operator, monkeypatch):
    monkeypatch.setattr(statistics, "CAP", 60)
    every = Task.objects.enqueue_many([(tasks.noop,)] * 70)
    response = operator.get(LIST, {"p": 3})
    shown = response.context["cl"]
    assert shown.result_count == 60
    assert shown.count_text.startswith("≈ ")
    assert shown.older_query
    rest = operator.get(LIST + shown.older_query).context["cl"]
    assert {task.pk for task in rest.result_list} == {task.pk for task in every[:10]}


def test_filters_offer_what_settings_and_registry_know(database, operator):
    Task.objects.enqueue(tasks.noop)
    page = operator.get(LIST).content.decode()
    for queue in ("default", "emails", "reports", "bulk", "shop.tasks.send_receipt"):
        assert f'<option value="{queue}">' in page


def test_nonsense_in_the_address_is_no_error(played, operator):
    for query in (
        {"status": "nonsense"},
        {"window": "nonsense"},
        {"older": "nonsense"},
        {"p": "999"},
        {"fingerprint": "nonsense"},
        {"o": "1.2"},
        {"all": ""},
        {"queue": "x" * 500},
    ):
        response = operator.get(LIST, query, follow=True)
        assert response.status_code == 200, query


def test_old_ids_can_be_looked_at_by_keyset(database, operator):
    first, second = Task.objects.enqueue_many([(tasks.noop,)] * 2)
    assert found(operator, older=str(second.pk)) == {str(first.pk)}
    assert found(operator, window="1h", older=str(second.pk)) == {str(first.pk)}


def test_a_task_of_long_ago_is_still_found(database, operator, travel):
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(days=30))
    travel(86400 * 20)
    assert found(operator, status="scheduled") == {str(task.pk)}


class TestHowFarTheListLooks:
    """A filter that no index serves looks at the newest tasks, says so, and goes on from there when asked."""

    @pytest.fixture
    def old(self, database, monkeypatch) -> Task:
        """One that was cancelled, below thirty that were not."""
        monkeypatch.setattr(statistics, "LOOK_BACK", 5)
        monkeypatch.setattr(filters, "LOOK_FURTHER_BACK", 10)
        task = Task.objects.enqueue(tasks.noop, queue="bulk")
        Task.objects.enqueue_many([(tasks.noop,)] * 30)
        task.cancel()
        return task

    @pytest.mark.parametrize(
        "query",
        [
            {"status": "cancelled"}, {"queue": "bulk"}, {"queue": "bulk", "window": "7d"}, {"q": "queue:bulk"},
            {"status": "cancelled", "window": "24h"},
        ],
    )  # fmt: skip
    def test_links_lead_to_every_match_however_old(self, query, old, operator):
        url, seen = LIST, set()
        for _ in range(5):
            response = operator.get(url, query)
            seen |= {task.pk for task in response.context["cl"].result_list}
            further = response.context["cl"].further_query
            if further is None:
                break
            assert "Look further back" in response.content.decode()
            url, query = LIST + further, {}
        assert seen == {old.pk}

    def test_it_says_how_far_it_looked(self, old, operator):
        shown = operator.get(LIST, {"queue": "bulk"}).content.decode()
        assert "Searched the newest 10 tasks, enqueued since" in shown

    def test_it_looks_further_by_itself_only_where_it_found_nothing(self, old, operator):
        newest = Task.objects.enqueue(tasks.noop, queue="bulk")
        shown = operator.get(LIST, {"queue": "bulk"})
        assert {task.pk for task in shown.context["cl"].result_list} == {newest.pk}
        assert "Searched the newest 5 tasks" in shown.content.decode()

    def test_a_window_that_was_looked_through_is_complete(self, old, operator, travel):
        travel(3600)
        Task.objects.enqueue_many([(tasks.noop,)] * 3)
        shown = operator.get(LIST, {"queue": "bulk", "window": "15m"}).context["cl"]
        assert (shown.result_count, shown.further_query, shown.notice) == (0, None, "")
