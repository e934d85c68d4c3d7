"""Every address that changes something: POST only, by permission only, and it leaves its traces."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from django_tasks_retry.admin.base import CONSOLE_MODELS
from django_tasks_retry.models import OperatorEvent, Queue, Schedule, Signal, Task, TaskEvent, Worker
from tests.admin import scene
from tests.admin.conftest import PERMISSIONS

BASE = "/admin/django_tasks_retry"
ON_ONE_DATABASE = pytest.mark.parametrize("on", ["sqlite"], indirect=True)
"""Refused requests never reach the queue: one database shows it."""


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
    Door("/task/{task}/signal/", "send_signal", "waiting", "signal"),
    Door("/task/{task}/answer/", "retry_task", "asking", "effect.answered"),
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
        for model in (Task, TaskEvent, Queue, Schedule, Worker, OperatorEvent, LogEntry, Signal)
    ]


def latest_event(kind: str) -> dict[str, Any]:
    if kind.startswith("task."):
        event = TaskEvent.objects.filter(kind=kind).latest("id")
        return {"actor": event.actor, "reason": event.data["reason"]}
    if kind == "signal":  # it has no reason: the log of actions keeps that
        return {"actor": Signal.objects.get().actor, "reason": LogEntry.objects.get().change_message.partition(": ")[2]}
    return OperatorEvent.objects.filter(kind=kind).values("actor", "reason").latest("id")


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.event)
class TestEveryDoor:
    def url(self, door: Door, played: dict[str, Task]) -> str:
        made = {"waiting": (scene.waiting_for, "approved:3"), "asking": (scene.asking_about, "charge")}
        make, name = made.get(door.on, (played.__getitem__, door.on))
        task = make(name)
        return BASE + door.url.format(task=task.pk)

    @ON_ONE_DATABASE
    def test_it_stays_shut_without_post_permission_session_or_token(self, door, played, operator, session_with):
        url, before = self.url(door, played), state()
        assert operator.get(url).status_code == 405
        others = {each.permission for each in DOORS} - {door.permission}
        assert session_with(*PERMISSIONS, *others).post(url, {"reason": "x", "effect": "charge"}).status_code == 403
        stranger = Client().post(url)
        assert stranger.status_code == 302
        assert "/login/" in stranger.url
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = operator.cookies
        assert strict.post(url).status_code == 403
        assert state() == before

    def test_with_its_permission_alone_it_opens_and_is_recorded(self, door, played, session_with):
        client = session_with("view_task", "view_queue", "view_worker", "view_schedule", door.permission)
        response = client.post(self.url(door, played), {"reason": "INC-204", "effect": "charge"}, follow=True)
        assert response.status_code == 200
        [entry] = LogEntry.objects.all()
        assert latest_event(door.event) == {"actor": f"user:{entry.user_id}", "reason": "INC-204"}
        assert "INC-204" in entry.change_message


@pytest.mark.parametrize(("action", "permission", "which"), BULK)
class TestTheDoorForMany:
    def ask(self, client: Client, action: str, task: Task) -> Any:
        name = f"{action.replace('-', '_')}_selected"
        return client.post(f"{BASE}/task/", {"action": name, "_selected_action": [str(task.pk)], "index": 0})

    @ON_ONE_DATABASE
    def test_asking_needs_the_permission_and_changes_nothing(
        self, action, permission, which, played, operator, session_with
    ):
        """For ticked rows, and for all that match without one."""
        others = {each for _, each, _ in BULK} - {permission}
        staff, before = session_with(*PERMISSIONS, *others), state()
        assert "Are you sure?" not in self.ask(staff, action, played[which]).content.decode()
        every = {"action": f"{action.replace('-', '_')}_selected", "select_across": "1", "index": 0}
        assert "Are you sure?" not in staff.post(f"{BASE}/task/", every, follow=True).content.decode()
        for asked in (self.ask(operator, action, played[which]), operator.post(f"{BASE}/task/", every)):
            assert asked.status_code == 200
            assert "Are you sure?" in asked.content.decode()
        assert state() == before

    @ON_ONE_DATABASE
    def test_a_confirmation_is_of_no_use_to_others_nor_altered_nor_by_get(
        self, action, permission, which, played, operator, session_with
    ):
        token = self.ask(operator, action, played[which]).context["token"]
        staff, before = session_with(*PERMISSIONS, permission), state()
        staff.post(f"{BASE}/task/bulk-action/", {"token": token, "reason": "x"})
        for wrong in (token[:-1], token + "x", "", "e30:1:2"):
            operator.post(f"{BASE}/task/bulk-action/", {"token": wrong, "reason": "x"})
        assert operator.get(f"{BASE}/task/bulk-action/").status_code == 405
        assert state() == before

    @ON_ONE_DATABASE
    @pytest.mark.parametrize("taken", ["view_task", "its own"])
    def test_a_permission_that_was_taken_away_counts(self, action, permission, which, taken, played, session_with):
        client = session_with("view_task", permission)
        token = self.ask(client, action, played[which]).context["token"]
        permissions = get_user_model().objects.get(username="staff").user_permissions
        permissions.remove(permissions.get(codename=permission if taken == "its own" else taken))
        before = state()
        assert client.post(f"{BASE}/task/bulk-action/", {"token": token, "reason": "x"}).status_code == 403
        assert state() == before

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


def addresses(task: Task) -> list[str]:
    """Return every address of the console, of this task and other objects of the scene."""
    values = {"object_id": task.pk, "run": task.run_id, "batch": task.pk, "fingerprint": task.fingerprint, "number": 1}
    names = {"schedule": "nightly", "queue": "emails", "failuregroup": "retry"}
    urls = []
    for model in CONSOLE_MODELS:
        known = {**values, "name": names.get(model._meta.model_name), "worker_id": scene.WORKERS[0]}
        for address in admin.site._registry[model].get_urls():
            kwargs = {name: known[name] for name in address.pattern.converters}
            urls.append(reverse(f"admin:{address.name}", kwargs=kwargs))
    return urls


@ON_ONE_DATABASE
def test_no_address_opens_without_the_permission_to_view_its_page(played, session_with):
    """In Django's admin, who may change an object may view it, too."""
    views = {f"{verb}_{model._meta.model_name}" for model in CONSOLE_MODELS for verb in ("view", "change")}
    granted = Permission.objects.filter(content_type__app_label="django_tasks_retry").exclude(codename__in=views)
    client, before = session_with(*granted.values_list("codename", flat=True)), state()
    asked = addresses(played["failed"])
    assert len(asked) > 30
    answers = {url: {client.get(url).status_code, client.post(url, {"reason": "x"}).status_code} for url in asked}
    assert {url: codes for url, codes in answers.items() if not codes <= {403, 405}} == {}
    assert all(403 in codes for codes in answers.values())
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
