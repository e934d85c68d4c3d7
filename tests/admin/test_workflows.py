"""The console shows what a task remembers and waits for, a batch, and a run as a tree."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

import pytest
from django.urls import reverse

from django_tasks_retry import call, chain, signal, taskqueue
from django_tasks_retry.admin.parts import waterfall
from django_tasks_retry.display.explain import explain
from django_tasks_retry.display.scope import Scope, current_scope
from django_tasks_retry.models import Task
from django_tasks_retry.rules.names import CHAIN, short_id
from django_tasks_retry.taskqueue.workflows.steps import StepKind, StepStore
from django_tasks_retry.testing import Tasks
from django_tasks_retry.testing.inline import run_inline
from tests.admin import scene
from tests.admin.unguarded import overwrite
from tests.cli.conftest import tasks_command
from tests.steps import claim_one, now_of
from tests.tasks import noop
from tests.workflows import tasks


@pytest.fixture
def kit(database: str):
    tasks.calls.clear()
    kit = Tasks()
    yield kit
    kit.close()


def run_one() -> None:
    run_inline(claim_one("console"))


def page(client: Any, view: str, *args: Any, status: int = 200) -> str:
    answer = client.get(reverse(f"admin:django_tasks_retry_task_{view}", args=args))
    assert answer.status_code == status
    return answer.content.decode()


def why(task: Task) -> str:
    scope: Scope = current_scope()
    return explain(now_of(task), [], scope, can_see_payload=True).sentence


def members() -> list[Task]:
    return list(Task.objects.filter(batch__isnull=False).order_by("pk"))


def test_the_page_of_a_task_shows_its_steps_and_marks_them_on_the_timeline(operator, kit):
    task = Task.objects.enqueue(tasks.steps, ["split", "stock"])
    kit.run_due()
    text = page(operator, "change", task.pk)
    assert "step split" in text
    assert text.count('class="dtr-mark"') == 2
    assert "&quot;stock&quot;" in text


def test_results_of_steps_need_the_permission_to_see_payloads(session_with, kit):
    task = Task.objects.enqueue(tasks.steps, ["secret result"])
    kit.run_due()
    text = page(session_with("view_task"), "change", task.pk)
    assert "secret result" in text, "its name"
    assert "&quot;secret result&quot;" not in text


def test_why_tells_how_many_tasks_are_waited_for(operator, kit):
    task = Task.objects.enqueue(tasks.fan_out, [[1, 2, 3]])
    run_one()
    run_one()
    assert why(task) == "It waits for 2 of 3 tasks."
    assert "1 done, 0 failed, 2 open" in page(operator, "change", task.pk)


def test_why_tells_which_signal_is_waited_for_and_until_when(kit):
    endless, bounded = (Task.objects.enqueue(tasks.approval, args) for args in (["approved:41"], ["approved:42", 3600]))
    kit.run_due()
    assert why(endless) == "It waits for the signal approved:41."
    assert re.fullmatch(r"It waits for the signal approved:42 until \d{4}-\d\d-\d\d .*\.", why(bounded))


def test_a_step_that_keeps_a_deadline_has_the_name_of_what_is_waited_for(operator, kit):
    """Its suffix is for the database alone, on the task's page, in the waterfall and in the shell."""
    task = Task.objects.enqueue(tasks.approval, ["approved:42", 3600])
    kit.run_due()
    for text in (page(operator, "change", task.pk), tasks_command("show", task.pk).out):
        assert "approved:42" in text
        assert ":until" not in text
    assert ":until" not in page(operator, "run", task.run_id)


def test_the_page_of_a_batch_tells_done_failed_and_open_and_who_waits(operator, kit):
    task = Task.objects.enqueue(tasks.fan_out, [[1, -2, 3]])
    for _ in range(3):
        run_one()
    [batch] = {member.batch for member in members()}
    text = page(operator, "batch", batch)
    assert "2 of 3 tasks have ended." in text
    assert str(task.pk) in text
    assert "Retry failed tasks" in text
    listed = operator.get(reverse("admin:django_tasks_retry_task_changelist"), {"q": f"batch:{batch} status:failed"})
    assert listed.context["cl"].result_list[0].pk == members()[1].pk


def test_the_failed_of_a_batch_are_retried_together(operator, kit):
    Task.objects.enqueue(tasks.fan_out, [[-1, -2, 3]])
    run_one()
    for _ in range(2):
        run_one()
    batch = members()[0].batch
    url = reverse("admin:django_tasks_retry_task_batch_retry", args=[batch])
    asked = operator.post(url)
    assert "2 tasks will be retried" in asked.content.decode()
    other = operator.post(reverse("admin:django_tasks_retry_task_batch_cancel", args=[batch]))
    assert "1 task will be cancelled" in other.content.decode()


def test_a_batch_or_run_that_is_gone_says_so(operator, kit):
    gone = "01890000-0000-7000-8000-000000000000"
    assert "No such batch" in page(operator, "batch", gone, status=404)
    assert "No such run" in page(operator, "run", gone, status=404)


def drawn(client: Any, task: Task, view: str = "run") -> dict[str, Any]:
    url = reverse(f"admin:django_tasks_retry_task_{view}", args=[task.run_id if view == "run" else task.pk])
    return client.get(url).context["waterfall"]


def test_a_run_is_drawn_as_a_tree_in_a_table_with_a_bar_for_each_attempt(operator, kit):
    task = Task.objects.enqueue(tasks.tree, [2, 2])
    kit.run_due()
    text = page(operator, "run", task.run_id)
    assert "7 of 7 tasks have ended." in text
    assert [row["depth"] for row in drawn(operator, task)["rows"]] == [0, 1, 2, 2, 1, 2, 2]
    assert text.count('class="dtr-level-2"') == 4
    assert text.count("dtr-bar-success") == 7
    assert text.count("dtr-bar-released") == 3, "those that waited for others"
    assert "attempt 2: completed after" in text, "for who cannot see the bars"


def test_retries_and_waits_are_drawn_to_one_scale(operator, kit):
    task = Task.objects.enqueue(tasks.steps, ["a", "b"], {"fail_at": "b"})
    kit.run_due()
    kit.advance(seconds=10)
    kit.run_due()
    [row, *steps] = drawn(operator, task, "change")["rows"]
    assert [bar["kind"] for bar in row["bars"] if bar["is_attempt"]] == ["failed", "success"]
    assert [step["name"] for step in steps] == ["step a", "step b"]
    assert all(0 <= float(bar["x"]) <= float(bar["x"]) + float(bar["width"]) <= 1000 for bar in row["bars"])


def test_a_task_alone_in_its_run_has_no_waterfall(operator, kit):
    assert drawn(operator, Task.objects.enqueue(tasks.double, [1]), "change") is None


def test_a_run_of_many_tasks_is_folded_and_what_runs_and_failed_stays_in_sight(operator, kit, monkeypatch):
    task = Task.objects.enqueue(tasks.fan_out, [[*range(1, 30), -1, *range(31, 60)]])
    for _ in range(40):
        run_one()
    running = claim_one("w")
    rows = drawn(operator, task)["rows"]
    assert len(rows) == 1 + waterfall.ALIKE + 1
    assert {running.id, *Task.objects.failed().values_list("pk", flat=True)} <= {row.get("pk") for row in rows}
    assert rows[-1]["name"] == "51 more fragile"
    assert "19 Ready" in rows[-1]["note"]
    last = members()[-1]
    assert last.pk in {row.get("pk") for row in drawn(operator, last, "change")["rows"]}, "it is its own page"


def test_of_a_large_run_the_tasks_around_one_are_read_and_those_that_run(operator, kit, monkeypatch):
    monkeypatch.setattr(waterfall, "MAX_TASKS", 10)
    task = Task.objects.enqueue(tasks.fan_out, [list(range(1, 60))])
    for _ in range(20):
        run_one()
    running, middle = claim_one("w"), members()[40]
    for shown in (task, middle):
        found = drawn(operator, shown, "change")
        assert found["is_cut"] == 10
        assert {task.pk, shown.pk, running.id} <= {row.get("pk") for row in found["rows"]}
    assert "10 of its tasks" in page(operator, "run", task.run_id)


@pytest.mark.parametrize("length", [1, 3])
def test_a_run_whose_parents_form_a_circle_shows_each_task_once(operator, kit, database, length):
    made = [Task.objects.enqueue(tasks.double, [n]) for n in range(length)]
    as_text = str if database == "postgresql" else attrgetter("hex")
    for n, task in enumerate(made):
        overwrite(task, database, run_id=as_text(made[0].pk), parent_id=as_text(made[n - 1].pk))
    assert f"0 of {length} task" in page(operator, "run", made[0].pk)
    rows = drawn(operator, made[0])["rows"]
    assert sorted(row["pk"] for row in rows) == sorted(task.pk for task in made)


def test_the_progress_of_a_batch_shows_the_share_that_failed(operator, kit):
    Task.objects.enqueue(tasks.fan_out, [[1, -2, 3, 4]])
    for _ in range(4):
        run_one()
    text = page(operator, "batch", members()[0].batch)
    assert "Done: 50.0 %, Failed: 25.0 %, Open: 25.0 %" in text
    assert '<rect class="dtr-bar-failed" x="500.00" y="0" width="250.00"' in text


@pytest.mark.parametrize("permissions", [(), ("view_task",)])
def test_pages_of_batches_and_runs_need_permissions(session_with, kit, permissions):
    task = Task.objects.enqueue(tasks.fan_out, [[1]])
    run_one()
    batch = members()[0].batch
    if not permissions:
        client = session_with("view_queue")
        page(client, "run", task.run_id, status=403)
        page(client, "batch", batch, status=403)
        return
    viewer = session_with(*permissions)
    assert "Retry failed tasks" not in page(viewer, "batch", batch)
    assert viewer.post(reverse("admin:django_tasks_retry_task_batch_retry", args=[batch])).status_code == 403


@pytest.mark.parametrize(("given", "steps"), [({}, 0), ({"resume": "1"}, 2)])
def test_a_retry_resumes_where_it_is_asked_to(operator, kit, given, steps):
    task = Task.objects.enqueue(tasks.steps, ["a", "b"], {"fail_at": "b"}, max_attempts=1)
    kit.run_due()
    assert "Continue after the stored steps" in page(operator, "change", task.pk)
    operator.post(reverse("admin:django_tasks_retry_task_retry", args=[task.pk]), given)
    again = Task.objects.get(retry_of=task.pk)
    assert again.steps.count() == steps


def test_a_signal_that_came_is_shown_with_its_step(operator, kit):
    signal("approved:1", {"by": 7})
    task = Task.objects.enqueue(tasks.approval, ["approved:1"])
    kit.run_due()
    assert "approved:1" in page(operator, "change", task.pk)
    assert taskqueue.signal("approved:1") is False


def test_steps_that_the_code_no_longer_comes_to_are_shown_as_left_behind(operator, kit):
    task = Task.objects.enqueue(tasks.steps, ["a"])
    lease = claim_one("another release")
    StepStore(lease).save("renamed since", StepKind.STEP, 1)
    taskqueue.release_task(lease, "it is deployed")
    assert "left behind" not in page(operator, "change", task.pk)
    kit.run_due()
    assert page(operator, "change", task.pk).count("left behind") == 1


def test_the_list_says_that_a_task_waits(operator, kit):
    Task.objects.enqueue(tasks.fan_out, [[1]])
    run_one()
    Task.objects.enqueue(tasks.approval, ["x"], priority=9)
    run_one()
    text = page(operator, "changelist")
    assert "waiting for tasks" in text
    assert "waiting for a signal" in text


def test_who_waits_is_shown_as_waiting_and_found_as_such(operator, kit):
    task = Task.objects.enqueue(tasks.fan_out, [[1]])
    run_one()
    text = page(operator, "change", task.pk)
    assert "dtr-badge dtr-waiting" in text
    assert "3,6" not in text, "not a word of the years after which it would give up"
    listed = operator.get(reverse("admin:django_tasks_retry_task_changelist"), {"q": "status:waiting"})
    assert [row.pk for row in listed.context["cl"].result_list] == [task.pk]
    assert "dtr-badge dtr-waiting" in page(operator, "run", task.run_id)


def test_a_chain_is_named_in_words_wherever_a_task_is(operator, kit):
    task = chain(call(tasks.double, 1), call(tasks.publish)).enqueue()
    assert task.func_path == CHAIN
    run_one()
    words, [member] = "chain: double → publish", members()
    [title] = re.findall("<h1>(.*?)</h1>", page(operator, "change", task.pk))
    assert title.startswith(words)
    for text in (page(operator, "changelist"), page(operator, "run", task.run_id), page(operator, "change", member.pk)):
        assert f">{words}</a>" in text
        assert ">run_chain<" not in text


@pytest.mark.parametrize("args", ["[]", "[[]]", "[1]", '["x"]', '{"a": 1}', '[["x", {}]]'])
def test_a_chain_whose_calls_cannot_be_read_is_a_chain(operator, kit, database, args):
    task = chain(call(tasks.double, 1)).enqueue()
    overwrite(task, database, args=args)
    assert ">chain" in page(operator, "changelist")


def test_why_links_to_the_tasks_that_it_names_and_to_nothing_else(operator, kit):
    gone = "01890000-0000-7000-8000-000000000000"
    first, second = (Task.objects.enqueue(noop, lane=f"<b>{gone}") for _ in range(2))
    taskqueue.limit_lane(f"<b>{gone}", concurrency=1)
    claim_one("console")
    scene.sign_on()
    text = page(operator, "change", second.pk)
    [sentence] = re.findall(r'id="dtr-explanation">.*?<p>(.*?)</p>', text, re.DOTALL)
    url = reverse("admin:django_tasks_retry_task_change", args=[first.pk])
    assert f'<a href="{url}">{short_id(first.pk)}</a>' in sentence
    assert f"&lt;b&gt;{gone}" in sentence
    assert sentence.count("<a ") == 1
