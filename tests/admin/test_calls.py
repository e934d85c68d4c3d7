"""New calls from the console and the shell: enqueue, retry with other arguments or from a step, signals."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.display.states import DOUBTFUL, RISKY, SAFE, RetryFacts, safety_of_retry
from django_tasks_retry.models import Signal, Step, Task, TaskEvent
from tests import tasks
from tests.admin import scene
from tests.admin.conftest import make_user
from tests.cli.conftest import tasks_command

BASE = "/admin/django_tasks_retry"
LIST = f"{BASE}/task/"
MAY_EDIT = ("view_task", "view_task_payload", "retry_task", "enqueue_task")


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"attempts": 0}, SAFE),
        ({"attempts": 3, "is_atomic": True}, SAFE),
        ({"attempts": 3, "is_atomic": True, "lost": 1}, SAFE),
        ({"attempts": 3}, DOUBTFUL),
        ({"attempts": 3, "lost": 1}, DOUBTFUL),
        ({"attempts": 1, "status": "SUCCESS", "is_atomic": True}, RISKY),
        ({"attempts": 1, "is_atomic": True, "retries": 1}, RISKY),
        ({"attempts": 3, "is_atomic": True, "crashes": 2}, RISKY),
        ({"attempts": 3, "code": "CRASHED"}, RISKY),
        ({"attempts": 1, "is_atomic": True, "code": "BAD_ARGUMENTS"}, RISKY),
    ],
)
def test_how_safe_a_retry_is(facts, state):
    verdict, reasons = safety_of_retry(RetryFacts(**{"status": "FAILED", "is_atomic": False, **facts}))
    assert verdict is state
    assert reasons
    assert any("lost its worker" in reason for reason in reasons) == (state is DOUBTFUL and "lost" in facts)


def test_the_page_says_so_beside_the_button(played, operator, session_with):
    url = f"{LIST}{played['import'].pk}/change/"
    assert "Look before you retry" in operator.get(url).content.decode()
    assert "Risky to retry" in operator.get(f"{LIST}{played['success'].pk}/change/").content.decode()
    assert "retry</span>" not in session_with("view_task").get(url).content.decode()


class TestOtherArguments:
    @pytest.fixture
    def failed(self, database) -> Task:
        task = Task.objects.enqueue(tasks.add, [1, 2], queue="reports", max_attempts=1)
        taskqueue.fail_task(taskqueue.claim("w")[0], RuntimeError("no"))
        return task

    def test_a_retry_is_made_with_them_and_the_history_shows_the_difference(self, failed, session_with):
        client = session_with(*MAY_EDIT)
        form = client.get(f"{LIST}{failed.pk}/edit/")
        assert form.context["form"].initial == {"args": [1, 2], "kwargs": {}}
        answer = client.post(f"{LIST}{failed.pk}/edit/", {"args": "[1, 5]", "kwargs": "{}", "reason": "typo"})
        made = Task.objects.get(retry_of=failed.pk)
        assert (made.args, made.queue, made.run_id) == ([1, 5], "reports", failed.run_id)
        assert TaskEvent.objects.get(task=made).data == {"retry_of": str(failed.pk), "reason": "typo", "edited": True}
        page = client.get(answer.url)
        assert page.context["edits"] == [("b", "2", "5")]
        assert "<del>2</del> <ins>5</ins>" in page.content.decode()

    @pytest.mark.parametrize("args", ["[1]", "[1, 2, 3]", "not JSON", '{"a": 1}'])
    def test_they_are_checked_against_the_signature(self, args, failed, operator):
        page = operator.post(f"{LIST}{failed.pk}/edit/", {"args": args, "kwargs": "{}"})
        assert page.status_code == 200
        assert page.context["form"].errors
        assert not Task.objects.filter(retry_of=failed.pk).exists()

    @pytest.mark.parametrize("missing", MAY_EDIT)
    def test_every_permission_is_needed(self, missing, failed, session_with):
        client = session_with(*(each for each in MAY_EDIT if each != missing))
        assert client.get(f"{LIST}{failed.pk}/edit/").status_code == 403
        assert client.post(f"{LIST}{failed.pk}/edit/", {"args": "[1, 5]"}).status_code == 403
        assert not Task.objects.filter(retry_of=failed.pk).exists()

    def test_hidden_arguments_are_never_edited(self, database, operator):
        task = Task.objects.enqueue(tasks.noop, kwargs={"password": "hunter2"}, max_attempts=1)
        task.cancel()
        assert operator.get(f"{LIST}{task.pk}/edit/").status_code == 403
        assert "edit/" not in operator.get(f"{LIST}{task.pk}/change/").content.decode()


def test_a_retry_goes_on_from_a_chosen_step(database, operator):
    task = Task.objects.enqueue(tasks.noop, max_attempts=1)
    lease = taskqueue.claim("w")[0]
    for name in ("first", "second", "third"):
        taskqueue.workflows.steps.save_step(lease, name, taskqueue.workflows.StepKind.STEP, name, None)
    taskqueue.fail_task(lease, RuntimeError("no"))
    assert operator.get(f"{LIST}{task.pk}/change/").content.decode().count("Retry from here") == 3
    operator.post(f"{LIST}{task.pk}/retry/", {"before": "third"})
    made = Task.objects.get(retry_of=task.pk)
    assert list(Step.objects.filter(task=made.pk).order_by("pk").values_list("name", flat=True)) == ["first", "second"]
    again = operator.post(f"{LIST}{task.pk}/retry/", {"before": "second"})
    assert 'name="before" value="second"' in again.content.decode()


class TestEnqueue:
    URL = f"{LIST}enqueue/"

    def test_a_registered_task_is_enqueued_by_those_who_may(self, database, session_with):
        client = session_with("view_task", "enqueue_task")
        asked = {"task": "shop.tasks.sync_stock", "args": '["north"]', "queue": "bulk", "delay": "60"}
        page = client.post(self.URL, asked, follow=True)
        task = Task.objects.get()
        assert (task.func_path, task.args, task.queue) == ("shop.tasks.sync_stock", ["north"], "bulk")
        assert task.eta - task.created_at == timedelta(seconds=60)
        assert str(task.pk) in page.content.decode()
        assert task.metadata == {"enqueued_by": f"user:{make_user('other').pk - 1}"}

    def test_nobody_else_finds_the_form(self, database, session_with):
        client = session_with("view_task", "retry_task", "view_task_payload", "send_signal")
        assert client.get(self.URL).status_code == client.post(self.URL, {"task": "x"}).status_code == 403
        assert self.URL not in client.get(f"{LIST}?status=failed").content.decode()

    @pytest.mark.parametrize(
        "asked", [{"task": "os.system"}, {"task": "django_tasks_retry.tasks.run_chain"}, {"args": '["a", "b"]'}]
    )
    def test_what_cannot_run_is_refused(self, asked, database, operator):
        page = operator.post(self.URL, {"task": "shop.tasks.sync_stock", "args": '["north"]', **asked})
        assert page.status_code == 200
        assert page.context["form"].errors
        assert not Task.objects.exists()

    def test_from_the_shell(self, database):
        answer = tasks_command("enqueue", "tests.tasks.add", "--args", "[1, 2]", "--in", "1m", "--json")
        assert answer.record["id"] == str(Task.objects.get().pk)
        assert Task.objects.get().args == [1, 2]
        assert tasks_command("enqueue", "tests.tasks.ad").code == 4
        assert tasks_command("enqueue", "tests.tasks.add", "--args", "[1]").code == 2
        assert tasks_command("enqueue", "tests.tasks.add", "--args", "[1").code == 2
        assert Task.objects.count() == 1


class TestSignal:
    def test_an_approval_is_sent_from_the_tasks_page(self, database, session_with):
        task = scene.waiting_for("approved:3")
        client, url = session_with("view_task", "send_signal"), f"{LIST}{task.pk}/signal/"
        assert "Payload of approved:3, in JSON" in client.get(f"{LIST}{task.pk}/change/").content.decode()
        assert "Expecting" in client.post(url, {"payload": "{not json"}, follow=True).content.decode()
        assert not Signal.objects.exists()
        client.post(url, {"payload": '{"approved": true}', "reason": "checked"})
        assert Signal.objects.get(name="approved:3").payload == {"approved": True}

    def test_from_the_shell(self, database):
        sent = tasks_command("signal", "approved:3", "--payload", json.dumps({"by": "ann"}), "--json")
        assert sent.record == {"signal": "approved:3", "sent": True}
        assert Signal.objects.get().payload == {"by": "ann"}
        assert tasks_command("signal", "approved:3").code == 5


def test_a_group_is_narrowed_to_one_argument_by_a_click(database, operator, session_with):
    for tenant, secret in (("globex", "hunter2"), ("initech", "swordfish"), ("globex", "x1")):
        Task.objects.enqueue(tasks.noop, kwargs={"tenant": tenant, "password": secret}, max_attempts=1)
        taskqueue.fail_task(taskqueue.claim("w")[0], RuntimeError("boom"))
    task = Task.objects.failed().first()
    page = operator.get(f"{BASE}/failuregroup/{task.fingerprint}/")
    [(label, search)] = page.context["narrower"]
    assert label == "tenant = globex"
    assert {each.kwargs["tenant"] for each in operator.get(f"{LIST}?{search}").context["cl"].result_list} == {"globex"}
    assert operator.get(f"{LIST}?{search}").context["cl"].result_count == 2
    hidden = session_with("view_task").get(f"{BASE}/failuregroup/{task.fingerprint}/").content.decode()
    assert "globex" not in hidden


def test_the_result_of_a_bulk_retry_leads_to_the_new_tasks(played, operator):
    asked = operator.post(f"{LIST}?status=failed", {"action": "retry_selected", "select_across": "1", "index": 0})
    played["success"].retry(by="somebody else, before")
    before = set(Task.objects.values_list("pk", flat=True))
    done = operator.post(f"{LIST}bulk-action/", {"token": asked.context["token"], "reason": "x"}, follow=True)
    made = set(Task.objects.values_list("pk", flat=True)) - before
    [link] = [part for part in done.content.decode().split('"') if part.startswith(f"{LIST}?q=retries")]
    assert {row["pk"] for row in operator.get(link).context["cl"].rows} == made != set()
