"""A value is walked no further than its limit, by its plain value, and what its own code raises is its own failure."""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator, Mapping

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort, InvalidPayload, InvalidPolicy, Retry, Snooze, TaskTimeout
from django_tasks_retry.rules.backoff import from_json
from django_tasks_retry.rules.failure import Code, capture
from django_tasks_retry.rules.payload import MOST_GROWTH, Budget, canonical, dump
from tests.steps import begin, delay_of, now_of

LIMIT = 10_000


def within_limit(value):
    return canonical(value, "The return value", Budget(LIMIT, "The return value"))


class Counting(Mapping):
    """Counts how often it is read."""

    reads = 0

    def __len__(self):
        return 1

    def __iter__(self):
        type(self).reads += 1
        return iter("a")

    def __getitem__(self, key):
        return 1


class Endless(Mapping):
    def __init__(self):
        self.told = 0

    def __len__(self):
        return 0

    def __iter__(self) -> Iterator[str]:
        while True:
            self.told += 1
            yield str(self.told)

    def __getitem__(self, key):
        return None


@pytest.mark.fault("result_without_end")
@pytest.mark.parametrize(
    "value", [[0] * LIMIT, (0,) * LIMIT, dict.fromkeys(map(str, range(LIMIT))), "x" * LIMIT, {"x" * LIMIT: 1}]
)
def test_what_is_too_long_is_refused(value):
    with pytest.raises(
        InvalidPayload, match=r"^The return value takes more than 10,000 bytes as JSON\. Store the data"
    ):
        within_limit(value)


@pytest.mark.fault("result_without_end")
def test_a_list_that_is_too_long_is_refused_before_anything_in_it_is_read():
    Counting.reads = 0
    with pytest.raises(InvalidPayload):
        within_limit([Counting()] * LIMIT)
    assert Counting.reads == 0


@pytest.mark.fault("result_without_end")
def test_reading_stops_at_the_limit():
    Counting.reads = 0
    with pytest.raises(InvalidPayload):
        within_limit([[Counting()] * 100] * 100)
    assert 100 < Counting.reads <= LIMIT / len('{"a":1}')


@pytest.mark.fault("result_without_end")
def test_a_mapping_without_end_is_left_at_the_limit():
    endless = Endless()
    with pytest.raises(InvalidPayload, match="takes more than"):
        within_limit(endless)
    assert endless.told <= LIMIT


@pytest.mark.parametrize(
    "value",
    [["é" * 10], [1.5, -0.0, 10**40, True, None], {"a": {"b": [{}, [], ""]}}, [[]] * 9, {str(n): n for n in range(9)}],
)
def test_what_fits_exactly_is_never_refused_while_it_is_walked(value):
    size = len(dump(canonical(value, "it")).encode())
    assert canonical(value, "it", Budget(size, "it")) == value


@pytest.mark.parametrize(
    "value",
    ["\x1f" * 50, "𝄞" * 50, 1e308, -1e16, -7, 0.1 + 0.2, -1.2345678901234567e-300, 2**4096 - 1, False, [], {}, [[]] * 9,
     {"\x1f": "\x1f"}, [False, -1, 1.5e-300] * 20],
)  # fmt: skip
def test_what_surely_fits_fits(value):
    """Nothing is written as more bytes than were counted for it, by more than the factor that is allowed for."""
    counted = Budget(2**30, "it")
    size = len(dump([[canonical(value, "it", counted)], {}]).encode())
    spent = counted.limit - counted.left + 1
    for limit in (size - 1, size, spent * MOST_GROWTH + MOST_GROWTH - 1):
        budget = Budget(limit, "it")
        budget.left = limit - spent
        assert not budget.surely_holds() or size <= limit
    assert size <= spent * MOST_GROWTH + MOST_GROWTH


class OddInt(int):
    def bit_length(self):
        raise RuntimeError("no")

    __int__ = __index__ = __add__ = __repr__ = bit_length


class OddFloat(float):
    def __float__(self):
        raise RuntimeError("no")

    __add__ = __abs__ = __repr__ = __float__


class OddText(str):
    def encode(self, *_):
        raise RuntimeError("no")

    __len__ = __str__ = __repr__ = encode


class OddDict(dict):
    def items(self):
        raise RuntimeError("no")

    keys = values = copy = __iter__ = __getitem__ = __len__ = items


class OddList(list):
    def __iter__(self):
        raise RuntimeError("no")

    __getitem__ = __len__ = copy = __iter__


class Colour(enum.StrEnum):
    RED = "red"


class OddTuple(namedtuple("Pair", "a b")):
    def __iter__(self):
        raise RuntimeError("no")


@pytest.mark.fault("values_with_code_of_their_own")
@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (OddInt(3), 3), (OddFloat(1.5), 1.5), (OddText("x"), "x"), (OddDict(a=1), {"a": 1}), (OddList([1]), [1]),
        ({OddText("k"): 1}, {"k": 1}), (Colour.RED, "red"), (OddTuple(1, 2), [1, 2]), (OrderedDict(a=1), {"a": 1}),
        (UserDict(a=1), {"a": 1}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_subclass_counts_by_its_plain_value_whatever_its_methods_do(value, plain):
    stored = canonical(value, "it")
    assert (stored, type(stored)) == (plain, type(plain))
    assert dump(stored)


class Closed(Mapping):
    def __len__(self):
        return 1

    def __iter__(self):
        raise ValueError("closed")

    __getitem__ = __iter__


class NoClass:
    @property
    def __class__(self):
        raise RuntimeError("no class")


class NoKey:
    def __repr__(self):
        raise RuntimeError("no text")


@pytest.mark.fault("values_with_code_of_their_own")
@pytest.mark.parametrize("make", [Closed, NoClass, lambda: {NoKey(): 1}, object])
def test_what_a_values_own_code_raises_makes_it_unfit_and_names_the_place(make):
    with pytest.raises(InvalidPayload, match=r"The return value\['a'\]\[1\]"):
        within_limit({"a": [0, make()]})


@pytest.mark.fault("values_with_code_of_their_own")
def test_a_timeout_that_strikes_while_a_value_is_read_is_a_timeout():
    class Slow(Closed):
        def __iter__(self):
            raise TaskTimeout

    with pytest.raises(TaskTimeout):
        within_limit(Slow())


@pytest.mark.fault("values_with_code_of_their_own")
def test_a_dictionary_that_other_threads_fill_is_read_as_it_is_at_one_moment():
    shared, stop = {f"k{n}": n for n in range(500)}, threading.Event()

    def fill():
        while not stop.is_set():
            shared.update({f"x{n}": n for n in range(200)})
            for n in range(200):
                del shared[f"x{n}"]

    filler = threading.Thread(target=fill)
    filler.start()
    try:
        for _ in range(200):
            assert len(canonical(shared, "it")) >= 500
    finally:
        stop.set()
        filler.join()


@pytest.mark.fault("result_without_end", "values_with_code_of_their_own")
@pytest.mark.parametrize("make", [Endless, Closed, NoClass, lambda: [0] * 4_000_000])
def test_a_result_that_cannot_be_stored_is_the_tasks_own_failure(database, make):
    task, lease = begin()
    assert taskqueue.complete_task(lease, make()).status == "FAILED"
    assert now_of(task).last_error["code"] == "RESULT_NOT_SERIALIZABLE"


def no_name(_):
    raise RuntimeError("no name")


class Nameless(type):
    __name__ = property(no_name)
    __module__ = property(no_name)


class Odd(Exception, metaclass=Nameless):
    def __str__(self):
        raise RuntimeError("no text")

    __class__ = NoClass.__class__


@pytest.mark.fault("half_made_retry_signals")
def test_an_exception_that_tells_nothing_of_itself_is_captured_by_the_name_of_its_class():
    failure = capture(Odd())
    assert (failure.code, failure.exception) == (Code.EXCEPTION, "Odd")
    assert failure.message == "<Odd whose text cannot be made>"


@pytest.mark.fault("half_made_retry_signals")
def test_such_an_exception_fails_its_attempt(database):
    task, lease = begin()
    assert taskqueue.fail_task(lease, Odd()).status == "PENDING"
    assert now_of(task).last_error["exception"] == "Odd"


class RateLimited(Retry):
    def __init__(self, seconds):
        self.seconds = seconds


class Later(Snooze):
    def __init__(self, why):
        self.why = why


class Enough(Abort):
    def __init__(self):
        pass


@pytest.mark.fault("half_made_retry_signals")
def test_a_retry_that_forgot_its_delay_waits_as_the_policy_says(database):
    task, lease = begin(backoff=[300])
    taskqueue.fail_task(lease, RateLimited(5))
    assert delay_of(now_of(task)) == 300


@pytest.mark.fault("half_made_retry_signals")
@pytest.mark.parametrize("after", [float("nan"), float("-inf"), "soon", None])
def test_a_retry_whose_delay_is_none_waits_as_the_policy_says(database, after):
    task, lease = begin(backoff=[300])
    error = Retry(after=5)
    error.after = after
    taskqueue.fail_task(lease, error)
    assert delay_of(now_of(task)) == 300


@pytest.mark.fault("half_made_retry_signals")
def test_a_snooze_that_forgot_its_delay_is_a_failure_that_says_so(database):
    task, lease = begin(backoff=[300])
    assert taskqueue.fail_task(lease, Later("x")).status == "PENDING"
    stored = now_of(task)
    assert (stored.refunds, delay_of(stored)) == (0, 300)
    assert "Later is a Snooze without a delay" in stored.last_error["message"]


@pytest.mark.fault("half_made_retry_signals")
def test_an_abort_that_forgot_its_reason_gives_up_all_the_same(database):
    task, lease = begin()
    assert taskqueue.fail_task(lease, Enough()).status == "FAILED"
    assert now_of(task).last_error["code"] == "ABORTED"


@pytest.mark.fault("backoff_of_an_unknown_form")
@pytest.mark.parametrize(
    "stored",
    [{"x": 1}, {"function": 5}, {"base": "1"}, {"base": 10**5000}, [], [-1], [[1]], "soon", 5, True, [None]],
)
def test_a_stored_backoff_of_an_unknown_form_is_refused_as_invalid(stored):
    with pytest.raises(InvalidPolicy, match="does not know"):
        from_json(stored)
