"""Which calls fit a function, and what is said of those that do not."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.errors import WrongArguments
from django_tasks_retry.taskqueue.enqueue.checks import callee_of


def plain(order_id: int, copies: int = 1) -> None: ...
def nothing() -> None: ...
def keyword_only(a: int, *, b: int, c: int = 0) -> None: ...
def positional_only(a: int, /, b: int = 0) -> None: ...
def variable(a: int, *rest: int, **more: int) -> None: ...
def with_context(context: Any, a: int, b: int = 0) -> None: ...


FUNCTIONS = [plain, nothing, keyword_only, positional_only, variable]
names = st.sampled_from(["order_id", "copies", "a", "b", "c", "z"])
calls = st.tuples(st.lists(st.just(0), max_size=4), st.dictionaries(names, st.just(0), max_size=3))


def fits(callee: Any, args: Any, kwargs: Any) -> bool:
    try:
        callee.check(args, kwargs)
    except WrongArguments:
        return False
    return True


@pytest.mark.parametrize("function", FUNCTIONS)
@given(call=calls)
def test_a_call_fits_exactly_where_python_would_make_it(function, call):
    args, kwargs = call
    try:
        inspect.signature(function).bind(*args, **kwargs)
        expected = True
    except TypeError:
        expected = False
    assert fits(callee_of(function, takes_context=False), args, kwargs) is expected


@given(call=calls)
def test_the_context_is_given_by_the_worker(call):
    args, kwargs = call
    try:
        with_context("context", *args, **kwargs)
        expected = True
    except TypeError:
        expected = False
    assert fits(callee_of(with_context, takes_context=True), args, kwargs) is expected


SAID = {
    "missing": (plain, [], {}, "plain(order_id, copies=1) cannot take this call: missing a required argument"),
    "too many": (nothing, [1], {}, "nothing() cannot take this call: too many positional arguments."),
    "mistyped": (plain, [], {"oder_id": 1, "order_id": 2}, "keyword argument 'oder_id'. Did you mean 'order_id'?"),
    "option": (plain, [1], {"countdown": 5}, "write Task.objects.enqueue(…, eta=timedelta(seconds=…)) or use using("),
    "twice": (plain, [1], {"order_id": 1}, "multiple values for argument 'order_id'."),
}


@pytest.mark.parametrize("case", SAID)
def test_what_does_not_fit_is_named_with_the_signature(case):
    function, args, kwargs, words = SAID[case]
    with pytest.raises(WrongArguments) as refusal:
        callee_of(function, takes_context=False).check(args, kwargs)
    assert f"{__name__}.{function.__name__}(" in str(refusal.value)
    assert words in str(refusal.value)
    assert isinstance(refusal.value, TypeError)


def test_a_signature_that_was_copied_from_another_function_refuses_nothing():
    def inner(client: Any, number: int) -> None: ...

    inner.__signature__ = inspect.Signature()

    @functools.wraps(inner)
    def outer(*args: Any) -> None: ...

    assert fits(callee_of(outer, takes_context=False), [1, 2, 3], {"x": 1})


def test_a_builtin_without_a_signature_refuses_nothing():
    assert fits(callee_of(dict.fromkeys, takes_context=False), [1, 2], {})
    assert fits(callee_of(type, takes_context=False), [1, 2, 3, 4], {})


def test_a_default_that_cannot_be_shown_does_not_hide_the_error():
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError

    def odd(a: int, b: Any = Mute()) -> None: ...  # noqa: B008

    with pytest.raises(WrongArguments, match="missing a required argument: 'a'"):
        callee_of(odd, takes_context=False).check([], {})
