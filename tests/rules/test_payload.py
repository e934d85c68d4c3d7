"""Texts of any size and kind become storable, and capturing an exception never fails, whatever it does."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort, Retry, TaskTimeout
from django_tasks_retry.rules.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT, Code, capture
from django_tasks_retry.rules.payload import clip, noted, storable
from tests.steps import begin, now_of

any_text = st.text(st.characters(exclude_categories=[]), max_size=300)


@given(any_text, st.integers(0, 400))
def test_clipped_text_fits_and_keeps_its_ends(text, limit):
    text = storable(text)
    clipped = clip(text, limit)
    assert len(clipped.encode()) <= limit
    if len(text.encode()) <= limit:
        assert clipped == text


def test_a_cut_is_marked_and_counted():
    assert clip("a" * 1000 + "z" * 1000, 100) == "a" * 33 + "\n… 1,900 bytes cut …\n" + "z" * 42


def test_a_cut_never_splits_a_character():
    clipped = clip("é" * 1000, 101)
    assert clipped.encode().decode() == clipped


@given(any_text)
def test_storable_text_is_accepted_by_every_database(text):
    stored = storable(text)
    assert "\x00" not in stored
    assert stored.encode().decode() == stored


def test_nothing_is_lost_by_escaping():
    assert storable("a\x00b\ud800c") == "a\\u0000b\\ud800c"


@given(any_text)
def test_a_remark_is_bounded(text):
    assert len(noted(text * 50).encode()) <= 2048


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Endless(Exception):
    def __str__(self):
        return str(self)


class Suicidal(Exception):
    def __str__(self):
        raise SystemExit(1)


class Wrong(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307 - that is what is wrong with it


class Nameless(type):
    @property
    def __module__(cls):
        raise RuntimeError("no module")


class Anonymous(Exception, metaclass=Nameless):
    pass


def chained_in_a_circle():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def nested_group(depth=5000):
    error = ValueError("core")
    for _ in range(depth):
        error = ExceptionGroup("shell", [error])
    return error


def too_deep():
    def dive():
        dive()

    try:
        dive()
    except RecursionError as error:
        return error


def with_surrogate_name():
    cls = type("Odd", (Exception,), {})
    cls.__qualname__ = "Odd\ud800\x00" + "x" * 5000
    return cls("odd")


HOSTILE = {
    "a message that raises": Mute(),
    "a message without end": Endless(),
    "a message that exits": Suicidal(),
    "a message that is no text": Wrong(),
    "50 MB": ValueError("x" * 50_000_000),
    "50 MB of NUL": ValueError("\x00" * 50_000_000),
    "NUL and surrogates": ValueError("a\x00b\ud800\udfff"),
    "bytes": ValueError(b"\xff\xfe"),
    "a circle of causes": chained_in_a_circle(),
    "a group": ExceptionGroup("many", [ValueError("one"), KeyError("two")]),
    "a group too deep": nested_group(),
    "a recursion": too_deep(),
    "an odd name": with_surrogate_name(),
    "no name": Anonymous("x"),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
}


@pytest.mark.fault("unprintable_errors")
@pytest.mark.parametrize("name", HOSTILE)
def test_capturing_never_fails_and_is_bounded(name):
    failure = capture(HOSTILE[name])
    assert failure.code == Code.EXCEPTION
    for text, limit in [
        (failure.message, MESSAGE_LIMIT), (failure.traceback, TRACEBACK_LIMIT), (failure.exception, 1000),
    ]:  # fmt: skip
        assert isinstance(text, str)
        assert len(text.encode()) <= limit
        assert storable(text) == text


@pytest.mark.fault("unprintable_errors")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_exception_is_recorded_like_any_other(database, name):
    task, lease = begin()
    receipt = taskqueue.fail_task(lease, HOSTILE[name])
    assert receipt.status == "PENDING"
    task = now_of(task)
    assert task.last_error["message"] == capture(HOSTILE[name]).message
    assert json.dumps(task.last_error)


@pytest.mark.fault("too_large")
def test_what_was_cut_of_50_mb_is_told():
    assert "49,997,952 bytes cut" in capture(ValueError("x" * 50_000_000)).message


@pytest.mark.fault("odd_exceptions")
def test_a_group_shows_its_members():
    text = capture(HOSTILE["a group"]).traceback
    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text


def test_a_text_that_cannot_be_made_says_so():
    assert capture(Mute()).message == "<Mute whose text cannot be made>"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError(), "EXCEPTION"),
        (TimeoutError(), "EXCEPTION"),
        (TaskTimeout(), "TIMEOUT"),
        (Abort("x"), "ABORTED"),
        (Retry(after=1), "EXCEPTION"),
    ],
)
def test_the_code_tells_the_kind_of_failure(error, code):
    assert capture(error).code == code


def test_capturing_leaves_the_recursion_limit_alone():
    limit = sys.getrecursionlimit()
    capture(HOSTILE["a group too deep"])
    assert sys.getrecursionlimit() == limit
