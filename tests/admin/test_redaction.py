"""Secrets are hidden from everybody, however they are written, at a cost that grows with the text and no faster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import RequestFactory
from django.views.debug import SafeExceptionReporterFilter
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.display import redact
from django_tasks_retry.display.events import format_traceback
from django_tasks_retry.display.redact import redact_value, redacted_json
from django_tasks_retry.rules.redact import HIDDEN, MAX_TEXT, Redaction, redact_text

CORPUS = json.loads(Path(__file__).with_name("secrets.json").read_text(encoding="utf-8"))
SECRET = "hunter2"
HOSTILE = [
    "password='", "password=\\\\'", "\\", "pwd=[", "://a:", "://a@", "key ", "a", "token(", "Bearer ", "'\"", "=",
    "password=\"'", "password\\", "password=b", "-", "token:\n", "secret=((", "Authorization: ", "\ud800password=",
]  # fmt: skip


def test_a_secret_is_written_as_django_writes_it():
    assert SafeExceptionReporterFilter.cleansed_substitute == HIDDEN


@pytest.fixture
def request_of_nobody():
    return RequestFactory().get("/")


@pytest.mark.fault("secrets_in_texts")
@pytest.mark.parametrize("form", CORPUS["hidden"])
def test_a_secret_is_hidden_in_every_form(form):
    text = CORPUS["hidden"][form]
    assert SECRET in text
    assert SECRET not in redact_text(text)
    assert SECRET not in redact_text(f"before, {text}")
    assert SECRET not in redact_text(json.dumps({"body": text}))
    assert SECRET not in redact_text(repr({"body": text}))


@pytest.mark.parametrize("text", CORPUS["kept"])
def test_what_is_no_secret_is_shown_as_it_is(text):
    assert redact_text(text) == text


@pytest.mark.fault("secrets_in_texts")
@pytest.mark.parametrize("form", CORPUS["hidden"])
def test_a_text_that_is_cut_hides_what_is_left_of_a_secret(form):
    """Rows keep the beginning of a long text."""
    text = CORPUS["hidden"][form]
    for end in range(text.index(SECRET) + 4, len(text)):
        cut = redact_text(text[:end])
        assert SECRET[: end - text.index(SECRET)] not in cut.replace("user", "") or "//" in text, cut


@pytest.mark.fault("secrets_in_texts")
@pytest.mark.parametrize(
    "value",
    [
        {"password": SECRET},
        {"a": [{"b": {"c": [{"api_key": SECRET}]}}]},
        {"headers": [["X-Api-Key", SECRET], ["Accept", "*"]]},
        {"headers": [{"name": "Authorization", "value": SECRET}]},
        {"credentials": {"user": "x", "pin": [SECRET]}},
        {"body": json.dumps({"password": SECRET})},
        {"body": json.dumps({"inner": json.dumps({"password": SECRET})})},
        {f"password={SECRET}": 1},
        ["password", SECRET],
        {"url": f"https://ann:{SECRET}@example.com/"},
    ],
    ids=lambda value: str(value)[:40],
)
def test_structured_secrets_are_hidden_by_their_keys_at_any_depth(value, request_of_nobody):
    for depth in range(4):
        nested = value
        for _ in range(depth):
            nested = {"deeper": [nested]}
        assert SECRET not in redacted_json(nested, request_of_nobody)


SECRET_NAMES = [
    "api", "apiKey", "x_api", "auth", "token", "key", "secret", "password", "passphrase", "passcode", "passkey", "pass",
    "pass_1", "pass1", "pwd", "psw", "signature", "sig", "cookie", "credential", "session", "session_id", "sessionid",
    "jwt", "bearer", "otp", "connection_string", "connection-string",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_each_word_that_names_a_secret_hides_it_in_texts_and_by_its_key(name, request_of_nobody):
    assert SECRET not in redact_text(f"{name}={SECRET}")
    assert SECRET not in redacted_json({name: SECRET}, request_of_nobody)


@pytest.mark.parametrize("key", ["name", "key", "header", "field"])
def test_a_secret_is_hidden_by_the_name_that_stands_beside_it(key, request_of_nobody):
    value = {key: "X-Api-Key", "value": SECRET}
    for text in (json.dumps(value), repr(value), json.dumps({"body": json.dumps(value)})):
        assert SECRET not in redact_text(text)
        assert "after" in redact_text(f"{text} after")
    assert SECRET not in redacted_json(value, request_of_nobody)


def test_what_is_no_secret_keeps_its_structure(request_of_nobody):
    value = {"order": 7, "lines": [["a", 1], {"name": "pen", "value": 2}], "note": "x", "none": None, "yes": True}
    assert redact_value("", value, request_of_nobody) == value


def test_a_value_is_cut_only_after_its_secrets_are_hidden(request_of_nobody):
    value = {"password": f"{'x' * 3000}{SECRET}", "text": f"password={'x' * 6000}{SECRET}"}
    assert SECRET not in redacted_json(value, request_of_nobody, limit=1000)
    traceback = format_traceback(f"password={'x' * MAX_TEXT}{SECRET}")
    assert traceback is not None
    assert SECRET not in traceback.full_text


def test_a_value_that_is_too_deep_or_too_long_is_cut(request_of_nobody):
    deep: list = []
    for _ in range(900):
        deep = [deep]
    assert "…" in redacted_json(deep, request_of_nobody)
    many = redact_value("", list(range(10**5)), request_of_nobody)
    assert len(many) == redact.MAX_ITEMS


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_text_is_read_once_whatever_stands_in_it(piece):
    """Each step takes one token of at least one character, and no token twice."""
    for length in (1_000, 10_000, 100_000):
        redaction = Redaction(piece * (length // len(piece)))
        redaction.redacted()
        assert redaction.steps <= length + 1


@given(st.text(alphabet="pwdtoken=:'\"\\([{}]),;&/@- \nbB1é\ud800", max_size=60))
def test_any_text_can_be_redacted_in_no_more_steps_than_it_has_characters(text):
    redaction = Redaction(text)
    redaction.redacted()
    assert redaction.steps <= len(text) + 1
