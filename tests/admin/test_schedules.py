"""The pages of schedules."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Schedule, Task
from tests import tasks
from tests.schedules.steps import MINUTE, POISONS, overwrite, plan, row, runs, tick
from tests.steps import claim_one

BASE = "/admin/django_tasks_retry/schedule/"
FORM = {
    "name": "made here", "task": "tests.tasks.add", "args": "[1, 2]", "kwargs": "{}", "cron": "@daily", "every": "",
    "timezone": "Europe/Berlin", "overlap": "skip", "misfire_grace": "", "queue": "", "priority": "", "starts_at": "",
    "ends_at": "",
}  # fmt: skip


def shown(client, url="") -> str:
    response = client.get(BASE + url)
    assert response.status_code == 200
    return response.content.decode()


def previewed(client, url="add/", **changes):
    page = client.post(BASE + url, {**FORM, **changes, "preview": "1"})
    return page, page.context["preview"]


def saved(client, url="add/", **changes):
    _, preview = previewed(client, url, **changes)
    return client.post(BASE + url, {**FORM, **changes, "previewed": preview, "save": "1", "reason": "asked for"})


def test_the_list_tells_words_zone_next_instants_and_how_the_last_run_went(operator, travel):
    plan("reports", cron="30 8 * * mon-fri", timezone="Europe/Berlin")
    plan()
    travel(61)
    tick()
    taskqueue.complete_task(claim_one())
    page = shown(operator)
    for part in ("At 08:30 on Monday through Friday", "Europe/Berlin", "Every minute", "Success", "dtr-bar-success"):
        assert part in page
    assert page.count("08:30:00 CE") == 5


def test_series_by_interval_are_shown_beside(operator):
    Task.objects.enqueue(tasks.noop, interval=600)
    assert "Tasks that repeat at an interval" in shown(operator)


@pytest.mark.parametrize(("permissions", "seen"), [(["view_schedule"], False), (["view_schedule", "view_task"], True)])
def test_runs_and_series_are_shown_to_users_who_may_view_tasks(permissions, seen, session_with, travel):
    plan()
    travel(61)
    tick()
    Task.objects.enqueue(tasks.noop, interval=600)
    client = session_with(*permissions)
    assert bool(client.get(f"{BASE}every minute/change/").context["runs"]) == seen
    assert bool(client.get(BASE).context["series"]) == seen


def test_the_page_says_why_a_slot_did_not_run(operator, travel):
    plan()
    travel(61)
    tick()
    travel(60)
    tick()
    assert "was skipped: the previous run had not finished." in shown(operator, "every minute/change/")
    url = f"/admin/django_tasks_retry/task/{runs()[0].pk}/change/"
    page = operator.get(url).content.decode()
    assert "was skipped: the previous run had not finished." in page
    assert f"{BASE}every%2520minute/change/".replace("%2520", "%20") in page


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cron": "what? * * * *", "every": None}, "Bad minute"),
        ({"func_path": "shop.tasks.gone"}, "does not know shop.tasks.gone"),
        ({"next_at": None}, "It has ended"),
        ({"source": "code", "vanished_at": "2026-01-01T00:00Z"}, "has it in its code any more"),
        ({"last_outcome": "missed", "last_at": "2026-01-01T00:00Z"}, "no worker could enqueue it in time"),
        ({"next_at": "2026-01-01T00:00Z"}, "no worker is running"),
    ],
)
def test_every_reason_has_its_sentence(operator, change, says):
    plan()
    Schedule.objects.update(**change)
    assert says in shown(operator, "every minute/change/")
    shown(operator)


def test_a_slot_that_waits_behind_the_previous_run_says_so(operator, travel):
    plan(overlap="queue", every=MINUTE)
    travel(61)
    tick()
    travel(90)
    assert "waits until the previous run has finished" in shown(operator, "every minute/change/")


def test_the_next_instants_are_shown_before_anything_is_saved(operator):
    page, _ = previewed(operator)
    assert page.content.decode().count("00:00:00 CE") == 5
    operator.post(f"{BASE}add/", {**FORM, "save": "1"})
    assert not Schedule.objects.exists()
    _, preview = previewed(operator)
    operator.post(f"{BASE}add/", {**FORM, "cron": "@hourly", "previewed": preview, "save": "1"})
    assert not Schedule.objects.exists(), "another timing than the one that was shown"


def test_what_was_shown_is_saved_with_its_reason(operator):
    assert saved(operator).status_code == 302
    made = row("made here")
    assert (made.func_path, made.args, made.cron, made.timezone) == (
        "tests.tasks.add",
        [1, 2],
        "@daily",
        "Europe/Berlin",
    )
    assert "asked for" in shown(operator, "made here/change/")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cron": "0 25 * * *"}, "bad hour"),
        ({"timezone": "Europe/Berlyn"}, "Did you mean &#x27;Europe/Berlin&#x27;"),
        ({"args": "[1]"}, "missing a required argument"),
        ({"args": "[1"}, "valid JSON"),
        ({"queue": "emial"}, "Did you mean &#x27;emails&#x27;"),
        ({"task": "os.system"}, "Select a valid choice"),
        ({"every": "5"}, "one of the two"),
        ({"ends_at": "2001-01-01T00:00"}, "never fires"),
    ],
)
def test_errors_stand_in_the_form(operator, changes, says):
    page = operator.post(f"{BASE}add/", {**FORM, **changes, "preview": "1"})
    assert says in page.content.decode()
    assert not Schedule.objects.exists()


def test_a_taken_name_is_said_and_nothing_is_lost(operator):
    plan("made here", every=60)
    page = operator.get(saved(operator).url)
    assert "already" in page.content.decode()
    assert row("made here").every == 60


def test_editing_arguments_leaves_the_next_slot_alone(operator):
    first = plan("made here", task=tasks.add, args=[1, 2], cron="@daily", timezone="Europe/Berlin").next_at
    saved(operator, "made here/edit/", args="[3, 4]")
    assert (row("made here").args, row("made here").next_at) == ([3, 4], first)


def test_code_schedules_can_be_paused_but_not_edited(operator):
    plan()
    Schedule.objects.update(source="code")
    page = shown(operator, "every minute/change/")
    assert "Pause…" in page
    assert "/edit/" not in page
    assert operator.get(f"{BASE}every minute/edit/").status_code == 403
    operator.post(f"{BASE}every minute/delete/")
    assert Schedule.objects.exists()


def test_secrets_in_arguments_are_shown_to_nobody_and_survive_an_edit(operator):
    plan("made here", kwargs={"api_token": "planted-secret"}, cron="@daily", timezone="Europe/Berlin")
    for url in ("made here/change/", "made here/edit/"):
        assert "planted-secret" not in shown(operator, url)
    saved(operator, "made here/edit/", task="tests.tasks.noop", cron="@hourly")
    assert (row("made here").kwargs, row("made here").cron) == ({"api_token": "planted-secret"}, "@hourly")


def test_who_may_not_see_payloads_sees_no_arguments(session_with):
    plan("made here", kwargs={"customer": "planted-name"}, every=60)
    client = session_with("view_schedule", "change_schedule")
    for url in ("", "made here/change/", "made here/edit/"):
        assert "planted-name" not in shown(client, url)


@pytest.mark.parametrize("url", ["", "made here/change/", "made here/edit/", "add/"])
def test_pages_need_their_permissions(session_with, url):
    plan("made here", every=60)
    assert session_with("view_task").get(BASE + url).status_code == 403


def test_an_unknown_name_is_not_found(operator):
    assert operator.get(f"{BASE}nobody/change/").status_code == 404
    assert operator.post(f"{BASE}nobody/pause/").status_code == 404


def test_long_lists_have_pages(operator):
    for n in range(26):
        plan(f"s{n:02}", every=60)
    assert "/s25/change/" not in shown(operator)
    assert "/s25/change/" in shown(operator, "?page=2")


def test_the_overview_warns_of_schedules_that_nobody_enqueues(operator, travel):
    plan("waits for nobody", every=60)
    plan("waits by choice", every=60, overlap="queue").run_now()
    overview = "/admin/django_tasks_retry/overview/"
    assert "and no worker has enqueued it" not in operator.get(overview).content.decode()
    travel(130)
    page = operator.get(overview).content.decode()
    assert "Schedule waits for nobody was due" in page
    assert "Schedule waits by choice was due" not in page


@pytest.fixture(params=POISONS)
def poisoned(request, database) -> str:
    """A schedule that no worker can enqueue, beside one that is well."""
    plan("broken", every=MINUTE)
    plan("sound", every=MINUTE)
    overwrite("broken", database, **POISONS[request.param])
    return "broken"


@pytest.mark.fault("senseless_schedule_row")
def test_the_console_shows_it_among_the_others(poisoned, operator):
    page = operator.get(BASE).content.decode()
    assert page.count("Cannot run") == 1
    assert "sound" in page
    assert operator.get(f"{BASE}broken/change/").status_code == 200


@pytest.mark.fault("senseless_schedule_row")
def test_it_can_be_paused_and_deleted(poisoned, operator):
    assert taskqueue.pause(poisoned, kind="schedule")
    assert Schedule.objects.filter(pk=poisoned, paused_at__isnull=False).exists()
    assert operator.post(f"{BASE}broken/delete/", {"reason": "poison"}).status_code == 302
    assert list(Schedule.objects.values_list("name", flat=True)) == ["sound"]
