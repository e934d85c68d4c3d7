"""Every address that changes something: POST only, by permission only, and it leaves its traces."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.test import Client

from django_tasks_retry.models import OperatorEvent, Queue, Schedule, Task, TaskEvent, Worker
from tests.admin import scene
from tests.admin.conftest import PERMISSIONS

BASE = "/admin/django_tasks_retry"


class Door(NamedTuple):
    """An address that changes something, for whom, on what, and the event it leaves."""

    url: str
    permission: str
    on: str
    event: str


DOORS = [
    Door("/task/{task}/retry/", "retry_task", "import", "task.retried"),
    Door("/task/{task}/cancel/", "cancel_task", "running", "task.cancelled"),
    Door("/task/{task}/run-now/", "retry_task", "scheduled", "task.rescheduled"),
    Door("/queue/bulk/pause/", "pause_queue", "import", "queue.paused"),
    Door("/queue/emails/resume/", "pause_queue", "import", "queue.resumed"),
    Door("/schedule/nightly/pause/", "pause_schedule", "import", "schedule.paused"),
    Door("/schedule/stock/resume/", "pause_schedule", "import", "schedule.resumed"),
    Door("/schedule/nightly/run/", "run_schedule", "import", "schedule.run_now"),
    Door("/schedule/nightly/delete/", "delete_schedule", "import", "schedule.deleted"),
    Door(f"/worker/{scene.WORKERS[0]}/stop/", "control_worker", "import", "worker.stop_asked"),
]
BULK = [("retry", "retry_task", "import"), ("cancel", "cancel_task", "running"), ("run-now", "retry_task", "scheduled")]


def state() -> list[Any]:
    """Everything that a door could change."""
    return [
        list(model.objects.order_by("pk").values())
        for model in (Task, TaskEvent, Queue, Schedule, Worker, OperatorEvent, LogEntry)
    ]


def latest_event(kind: str) -> dict[str, Any]:
    if kind.startswith("task."):
        event = TaskEvent.objects.filter(kind=kind).latest("id")
        return {"actor": event.actor, "reason": event.data["reason"]}
    return OperatorEvent.objects.filter(kind=kind).values("actor", "reason").latest("id")


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.event)
class TestEveryDoor:
    def url(self, door: Door, played: dict[str, Task]) -> str:
        return BASE + door.url.format(task=played[door.on].pk)

    def test_get_is_refused(self, door, played, operator):
        before = state()
        assert operator.get(self.url(door, played)).status_code == 405
        assert state() == before

    def test_without_its_permission_it_is_refused(self, door, played, session_with):
        others = {each.permission for each in DOORS} - {door.permission}
        before = state()
        assert session_with(*PERMISSIONS, *others).post(self.url(door, played), {"reason": "x"}).status_code == 403
        assert state() == before

    def test_without_a_session_it_leads_to_the_login(self, door, played):
        before = state()
        response = Client().post(self.url(door, played))
        assert response.status_code == 302
        assert "/login/" in response.url
        assert state() == before

    def test_without_the_token_against_forgery_it_is_refused(self, door, played, operator):
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = operator.cookies
        before = state()
        assert strict.post(self.url(door, played)).status_code == 403
        assert state() == before

    def test_with_its_permission_alone_it_opens_and_is_recorded(self, door, played, session_with):
        client = session_with("view_task", "view_queue", "view_worker", "view_schedule", door.permission)
        response = client.post(self.url(door, played), {"reason": "INC-204"}, follow=True)
        assert response.status_code == 200
        [entry] = LogEntry.objects.all()
        assert latest_event(door.event) == {"actor": f"user:{entry.user_id}", "reason": "INC-204"}
        assert "INC-204" in entry.change_message


@pytest.mark.parametrize(("action", "permission", "which"), BULK)
class TestTheDoorForMany:
    def ask(self, client: Client, action: str, task: Task) -> Any:
        name = f"{action.replace('-', '_')}_selected"
        return client.post(f"{BASE}/task/", {"action": name, "_selected_action": [str(task.pk)], "index": 0})

    def test_asking_changes_nothing(self, action, permission, which, played, operator):
        before = state()
        response = self.ask(operator, action, played[which])
        assert response.status_code == 200
        assert "Are you sure?" in response.content.decode()
        assert state() == before

    def test_asking_without_permission_changes_nothing_and_asks_nothing(
        self, action, permission, which, played, session_with
    ):
        others = {each for _, each, _ in BULK} - {permission}
        response = self.ask(session_with(*PERMISSIONS, *others), action, played[which])
        assert "Are you sure?" not in response.content.decode()

    def test_all_matching_needs_the_permission_and_no_ticked_row(
        self, action, permission, which, played, operator, session_with
    ):
        data = {"action": f"{action.replace('-', '_')}_selected", "select_across": "1", "index": 0}
        others = {each for _, each, _ in BULK} - {permission}
        refused = session_with(*PERMISSIONS, *others).post(f"{BASE}/task/", data, follow=True)
        assert "Are you sure?" not in refused.content.decode()
        assert "Are you sure?" in operator.post(f"{BASE}/task/", data).content.decode()

    def test_a_confirmation_is_of_no_use_to_others(self, action, permission, which, played, operator, session_with):
        token = self.ask(operator, action, played[which]).context["token"]
        before = state()
        session_with(*PERMISSIONS, permission).post(f"{BASE}/task/bulk-action/", {"token": token, "reason": "x"})
        assert state() == before

    def test_a_permission_that_was_taken_away_counts(self, action, permission, which, played, session_with):
        client = session_with("view_task", permission)
        token = self.ask(client, action, played[which]).context["token"]
        get_user_model().objects.get(username="staff").user_permissions.clear()
        before = state()
        assert client.post(f"{BASE}/task/bulk-action/", {"token": token, "reason": "x"}).status_code == 403
        assert state() == before

    def test_a_confirmation_that_was_altered_is_refused(self, action, permission, which, played, operator):
        token = self.ask(operator, action, played[which]).context["token"]
        before = state()
        for wrong in (token[:-1], token + "x", "", "e30:1:2"):
            operator.post(f"{BASE}/task/bulk-action/", {"token": wrong, "reason": "x"})
        assert state() == before

    def test_get_is_refused(self, action, permission, which, played, operator):
        assert operator.get(f"{BASE}/task/bulk-action/").status_code == 405

    def test_confirmed_it_is_done_and_recorded(self, action, permission, which, played, session_with):
        client = session_with("view_task", permission)
        token = self.ask(client, action, played[which]).context["token"]
        response = client.post(f"{BASE}/task/bulk-action/", {"token": token, "reason": "INC-204"}, follow=True)
        assert response.redirect_chain
        [entry] = LogEntry.objects.all()
        assert entry.object_id == str(played[which].pk)
        assert TaskEvent.objects.latest("id").data["reason"] == "INC-204"
        assert TaskEvent.objects.latest("id").actor == f"user:{entry.user_id}"


def test_nothing_is_added_edited_or_deleted(played, operator):
    task = played["failed"].pk
    before = state()
    for url in ("add/", f"{task}/delete/", f"{task}/change/"):
        for response in (operator.post(f"{BASE}/task/{url}", {"status": "SUCCESS", "post": "yes"}),):
            assert response.status_code == 403
    assert operator.get(f"{BASE}/task/add/").status_code == 403
    assert state() == before


@pytest.mark.parametrize("page", ["overview", "task", "failuregroup", "queue", "worker"])
def test_pages_are_not_for_everybody(page, played, session_with):
    assert session_with().get(f"{BASE}/{page}/").status_code == 403


def test_who_may_only_look_sees_no_button(played, session_with):
    client = session_with("view_task", "view_queue", "view_worker")
    for page in ("overview/", "task/", "failuregroup/", "queue/", "worker/", f"task/{played['failed'].pk}/change/"):
        html = client.get(f"{BASE}/{page}").content.decode()
        assert 'name="reason"' not in html
        assert "Retry all" not in html
        assert 'name="action"' not in html


def test_nobody_pauses_a_queue_that_does_not_exist(played, operator):
    assert operator.post(f"{BASE}/queue/nowhere/pause/").status_code == 404
    assert not Queue.objects.filter(name="nowhere").exists()
