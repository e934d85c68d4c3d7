"""The page of lanes."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import FlowLimit, OperatorEvent, Queue, Task
from tests import tasks

BASE = "/admin/django_tasks_retry/flowlimit/"
NASTY = "<script>alert(1)</script>'\"&"


def shown(client, **query) -> str:
    response = client.get(BASE, query)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def full(database):
    Task.objects.enqueue_many([(tasks.sync, [7]) for _ in range(3)])
    assert len(taskqueue.claim("w/1", limit=5)) == 2


@pytest.mark.usefixtures("full")
def test_it_tells_what_is_full_who_waits_and_who_paused_what(operator):
    taskqueue.pause("stripe", kind="lane", by="ann", reason="API down")
    page = shown(operator)
    for text in ("tenant-7", "2 / 2", "stripe", "paused by ann", "API down"):
        assert text in page
    for shape, label in (("▮", "full"), ("‖", "paused")):
        assert f'<span aria-hidden="true">{shape}</span> {label}' in page


@pytest.mark.usefixtures("full")
def test_it_tells_how_long_the_oldest_task_of_a_lane_has_waited(operator, travel):
    travel(240)
    Task.objects.enqueue(tasks.sync, [7])
    travel(60)
    assert '"Oldest wait">5 min</td>' in shown(operator)
    taskqueue.pause("stripe", kind="lane", by="ann", reason="API down")
    assert '"Oldest wait">—</td>' in shown(operator)


def test_a_lane_is_paused_limited_and_resumed_with_a_reason(operator):
    operator.post(f"{BASE}pause/", {"lane": "stripe", "reason": "API down"})
    operator.post(f"{BASE}limit/", {"lane": "stripe", "concurrency": "3", "starts": "", "per": "", "reason": "agreed"})
    state = FlowLimit.objects.get()
    assert (state.paused_at is not None, state.reason, state.running, state.decided_for) == (
        True,
        "API down",
        3,
        "agreed",
    )
    operator.post(f"{BASE}resume/", {"lane": "stripe", "reason": "back"})
    assert FlowLimit.objects.get().paused_at is None
    kinds = OperatorEvent.objects.order_by("id").values_list("kind", "reason")
    assert list(kinds) == [("lane.paused", "API down"), ("lane.limited", "agreed"), ("lane.resumed", "back")]


@pytest.mark.parametrize("wrong", [{"lane": ""}, {"lane": "queue:crm"}, {"lane": "a" * 200}])
def test_what_names_no_lane_changes_nothing(operator, wrong):
    assert operator.post(f"{BASE}pause/", wrong).status_code == 302
    assert operator.post(f"{BASE}limit/", {"lane": "a", "concurrency": "-1"}).status_code == 302
    assert not FlowLimit.objects.exists()


def test_who_may_only_look_changes_nothing(session_with):
    client = session_with("view_flowlimit")
    assert "Pause or limit" not in shown(client)
    assert client.post(f"{BASE}pause/", {"lane": "a"}).status_code == 403


def test_a_queue_is_paused_here_only_by_those_who_may_pause_queues(session_with):
    client = session_with("view_flowlimit", "control_lane")
    assert client.post(f"{BASE}pause/", {"lane": "queue:default"}).status_code == 403
    assert not Queue.objects.exists()


def test_who_may_not_view_lanes_is_refused(session_with):
    assert session_with("view_task").get(BASE).status_code == 403


def test_names_and_reasons_are_texts(operator):
    taskqueue.pause(NASTY, kind="lane", by="ann", reason=NASTY)
    assert NASTY not in shown(operator, q="<script>")
