"""Questions of scripts and agents: subcommands that only read, answered as JSON over HTTP and MCP.

Their parameters, help and records are those of the subcommands. Every question is written to the operator log.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core import signing
from django.core.management.base import OutputWrapper
from django.db import Error
from django.utils.crypto import constant_time_compare, salted_hmac

from ...conf import options
from ...display.formatting import one_line
from ...errors import TaskQueueError
from ...rules.payload import storable
from ...rules.redact import redact_text
from ...taskqueue import database
from ...taskqueue.events import ASKED, write_operator_event
from ...taskqueue.timeouts import statement_timeout
from ..output import Encoder, Output
from ..subcommand import CliError, Context, Exit, actor, command, option, subcommands
from . import proposals

SALT = "django_tasks_retry.api"
MOST_RECORDS = 100
SECONDS = 5.0  # of one statement, and of a search over many pages
PAYLOAD = "django_tasks_retry.view_task_payload"  # all but a few answers may quote errors and reasons


@dataclass(frozen=True, slots=True)
class Question:
    subcommand: str
    parameters: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ("django_tasks_retry.view_task", PAYLOAD)
    flag: str = ""

    @property
    def help(self) -> str:
        return subcommands()[self.subcommand].help


QUESTIONS = {
    "list": Question("list", ("words", "limit")),
    "show": Question("show", ("id",)),
    "why": Question("show", ("id",), flag="why"),
    "failures": Question("failures", ("failure", "limit")),
    "doctor": Question("doctor"),
    "functions": Question("stats", ("since",)),
    "queues": Question("queues", permissions=("django_tasks_retry.view_queue", PAYLOAD)),
    "workers": Question("workers", permissions=("django_tasks_retry.view_worker",)),
    "late": Question("late", ("id", "func_path", "queue", "since")),
    "objectives": Question("objectives", ("name",)),
}


class Recorder:
    """Stands in for a parser, to learn the options of a subcommand."""

    def __init__(self) -> None:
        self.options: dict[str, dict[str, Any]] = {}

    def add_argument(self, *names: str, **given: Any) -> None:
        name = given.get("dest") or names[-1].lstrip("-").replace("-", "_")
        default = {"default": False} if given.get("action") == "store_true" else {}
        is_required = not names[0].startswith("-") and "nargs" not in given
        self.options[name] = {**default, **given, "required": is_required}

    def add_mutually_exclusive_group(self) -> Recorder:
        return self


@cache
def options_of(subcommand: str) -> dict[str, dict[str, Any]]:
    recorder: Any = Recorder()
    subcommands()[subcommand].add_arguments(recorder)
    found: dict[str, dict[str, Any]] = recorder.options
    return found


def schema_of(question: Question) -> dict[str, Any]:
    """Return the parameters of a question as a JSON schema."""
    known = {name: options_of(question.subcommand)[name] for name in question.parameters}
    properties = {}
    for name, each in known.items():
        kind: dict[str, Any] = {"type": "integer" if each.get("type") is int else "string"}
        if each.get("nargs") == "*":
            kind = {"type": "array", "items": kind}
        properties[name] = {**kind, "description": each.get("help", "")}
    required = [name for name, each in known.items() if each["required"]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def read_parameters(question: Question, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of the subcommand. Those that are no parameters of the question keep their defaults."""
    known = options_of(question.subcommand)
    if unknown := given.keys() - set(question.parameters):
        allowed = ", ".join(question.parameters) or "none"
        raise CliError(f"There is no parameter {one_line(storable(min(unknown)), 60)}. There are: {allowed}.")
    read: dict[str, Any] = {
        name: [] if each.get("nargs") == "*" else each.get("default") for name, each in known.items()
    }
    for name in question.parameters:
        if name in given:
            read[name] = read_parameter(name, given[name], known[name])
        elif known[name]["required"]:
            raise CliError(f"Give the parameter {name}.")
    if question.flag:
        read[question.flag] = True
    return read


def read_parameter(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    texts = [storable(str(each)) for each in (value if isinstance(value, list) else [value])]
    if known.get("nargs") == "*":
        words = texts if isinstance(value, list) else texts[0].split()
        if "-" in words:
            raise CliError("There is no stdin to read words from.")
        return words
    try:
        found = known.get("type", str)(texts[-1] if texts else "")
    except (argparse.ArgumentTypeError, OverflowError, ValueError) as error:
        raise CliError(f"{name}: {one_line(error, 200)}") from None
    if name == "limit" and not 1 <= found <= MOST_RECORDS:
        raise CliError(f"limit: give a number from 1 to {MOST_RECORDS}.")
    return found


class Collected(Output):
    """Keeps records and what is said beside them. A search that takes too long is given up."""

    def __init__(self) -> None:
        super().__init__(OutputWrapper(io.StringIO()), OutputWrapper(io.StringIO()), as_json=True, colour=False)
        self.records: list[Mapping[str, Any]] = []
        self.notes: list[str] = []
        self.until = time.monotonic() + SECONDS

    def record(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)

    def talk(self, text: str) -> None:
        self.notes.append(text.strip())

    def progress(self, text: str) -> None:
        if time.monotonic() > self.until:
            raise CliError("This took too long. Choose a status, a queue or a shorter period.", Exit.REFUSED)


def ask(name: str, given: Mapping[str, Any], by: str, backend: str) -> dict[str, Any]:
    """Answer a question, after it was written to the operator log. Raises CliError with what is wrong about it."""
    question, using, output = QUESTIONS[name], database(backend), Collected()
    told = redact_text(" ".join(f"{key}={value}" for key, value in given.items()))
    write_operator_event(ASKED, name, by, told, using)
    read = read_parameters(question, given)
    with statement_timeout(using, SECONDS):
        code = subcommands()[question.subcommand].run(Context(read, output, backend)) or Exit.OK
    if code == Exit.NOT_FOUND:
        raise CliError(" ".join(output.notes) or "Nothing matches.", code)
    cut = output.records[MOST_RECORDS:]
    return {"records": output.records[:MOST_RECORDS], "notes": output.notes, "is_cut": bool(cut)}


# Tokens: a signed reference to a user, whose permissions it has. A new password ends it.


def token_for(user: Any) -> str:
    return signing.dumps([str(user.pk), state_of(user)], salt=SALT)


def state_of(user: Any) -> str:
    return salted_hmac(SALT, user.get_session_auth_hash(), algorithm="sha256").hexdigest()[:32]


def user_of(token: str, age: float) -> Any:
    """Return the active user of a token; None if it is forged, too old, or from before a change of the password."""
    try:
        pk, state = signing.loads(token, salt=SALT, max_age=timedelta(seconds=age))
        user = get_user_model()._default_manager.get(pk=pk, is_active=True)
    except (signing.BadSignature, TypeError, ValueError, get_user_model().DoesNotExist):
        return None
    return user if constant_time_compare(state, state_of(user)) else None


@command(
    "token", "A token of the JSON API for a user, with the permissions of that user; see OPTIONS['API_TOKEN_AGE'].",
    option("username", metavar="USERNAME"),
)  # fmt: skip
def token(context: Context) -> None:
    if options(context.backend).api_token_age is None:
        raise CliError("OPTIONS['API_TOKEN_AGE'] is not set, so there is no API.")
    users = get_user_model()
    user = users._default_manager.filter(**{users.USERNAME_FIELD: context["username"], "is_active": True}).first()
    if user is None:
        raise CliError(f"There is no active user {one_line(context['username'], 100)}.", Exit.NOT_FOUND)
    write_operator_event("api.token", str(user.pk), actor(), "", context.using)
    context.output.answer({"token": token_for(user)}, token_for(user))


# The Model Context Protocol


@command(
    "mcp", "Serve the questions to an agent by the Model Context Protocol, over stdin and stdout. Only reads.",
    option("--propose", action="store_true", help="let the agent propose retries, which people confirm in the console"),
)  # fmt: skip
def mcp(context: Context) -> None:
    try:
        from mcp.server.stdio import stdio_server
    except ImportError as missing:
        raise CliError("Install the package mcp: pip install 'django-tasks-retry[mcp]'") from missing
    server = make_server(context.backend, actor().replace("cli:", "mcp:", 1), may_propose=context["propose"])

    async def serve() -> None:
        async with stdio_server() as streams:
            await server.run(*streams, server.create_initialization_options())

    asyncio.run(serve())


def make_server(backend: str, by: str, *, may_propose: bool = False) -> Any:
    from mcp.server.lowlevel import Server
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

    tools = [
        Tool(
            name=name,
            description=question.help,
            input_schema=schema_of(question),
            annotations=ToolAnnotations(read_only_hint=True),
        )
        for name, question in QUESTIONS.items()
    ]
    if may_propose:
        tools.append(Tool(name="propose", description=proposals.ABOUT, input_schema=proposals.SCHEMA))

    async def list_tools(_context: Any, _parameters: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_context: Any, parameters: Any) -> CallToolResult:
        call = partial(answered, parameters.name, parameters.arguments or {}, by, backend, may_propose=may_propose)
        text, is_error = await sync_to_async(call)()
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)

    return Server("django-tasks-retry", on_list_tools=list_tools, on_call_tool=call_tool)


def answered(
    name: str, given: Mapping[str, Any], by: str, backend: str, *, may_propose: bool = False
) -> tuple[str, bool]:
    """Return the answer as a text, and whether it says what is wrong."""
    try:
        if may_propose and name == "propose":
            return json.dumps(proposals.propose(given, by, backend)), False
        if name not in QUESTIONS:
            raise CliError(f"There is no question {one_line(name, 60)}.")
        return json.dumps(ask(name, given, by, backend), cls=Encoder, ensure_ascii=False), False
    except (CliError, TaskQueueError, Error) as error:
        return one_line(error, 1000), True
