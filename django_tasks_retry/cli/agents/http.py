"""The JSON API: questions and proposals, for tokens alone; and its description by OpenAPI."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from django.db import Error
from django.db.transaction import non_atomic_requests
from django.http import Http404, HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from ... import __version__
from ...conf import options
from ...display.formatting import one_line
from ...display.scope import console_backend
from ...errors import TaskQueueError
from ...taskqueue.events import actor_of
from ..output import Encoder
from ..subcommand import CliError, Exit
from . import QUESTIONS, ask, proposals, schema_of, user_of

STATUS = {Exit.USAGE: 400, Exit.NOT_FOUND: 404}
MOST_BYTES = 8192
View = Callable[..., JsonResponse]


def only_with_token(view: View) -> View:
    """Answer 404 without OPTIONS["API_TOKEN_AGE"] and 401 without a valid token. Cookies count for nothing."""

    def checked(request: HttpRequest, **kwargs: Any) -> JsonResponse:
        age = options(console_backend()).api_token_age
        if age is None:
            raise Http404
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        user = user_of(token.strip(), age) if kind.lower() == "bearer" else None
        if user is None:
            return error("Give a token of manage.py tasks token as Authorization: Bearer …", 401)
        return view(request, user, **kwargs)

    return csrf_exempt(non_atomic_requests(never_cache(checked)))


def error(text: str, status: int) -> JsonResponse:
    return JsonResponse({"error": text}, status=status)


@require_safe
@only_with_token
def question(request: HttpRequest, user: Any, name: str) -> JsonResponse:
    asked = QUESTIONS.get(name)
    if asked is None:
        return error(f"There are: {', '.join(QUESTIONS)}.", 404)
    given = {key: request.GET.getlist(key) for key in request.GET}
    return answer(user, asked.permissions, lambda: ask(name, given, actor_of(user), console_backend()))


@require_POST
@only_with_token
def propose(request: HttpRequest, user: Any) -> JsonResponse:
    """Store a proposal for people. The body is JSON, as browsers of other sites do not send it unasked."""
    try:
        given = json.loads(request.read(MOST_BYTES))
    except (ValueError, RecursionError):
        return error(f"Send a JSON object of at most {MOST_BYTES} bytes.", 400)
    return answer(user, proposals.PERMISSIONS, lambda: proposals.propose(given, actor_of(user), console_backend()))


def answer(user: Any, permissions: Sequence[str], call: Callable[[], dict[str, Any]]) -> JsonResponse:
    if lacking := [each for each in permissions if not user.has_perm(each)]:
        return error(f"The user of the token lacks {', '.join(lacking)}.", 403)
    try:
        return JsonResponse(call(), encoder=Encoder)
    except CliError as wrong:
        return error(str(wrong), STATUS.get(wrong.code, 409))
    except TaskQueueError as wrong:
        return error(one_line(wrong, 500), 400)
    except Error as wrong:
        return error(f"The database did not answer: {type(wrong).__name__}", 503)


@require_safe
@only_with_token
def description(request: HttpRequest, user: Any) -> JsonResponse:
    """Return the API in the words of OpenAPI 3.1, made from the options of the subcommands."""
    paths = {}
    for name, each in QUESTIONS.items():
        schema = schema_of(each)
        parameters = [
            {"name": key, "in": "query", "required": key in schema["required"], "schema": value}
            for key, value in schema["properties"].items()
        ]
        operation = {"operationId": name, "summary": each.help, "parameters": parameters, "responses": RESPONSES}
        paths[f"/{name}"] = {"get": operation}
    body = {"required": True, "content": {"application/json": {"schema": proposals.SCHEMA}}}
    operation = {"operationId": "propose", "summary": proposals.ABOUT, "requestBody": body}
    paths["/propose"] = {
        "post": {**operation, "responses": {"200": {"description": "Its number, and how many match."}}}
    }
    return JsonResponse(
        {
            "openapi": "3.1.0",
            "info": {"title": "django-tasks-retry", "version": __version__},
            "servers": [{"url": request.path.rstrip("/")}],
            "paths": paths,
            "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
            "security": [{"token": []}],
        }
    )


RESPONSES = {
    "200": {
        "description": "The records of the answer, as `manage.py tasks … --json` prints them.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["records", "notes", "is_cut"],
                    "properties": {
                        "records": {"type": "array", "items": {"type": "object"}},
                        "notes": {"type": "array", "items": {"type": "string"}},
                        "is_cut": {"type": "boolean"},
                    },
                }
            }
        },
    },
    "default": {"description": "An `error` that says what is wrong."},
}
