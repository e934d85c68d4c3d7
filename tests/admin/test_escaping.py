"""Everything in a row is text: on no page does it become markup, hide itself or flood the screen."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.test import override_settings

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Queue, Task
from django_tasks_retry.rules.failure import Code, Failure
from tests import tasks
from tests.admin import shop

BASE = "/admin/django_tasks_retry"
SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
REVERSED = "\u202egpj.exe\u2066"
FLOOD = "A" * 1_000_000
CORPUS = {
    "script": SCRIPT,
    "attribute": IMAGE,
    "reversed": REVERSED,
    "flood": FLOOD,
    "template": "{{ 7|add:7 }}{% debug %}",
}
QUEUES = {name: f"q {text}"[:64] for name, text in CORPUS.items()}
ANY_QUEUE = {
    "default": {
        "BACKEND": "django_tasks_retry.backend.RetryBackend",
        "QUEUES": [],
        "OPTIONS": {"MAX_ARGS_SIZE": 4_000_000, "MAX_RESULT_SIZE": 4_000_000},
    }
}


def suffer(text: str, queue: str) -> list[Task]:
    """A task in each status, with the text wherever a text can be."""
    call = {"args": [text], "kwargs": {text[:200]: {text[:200]: [text]}}, "queue": queue, "metadata": {"note": text}}
    done, failed, retrying, cancelled, waiting = Task.objects.enqueue_many(
        [{"func": tasks.noop, **call, "max_attempts": n} for n in (1, 1, 9, 1, 1)]
    )
    cancelled.cancel(by=text[:100], reason=text)
    leases = {lease.id: lease for lease in taskqueue.claim(f"{text[:60]}/1", limit=3, queues=["*"])}
    taskqueue.complete_task(leases[done.pk], {text[:200]: text})
    trouble = Failure(
        text[:2000], Code.EXCEPTION, f"mod.{text[:100]}", f'File "{text[:200]}", line 1, in {text[:100]}\n    {text}'
    )
    taskqueue.fail_task(leases[failed.pk], trouble)
    taskqueue.fail_task(leases[retrying.pk], trouble)
    return [done, failed, retrying, cancelled, waiting]


def pages(rows: list[Task], queue: str) -> list[str]:
    lists = ["overview/", "overview/?span=24h", "task/", "failuregroup/", "queue/", "worker/"]
    each = [f"task/{row.pk}/change/" for row in rows]
    return [*lists, f"task/?{'&'.join(['status=failed', 'window=1h'])}", *each]


@pytest.fixture
def _any_queue():
    with override_settings(TASKS=ANY_QUEUE):
        yield


@pytest.mark.usefixtures("_any_queue")
@pytest.mark.parametrize(
    ("on", "name"), [*(("sqlite", name) for name in CORPUS), ("postgresql", "flood")], indirect=["on"]
)
def test_hostile_content_stays_text_on_every_page(name, database, operator):
    text, queue = CORPUS[name], QUEUES[name]
    rows = suffer(text, queue)
    sign_on(text)
    taskqueue.pause(queue, by=text[:100], reason=text)
    operator.post(f"{BASE}/task/{rows[1].pk}/retry/", {"reason": text[:3000]})
    for page in pages(rows, queue):
        response = operator.get(f"{BASE}/{page}")
        assert response.status_code == 200, page
        check(response.content.decode(), page)
    for query in (
        {"queue": queue},
        {"q": text[:500]},
        {"q": f"queue:{text[:64]}"},
        {"task": text[:200]},
        {"fingerprint": text[:50]},
        {"older": text[:50]},
    ):
        response = operator.get(f"{BASE}/task/", query)
        assert response.status_code == 200, query
        check(response.content.decode(), str(query)[:80])


def sign_on(text: str) -> None:
    taskqueue.register_worker(
        text[:90], "default", host=text[:200], pid=1, version=text[:30], queues=[text[:60]], exclude=[text[:60]],
        tasks=[], processes=1, slots=1, running=0,
    )  # fmt: skip


def check(page: str, where: str) -> None:
    assert "<script>alert" not in page, where
    assert not re.search(r"<img[^>]*onerror", page), where
    # A form must send back what it was given; nobody reads it there.
    seen = re.sub(r'type="(?:hidden|text)"[^>]* value="[^"]*"|<input [^>]*name="[^"]*" value="[^"]*"', "", page)
    assert "\u202e" not in seen, where
    assert "\u2066" not in seen, where
    assert "14" not in re.findall(r"\b14\b(?=</code>)", page), where
    assert len(page) < 600_000, f"{where}: {len(page)}"


@pytest.mark.usefixtures("_any_queue")
def test_a_hostile_queue_can_be_paused_and_found(database, operator):
    queue = QUEUES["attribute"]
    Task.objects.enqueue(tasks.noop, queue=queue)
    page = operator.get(f"{BASE}/queue/").content.decode()
    [url] = [html.unescape(found) for found in re.findall(r'action="([^"]+/pause/)"', page) if "onerror" in found]
    operator.post(url, {"reason": SCRIPT})
    assert Queue.objects.get(name=queue).paused_at is not None


@pytest.mark.fault("secrets_in_texts")
def test_secrets_are_never_shown(database, operator):
    task = Task.objects.enqueue(
        shop.send_receipt, [1, "a@example.com"], {"api_token": "planted-1"}, metadata={"authorization": "planted-2"}
    )
    nested = Task.objects.enqueue(tasks.noop, kwargs={"outer": [{"password": "planted-3"}]}, max_attempts=1)
    by_place = Task.objects.enqueue(shop.send_receipt, [1, "a@example.com", "planted-4"])
    for lease in taskqueue.claim("w", limit=3):
        try:
            raise ValueError(
                'cannot log in with password=planted-5, {"secret_key": "planted-6"}, Authorization: Bearer planted-7'
            )
        except ValueError as error:
            taskqueue.fail_task(lease, error)
    for page in (
        "task/",
        "failuregroup/",
        "overview/",
        *(f"task/{each.pk}/change/" for each in (task, nested, by_place)),
    ):
        shown = operator.get(f"{BASE}/{page}").content.decode()
        assert "planted" not in shown, page
    assert "a@example.com" in operator.get(f"{BASE}/task/{task.pk}/change/").content.decode()


def test_without_permission_no_payload_is_shown(database, session_with):
    task = Task.objects.enqueue(tasks.explode, ["planted argument"], max_attempts=1, metadata={"note": "planted note"})
    done = Task.objects.enqueue(tasks.add, [1, 2])
    leases = {lease.id: lease for lease in taskqueue.claim("w", limit=2)}
    taskqueue.fail_task(leases[task.pk], ValueError("planted message"))
    taskqueue.complete_task(leases[done.pk], "planted result")
    client = session_with("view_task")
    for page in ("task/", "failuregroup/", "overview/", f"task/{task.pk}/change/", f"task/{done.pk}/change/"):
        shown = client.get(f"{BASE}/{page}").content.decode()
        assert "planted" not in shown, page
        assert "test_escaping.py" not in shown, page
    assert "ValueError" in client.get(f"{BASE}/task/").content.decode()


def test_a_clock_far_from_ours_breaks_no_page(database, operator):
    rows = suffer("x", "default")
    clock.shift(timedelta(days=-400), database)
    for page in pages(rows, "default"):
        assert operator.get(f"{BASE}/{page}").status_code == 200, page
