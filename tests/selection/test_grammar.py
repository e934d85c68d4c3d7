"""Typed words become a query, or a message that says what to type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.selection.grammar import KEYS, PayloadTerm, parse, parse_arguments

ID = UUID("0199a3f2-0000-7000-8000-000000000001")


def test_every_key_is_understood():
    query = parse(
        f"id:{ID} status:failed queue:emails lane:t-7 task:pay worker:web-1 error:Timeout failure:00000000000000a1 "
        f"run:{ID} batch:{ID} retries:{ID} since:1h until:5m arg:42 meta:tenant=acme"
    )
    assert query.problems == []
    assert query.words == len(KEYS) == 15
    assert query.ids == [(ID, ID)]
    assert query.lanes == ["t-7"]
    assert query.runs == query.batches == query.retries_since == [ID]
    assert (query.statuses, query.queues, query.tasks) == (["failed"], ["emails"], ["pay"])
    assert (query.workers, query.errors, query.fingerprints) == (["web-1"], ["Timeout"], ["00000000000000a1"])
    assert (query.since, query.until) == ([timedelta(hours=1)], [timedelta(minutes=5)])
    assert (query.args, query.metas) == ([PayloadTerm("", "42")], [PayloadTerm("tenant", "acme")])


def test_the_beginning_of_an_id_is_a_range_of_ids():
    [(first, last)] = parse("0199a3f2").ids
    assert first <= ID <= last
    assert str(first).startswith("0199a3f2-0000")
    assert str(last).startswith("0199a3f2-ffff")


def test_quotes_keep_words_together():
    query = parse('error:"timed out" arg:name="Olga B" status:failed,cancelled')
    assert query.errors == ["timed out"]
    assert query.args == [PayloadTerm("name", "Olga B")]
    assert query.statuses == ["failed", "cancelled"]


def test_what_a_shell_has_split_needs_no_quotes():
    assert parse_arguments(["error:timed out", "since:1h"]).errors == ["timed out"]
    query = parse_arguments(['status:failed error:"timed out" since:1h'])
    assert (query.statuses, query.errors, query.words) == (["failed"], ["timed out"], 3)


def test_a_date_is_an_instant(settings):
    settings.TIME_ZONE = "UTC"
    assert parse("since:2026-01-31").since == [datetime(2026, 1, 31, tzinfo=UTC)]
    assert parse("since:2026-01-31T08:30+00:00").since == [datetime(2026, 1, 31, 8, 30, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stauts:failed", "There is no “stauts:”. Did you mean status?"),
        (
            "status:faild",
            "“faild” is not a status (ready, scheduled, waiting, retrying, pending, running, success, failed, ",
        ),
        ("status:faild", "Did you mean failed?"),
        ("since:yesterday", "“yesterday” is not a time. Write 15m, 1h, 7d, 2026-01-31 or 2026-01-31T08:30."),
        ("since:2026-02-31", "is not a time"),
        ("since:999999999d", "is not a time"),
        ("queue: emails", "“queue:” needs a value, without a space before it."),
        ("arg:name=", "“name=” needs a value after the equals sign."),
        ("run:0199", "“0199” is not the id of a run: give all of it."),
        ("receipt", "“receipt” is not an id."),
        ('error:"timed out', "A quotation mark is not closed."),
    ],
)
def test_what_is_not_understood_is_answered_with_what_to_type(text, said):
    assert any(said in problem for problem in parse(text).problems)


@given(st.text(max_size=200))
def test_nothing_that_can_be_typed_is_an_error(text):
    query = parse(text)
    assert query.words >= len(query.problems)
    parse_arguments(text.split(" "))
