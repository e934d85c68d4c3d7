"""After trouble, in whatever state it left the connection, the next question is asked as if nothing had been."""

from __future__ import annotations

import gc
import signal
import sys
import time

import pytest
from django.db import OperationalError, transaction

from django_tasks_retry.models import Worker
from django_tasks_retry.taskqueue import register_worker
from django_tasks_retry.worker.alarm import BoundedWeather, TimedOut, within
from django_tasks_retry.worker.weather import Trouble, Weather

FACTS = {"host": "", "pid": 1, "version": "", "queues": [], "exclude": [], "tasks": [], "processes": 1, "slots": 1}


def test_a_transaction_that_trouble_left_open_is_gone_with_it(committed):
    weather = Weather(committed)

    def struck_between_two_blocks() -> None:
        for _ in range(2):
            transaction.atomic(using=committed).__enter__()
        Worker.objects.count()
        raise OperationalError("struck on the way out")

    with pytest.raises(Trouble):
        weather.ask(struck_between_two_blocks)
    assert weather.ask(Worker.objects.count) == 0
    weather.ask(lambda: register_worker("after", "default", **FACTS))
    assert Worker.objects.filter(pk="after").exists()


def test_an_alarm_may_ring_at_any_moment(committed, monkeypatch):
    """Also in a destructor, where Python drops what is raised; it rings again."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    rung = 0
    for nth in range(150):
        try:
            BoundedWeather(committed, seconds=0.0005 + nth * 0.00003).ask(
                lambda: register_worker("w", "default", **FACTS)
            )
        except Trouble:
            rung += 1
        assert BoundedWeather(committed, seconds=20).ask(Worker.objects.count) in (0, 1)
    gc.collect()  # connections that were struck while they were made, and complain of never having been closed
    assert rung > 10


def test_an_alarm_rings_nowhere_but_where_it_is_meant_to():
    """Neither on the way in nor out; and once out, it is off."""
    rung = 0
    for _ in range(3000):
        try:
            within(0.00003, lambda: sum(range(1000)))
        except TimedOut:
            rung += 1
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert rung > 10


def test_an_alarm_waits_until_a_destructor_is_through(monkeypatch):
    """Else it would ring in vain, with a complaint on standard error."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)

    class Slow:
        def __del__(self) -> None:
            time.sleep(0.03)

    def question() -> None:
        Slow()
        time.sleep(60)

    with pytest.raises(TimedOut):
        within(0.01, question)
    assert not dropped
