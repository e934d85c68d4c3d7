"""The JSON API and the MCP server: the questions that only read, by token or by stdio, each in the operator log."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import registry, taskqueue
from django_tasks_retry.cli.agents import MOST_RECORDS, QUESTIONS, answered, ask, schema_of
from django_tasks_retry.cli.subcommand import CliError
from django_tasks_retry.models import OperatorEvent, Task
from tests import tasks as plain
from tests.cli.conftest import tasks_command
from tests.steps import claim_one

READS = ("view_task", "view_task_payload", "view_queue", "view_worker")


@pytest.fixture(autouse=True)
def api(database, settings) -> None:
    registry.discover()
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"API_TOKEN_AGE": 3600}}}


def user(*permissions: str) -> User:
    made = User.objects.create_user(f"agent-{len(permissions)}", password="x")
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return made


def token(of: User) -> str:
    return tasks_command("token", of.username).out.strip()


def get(path: str, given: str, **query: Any) -> Any:
    return Client().get(f"/tasks/api/{path}", query, headers={"Authorization": f"Bearer {given}"})


def failed(message: str = "card 4111 password=hunter2") -> Task:
    task = Task.objects.enqueue(plain.noop, max_attempts=1)
    taskqueue.fail_task(claim_one("w-1/1"), RuntimeError(message))
    return task


def test_the_records_are_those_of_the_command_line(database):
    failed()
    given = token(user(*READS))
    shell = {
        "list": ("list", "status:failed"), "failures": ("failures",), "queues": ("queues",), "doctor": ("doctor",),
        "functions": ("stats",), "late": ("late",), "workers": ("workers",), "objectives": ("objectives",),
    }  # fmt: skip
    for name, words in shell.items():
        answer = get(name, given, **({"words": "status:failed"} if name == "list" else {}))
        printed = tasks_command(*words, "--json").records
        assert (answer.status_code, answer.json().get("records", [])) == (
            200 if printed else answer.status_code,
            printed,
        )


def test_one_task_is_shown_and_explained(database):
    task, given = failed(), token(user(*READS))
    assert get("show", given, id=str(task.pk)).json()["records"][0]["error"]["exception"].endswith("RuntimeError")
    [record] = get("why", given, id=str(task.pk)[:13]).json()["records"]
    assert set(record) == {"why"}
    assert get("show", given).status_code == 400
    assert get("show", given, id="0000-0000").status_code == 404


def test_secrets_are_redacted(database):
    task, given = failed(), token(user(*READS))
    for name, query in (("show", {"id": str(task.pk)}), ("list", {}), ("failures", {}), ("doctor", {})):
        assert b"hunter2" not in get(name, given, **query).content
    get("list", given, words="arg:password=hunter2")
    assert not OperatorEvent.objects.filter(reason__contains="hunter2").exists()


def test_a_token_has_the_permissions_of_its_user(database):
    given = token(user("view_worker"))
    assert get("workers", given).status_code in (200, 404)
    answers = {name: get(name, given, id="0199").status_code for name in QUESTIONS if name != "workers"}
    assert set(answers.values()) == {403}


def test_a_token_ends_with_the_password_the_user_and_its_time(database, settings, monkeypatch):
    agent = user(*READS)
    given = token(agent)
    assert get("doctor", given).status_code == 200
    assert get("doctor", given[:-2] + "xx").status_code == 401
    assert get("doctor", "").status_code == 401
    agent.set_password("new")
    agent.save()
    assert get("doctor", given).status_code == 401
    given = token(agent)
    settings.TASKS["default"]["OPTIONS"]["API_TOKEN_AGE"] = 1e-9
    settings.TASKS = {**settings.TASKS}
    assert get("doctor", given).status_code == 401
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"API_TOKEN_AGE": 3600}}}
    User.objects.update(is_active=False)
    assert get("doctor", given).status_code == 401


def test_a_session_is_no_token_and_only_reading_is_answered(database):
    agent = user(*READS)
    client = Client(enforce_csrf_checks=True)
    client.force_login(agent)
    assert client.get("/tasks/api/doctor").status_code == 401
    headers = {"Authorization": f"Bearer {token(agent)}"}
    for method in ("post", "put", "patch", "delete"):
        assert getattr(Client(), method)("/tasks/api/doctor", headers=headers).status_code == 405


def test_without_the_setting_there_is_no_api(database, settings):
    given = token(user(*READS))
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {}}}
    assert get("doctor", given).status_code == 404
    assert tasks_command("token", "agent-4").code == 2


def test_every_call_is_in_the_operators_log(database):
    agent = user(*READS)
    given = token(agent)
    get("list", given, words="status:failed", limit="3")
    get("show", given)
    told = list(OperatorEvent.objects.order_by("id").values_list("kind", "subject", "actor"))
    assert [each[:2] for each in told] == [("api.token", str(agent.pk)), ("api.asked", "list"), ("api.asked", "show")]
    assert told[1][2] == f"user:{agent.pk}"


def test_answers_are_bounded(database):
    Task.objects.enqueue_many([(plain.noop,)] * (MOST_RECORDS + 5))
    for wrong in (0, -1, MOST_RECORDS + 1, "many"):
        with pytest.raises(CliError, match="limit"):
            ask("list", {"limit": wrong}, "me", "default")
    assert len(ask("list", {"limit": MOST_RECORDS}, "me", "default")["records"]) == MOST_RECORDS
    with pytest.raises(CliError, match="stdin"):
        ask("list", {"words": ["-"]}, "me", "default")
    with pytest.raises(CliError, match="no parameter ids"):
        ask("list", {"ids": True}, "me", "default")


def test_a_question_writes_its_line_in_the_log_and_nothing_else(database):
    task = failed()
    with CaptureQueriesContext(connections[database]) as log:
        for name in QUESTIONS:
            answered(name, {"id": str(task.pk)} if name in ("show", "why", "late") else {}, "me", "default")
    writes = [each["sql"] for each in log if each["sql"].lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))]
    assert len(writes) == len(QUESTIONS)
    assert all("operatorevent" in sql for sql in writes)


def test_the_description_is_made_of_the_options(database):
    described = get("", token(user(*READS))).json()
    assert set(described["paths"]) == {f"/{name}" for name in QUESTIONS}
    parameters = {each["name"]: each for each in described["paths"]["/list"]["get"]["parameters"]}
    assert parameters["words"]["schema"]["type"] == "array"
    assert parameters["limit"]["schema"]["type"] == "integer"
    assert described["paths"]["/show"]["get"]["parameters"][0]["required"] is True
    for question in QUESTIONS.values():
        assert all(each["description"] for each in schema_of(question)["properties"].values())


def test_an_agent_lists_tools_and_calls_them(database):
    mcp = pytest.importorskip("mcp")
    from django_tasks_retry.cli import agents

    async def talk() -> tuple[set[str], Any]:
        async with mcp.Client(agents.make_server("default", "mcp:me")) as client:
            listed = await client.list_tools()
            refused = await client.call_tool("nothing", {})
            return {tool.name for tool in listed.tools}, refused

    names, refused = asyncio.run(talk())
    assert names == set(QUESTIONS)
    assert refused.is_error
    text, is_error = answered("doctor", {}, "mcp:me", "default")
    assert not is_error
    assert json.loads(text)["records"][0]["verdict"]


def test_old_questions_are_forgotten(database):
    ask("doctor", {}, "me", "default")
    OperatorEvent.objects.update(ts=OperatorEvent.objects.get().ts - timedelta(days=91))
    from django_tasks_retry.taskqueue.events import forget_skipped

    assert forget_skipped() == 1
