"""Which records reach the admins: the first of each failure."""

from __future__ import annotations

import logging
import sys

from django.utils.log import AdminEmailHandler

from django_tasks_retry.compat import framework_logger
from django_tasks_retry.worker.logs import MOST_REMEMBERED, FirstOfEachFailure, limit_mails


def framework_record(path: str, error: Exception) -> logging.LogRecord:
    try:
        raise error
    except Exception:  # noqa: BLE001 - as the framework logs, while the exception is handled
        args = ("0199", path, "FAILED")
        return logging.LogRecord(framework_logger.name, logging.ERROR, "", 0, "Task %s %s %s", args, sys.exc_info())


def our_record(path: str, error: str, event: str = "failed") -> logging.LogRecord:
    record = logging.LogRecord("django_tasks_retry.attempts", logging.ERROR, "", 0, "failed", (), None)
    record.facts = {"event": event, "task": path, "error": error}
    return record


def test_alike_failures_pass_once_whoever_tells_of_them():
    first = FirstOfEachFailure(3600)
    assert first.filter(framework_record("shop.mail", ValueError("order 1 is gone")))
    assert not first.filter(framework_record("shop.mail", ValueError("order 2 is gone")))
    assert not first.filter(our_record("shop.mail", "ValueError: order 3 is gone"))


def test_other_failures_and_other_records_pass():
    first = FirstOfEachFailure(3600)
    assert first.filter(framework_record("shop.mail", ValueError("gone")))
    assert first.filter(framework_record("shop.mail", KeyError("gone")))
    assert first.filter(framework_record("shop.other", ValueError("gone")))
    for _ in range(2):
        assert first.filter(logging.LogRecord("django.request", logging.ERROR, "", 0, "%s", ("x",), None))
        assert first.filter(our_record("shop.mail", "ValueError: gone", event="retry"))


def test_after_the_interval_it_is_told_again():
    first = FirstOfEachFailure(3600)
    record = our_record("shop.mail", "ValueError: gone")
    assert first.filter(record)
    first.sent = {failure: moment - 3600 for failure, moment in first.sent.items()}
    assert first.filter(record)


def test_it_remembers_so_many_and_forgets_the_oldest():
    first = FirstOfEachFailure(3600)
    for number in range(MOST_REMEMBERED + 1):
        assert first.filter(our_record(f"shop.mail{number}", "ValueError: gone"))
    assert len(first.sent) == MOST_REMEMBERED
    assert first.filter(our_record("shop.mail0", "ValueError: gone"))


def test_only_handlers_that_mail_are_limited_and_none_where_it_is_switched_off():
    mails, stream = AdminEmailHandler(), logging.StreamHandler()
    limit_mails([mails, stream], None)
    assert mails.filters == []
    limit_mails([mails, stream], 60)
    assert ([type(each) for each in mails.filters], stream.filters) == ([FirstOfEachFailure], [])
