"""The console answers any request to any address with a page or a refusal, never with an error of ours."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib import admin
from django.test import Client, override_settings

from django_tasks_retry import taskqueue
from django_tasks_retry.admin.base import CONSOLE_MODELS
from django_tasks_retry.admin.parts import filters
from django_tasks_retry.models import Task
from tests import tasks
from tests.admin.conftest import make_user
from tests.admin.test_bulk import act, ask_about_all

BASE = "/admin/django_tasks_retry"
NOBODY = "00000000-0000-0000-0000-000000000000"
HOSTILE = {
    "nul": "\x00",
    "nul inside": "a\x00b", "surrogate": "\u00ed\u00a0\u0080", "markup": "'\"><script>",
    "digits": "9" * 400, "negative": "-1", "overflow": "1e999", "reversed": "\u202e", "long": "x" * 5000,
    "object": "{}", "path": "../..", "emoji": "😀" * 100, "zero id": "0" * 32,
    "last id": "f" * 32, "braced": "{" + "f" * 32 + "}", "percent sign": "%(x)s",
    "empty": "", "newline": "a\r\nb", "sql": "' OR 1=1 --", "qualified": 'error:"\x00" queue:',
}  # fmt: skip
PARAMETERS = [
    *sorted(filters.PARAMETERS), "p", "o", "e", "all", "_popup", "_to_field", "_facets", "id", "span",
    "unknown__lookup",
]  # fmt: skip
ADMINS = [admin.site._registry[model] for model in CONSOLE_MODELS]
ROUTES = sorted({str(each.pattern) for model_admin in ADMINS for each in model_admin.get_urls()})


@pytest.fixture
def client(database) -> Client:
    """A superuser's session, with a few rows of everything."""
    Task.objects.enqueue_many([{"func": tasks.noop, "max_attempts": 1}] * 2)
    taskqueue.fail_task(taskqueue.claim("w")[0], ValueError("x"))
    session = Client(raise_request_exception=False)
    session.force_login(make_user())
    return session


def addresses(text: str) -> list[str]:
    """Every address of the console, with this text wherever one takes a text."""
    found = []
    for model_admin in ADMINS:
        for each in model_admin.get_urls():
            route = str(each.pattern)
            for name in ("object_id", "fingerprint", "name", "worker_id"):
                for kind in ("path", "str"):
                    route = route.replace(f"<{kind}:{name}>", quote(text, safe=""))
            for name in ("batch", "run"):  # other texts than ids and numbers are no such address
                route = route.replace(f"<uuid:{name}>", NOBODY)
            route = route.replace("<int:number>", text if text.isdigit() else "4711")
            found.append(f"{BASE}/{model_admin.opts.model_name}/{route}")
    return found


def test_the_addresses_are_those_of_the_console():
    assert len(ROUTES) >= 14
    assert not any("<" in url for url in addresses("x"))


@pytest.mark.fault("console_fed_with_nonsense")
@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_in_any_place_breaks_any_address(name, client):
    text, answers = HOSTILE[name], {}
    for url in addresses(text):
        for method in ("get", "post"):
            data = {
                "reason": text,
                "token": text,
                "action": text,
                "index": text,
                "again": text,
                "_selected_action": text,
            }
            answers[method, url] = getattr(client, method)(url, data).status_code
    for parameter in PARAMETERS:
        answers["get", parameter] = client.get(f"{BASE}/task/", {parameter: text}).status_code
    for page in ("task", "overview", "failuregroup", "queue", "worker"):
        repeated = {key: [text, text] for key in sorted(filters.PARAMETERS | {"span", "p"})}
        answers["repeated", page] = client.get(f"{BASE}/{page}/", repeated).status_code
    ticked = {"action": "retry_selected", "index": 0, "_selected_action": [text, text]}
    answers["post", "ticked"] = client.post(f"{BASE}/task/", ticked).status_code
    for prefix in ("queue:", "task:", "error:"):
        answers["search", prefix] = client.get(f"{BASE}/task/", {"q": prefix + text}).status_code
    for parameter in filters.PARAMETERS:
        chosen = {"action": "cancel_selected", "select_across": "1", "index": 0}
        address = f"{BASE}/task/?{parameter}={quote(text)}"
        answers["act", parameter] = client.post(address, chosen).status_code
    assert not {where: status for where, status in answers.items() if status >= 500}


@pytest.mark.fault("console_fed_with_nonsense")
def test_a_reason_with_anything_in_it_is_kept_or_refused(client):
    task = Task.objects.pending().get()
    for text in HOSTILE.values():
        for url in ("queue/bulk/pause/", "queue/bulk/resume/", f"task/{task.pk}/run-now/"):
            assert client.post(f"{BASE}/{url}", {"reason": text}).status_code < 500


def test_a_refused_text_is_answered_with_words(client):
    response = client.get(f"{BASE}/task/", {"queue": "a\x00"})
    assert response.status_code == 400
    assert "too long or has invalid characters" in response.content.decode()


class TestABackendThatIsGone:
    OLD = {"BACKEND": "django_tasks_retry.backend.RetryBackend"}

    @pytest.fixture
    def orphans(self, database) -> list[Task]:
        with override_settings(TASKS={"default": self.OLD, "mail": self.OLD}):
            waiting, ended = Task.objects.enqueue_many([(tasks.noop.using(backend="mail"),)] * 2)
            taskqueue.cancel([ended.pk])
        return [waiting, ended]

    @pytest.mark.fault("backend_gone_from_the_settings")
    def test_its_tasks_are_shown_and_cancelled(self, orphans, operator):
        waiting, ended = orphans
        for page in ("task/", f"task/{waiting.pk}/change/", f"task/{ended.pk}/change/", "overview/", "queue/"):
            assert operator.get(f"{BASE}/{page}").status_code == 200, page
        shown = operator.get(f"{BASE}/task/{waiting.pk}/change/").content.decode()
        assert "TASKS has no RetryBackend named mail" in shown
        assert operator.post(f"{BASE}/task/{waiting.pk}/cancel/").status_code == 302
        waiting.refresh_from_db()
        assert waiting.status == "CANCELLED"

    @pytest.mark.fault("backend_gone_from_the_settings")
    def test_a_retry_is_refused_with_words(self, orphans, operator):
        response = operator.post(f"{BASE}/task/{orphans[1].pk}/retry/", follow=True)
        assert "the backend mail is not in TASKS" in response.content.decode()
        assert not Task.objects.filter(retry_of__isnull=False).exists()

    @pytest.mark.fault("backend_gone_from_the_settings")
    def test_among_others_they_are_skipped_and_counted(self, orphans, operator):
        Task.objects.enqueue(tasks.noop).cancel()
        response = act(operator, ask_about_all(operator, "retry_selected"), follow=True)
        assert "1 task retried." in response.content.decode()
        assert "2 tasks skipped" in response.content.decode()
