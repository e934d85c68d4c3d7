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
from django_tasks_retry.cli.agents.proposals import propose
from django_tasks_retry.cli.subcommand import CliError
from django_tasks_retry.models import OperatorEvent, Task
from django_tasks_retry.selection.proposals import MOST_OPEN
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
    assert set(described["paths"]) == {f"/{name}" for name in (*QUESTIONS, "propose")}
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


# Proposals

PROPOSES = (*READS, "propose_task")
WISH = {"verb": "retry", "words": "status:failed", "reason": "the bank answers again"}
CONSOLE = "/admin/django_tasks_retry/"
ACT = f"{CONSOLE}task/bulk-action/"


def post(given: str, body: Any) -> Any:
    headers = {"Authorization": f"Bearer {given}"}
    text = body if isinstance(body, str) else json.dumps(body)
    return Client(enforce_csrf_checks=True).post("/tasks/api/propose", text, "application/json", headers=headers)


def proposed(**wish: str) -> int:
    return propose({**WISH, **wish}, "mcp:me", "default")["proposal"]


def person(*permissions: str) -> Client:
    made = User.objects.create_user(f"person-{len(permissions)}-{User.objects.count()}", is_staff=True)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(made)
    return client


def operator() -> Client:
    return person("view_task", "view_task_payload", "retry_task", "cancel_task")


def confirm(client: Client, number: int) -> Any:
    asked = client.get(f"{CONSOLE}task/proposals/{number}/")
    return client.post(ACT, {"token": asked.context["token"], "reason": asked.context["reason"]})


def log(*kinds: str) -> list[Any]:
    return list(OperatorEvent.objects.filter(kind__in=kinds).order_by("id").values_list("kind", "subject", "reason"))


def test_a_proposal_changes_nothing_until_a_person_confirms_it(database):
    task, agent = failed(), user(*PROPOSES)
    answer = post(token(agent), WISH).json()
    assert (answer["would"], answer["is_cut"]) == (1, False)
    event = OperatorEvent.objects.get(pk=answer["proposal"])
    assert (event.kind, event.actor, event.data) == (
        "proposal.made",
        f"user:{agent.pk}",
        {"verb": "retry", "words": "status:failed"},
    )
    assert Task.objects.count() == 1

    client = operator()
    page = client.get(f"{CONSOLE}overview/").content.decode()
    assert f"{CONSOLE}task/proposals/{event.pk}/" in page
    assert agent.username in page
    confirm(client, event.pk)
    assert Task.objects.filter(retry_of=task.pk).count() == 1
    assert log("proposal.confirmed") == [("proposal.confirmed", str(event.pk), WISH["reason"])]
    assert f"proposals/{event.pk}/" not in client.get(f"{CONSOLE}overview/").content.decode()


def test_a_proposal_is_confirmed_once(database):
    failed()
    number, client, other = proposed(), operator(), operator()
    asked = [each.get(f"{CONSOLE}task/proposals/{number}/").context["token"] for each in (client, other)]
    for each, given in zip((client, other), asked, strict=True):
        each.post(ACT, {"token": given, "reason": "yes"})
    assert Task.objects.filter(retry_of__isnull=False).count() == 1
    assert len(log("proposal.confirmed", "proposal.dismissed")) == 1
    assert client.get(f"{CONSOLE}task/proposals/{number}/").status_code == 302


def test_a_dismissed_proposal_cannot_be_confirmed(database):
    failed()
    number, client = proposed(verb="retry"), operator()
    given = client.get(f"{CONSOLE}task/proposals/{number}/").context["token"]
    assert client.get(f"{CONSOLE}task/proposals/{number}/dismiss/").status_code == 405
    client.post(f"{CONSOLE}task/proposals/{number}/dismiss/")
    client.post(f"{CONSOLE}task/proposals/{number}/dismiss/")
    client.post(ACT, {"token": given, "reason": "yes"})
    assert Task.objects.count() == 1
    assert [each[0] for each in log("proposal.confirmed", "proposal.dismissed")] == ["proposal.dismissed"]


def test_proposing_needs_its_permission_and_confirming_that_of_the_action(database):
    failed()
    assert post(token(user(*READS, "retry_task")), WISH).status_code == 403
    assert not log("proposal.made")
    number = proposed()
    for permissions in (("view_task", "view_task_payload", "cancel_task"), ("view_task", "retry_task")):
        client = person(*permissions)
        assert f"proposals/{number}/" not in client.get(f"{CONSOLE}overview/").content.decode()
        assert client.get(f"{CONSOLE}task/proposals/{number}/").status_code == 403
        assert client.post(f"{CONSOLE}task/proposals/{number}/dismiss/").status_code == 403
    assert not log("proposal.confirmed", "proposal.dismissed")


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({**WISH, "verb": "run-now"}, 400), ({**WISH, "words": ""}, 400), ({**WISH, "words": "colour:red"}, 400),
        ({**WISH, "words": "arg:password=hunter2"}, 400), ({**WISH, "words": "status:failed " * 40}, 400),
        ({**WISH, "reason": ""}, 400), ({**WISH, "reason": "x" * 201}, 400), ({**WISH, "more": "x"}, 400),
        ({**WISH, "words": ["status:failed"]}, 400), ([], 400), ("{", 400), ("[" * 8000, 400), (" " * 9000 + "{}", 400),
        ({**WISH, "words": "queue:nowhere"}, 404), ({**WISH, "verb": "cancel"}, 404),
    ],
)  # fmt: skip
def test_what_cannot_be_proposed_is_refused_and_not_stored(database, wish, status):
    failed()
    answer = post(token(user(*PROPOSES)), wish)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert not log("proposal.made")


def test_only_a_few_proposals_are_open_at_once(database):
    failed()
    for _ in range(MOST_OPEN):
        proposed()
    assert post(token(user(*PROPOSES)), WISH).status_code == 409
    assert get("propose", token(User.objects.get())).status_code == 405


def test_what_an_agent_writes_is_escaped_and_redacted(database):
    failed()
    number = proposed(words='status:failed error:"card"', reason="<b>token=hunter2</b>")
    client = operator()
    for path in ("overview/", f"task/proposals/{number}/"):
        page = client.get(CONSOLE + path).content.decode()
        assert "&lt;b&gt;" in page
        assert "<b>token" not in page
        assert "hunter2" not in page


def test_an_odd_proposal_costs_itself_alone(database):
    failed()
    texts = (("retry", 7), ("run-now", "status:failed"), ("retry", "colour:red"), ("retry", ""))
    odd = [None, [], 1, "x", {}, {"verb": []}, *({"verb": verb, "words": words} for verb, words in texts)]
    moment = Task.objects.get().updated_at
    OperatorEvent.objects.bulk_create(
        [OperatorEvent(kind="proposal.made", subject="retry", ts=moment, actor="odd", data=data) for data in odd]
    )
    number, client = proposed(), operator()
    page = client.get(f"{CONSOLE}overview/").content.decode()
    assert page.count("/dismiss/") == 1
    confirm(client, number)
    assert Task.objects.filter(retry_of__isnull=False).count() == 1
    for each in (*OperatorEvent.objects.filter(actor="odd").values_list("pk", flat=True), 10**30):
        assert client.get(f"{CONSOLE}task/proposals/{each}/").status_code == 302


def test_old_proposals_are_no_longer_open(database):
    failed()
    number = proposed()
    OperatorEvent.objects.filter(pk=number).update(ts=OperatorEvent.objects.get(pk=number).ts - timedelta(days=8))
    assert operator().get(f"{CONSOLE}task/proposals/{number}/").status_code == 302


def test_mcp_proposes_only_if_it_was_allowed(database):
    failed()
    assert answered("propose", WISH, "mcp:me", "default") == ("There is no question propose.", True)
    text, is_error = answered("propose", WISH, "mcp:me", "default", may_propose=True)
    assert (json.loads(text)["would"], is_error) == (1, False)
    mcp = pytest.importorskip("mcp")
    from django_tasks_retry.cli import agents

    async def names(*, may_propose: bool) -> set[str]:
        async with mcp.Client(agents.make_server("default", "mcp:me", may_propose=may_propose)) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(names(may_propose=True)) - asyncio.run(names(may_propose=False)) == {"propose"}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("list", {"words": "queue:\x00"}), ("list", {"words": ["\ud800"]}), ("list", {"limit": float("inf")}),
        ("list", {"\ud800": 1}), ("show", {"id": "\ud800"}), ("late", {"queue": "a\x00b"}), ("late", {"since": 5}),
        ("functions", {"since": "9" * 40}), ("functions", {"since": "99999999d"}), ("late", {"id": []}),
    ],
)  # fmt: skip
def test_odd_values_are_answered_in_words(database, name, given):
    text, _ = answered(name, given, "me", "default")
    assert text.encode()
    assert "DataError" not in text
