"""Arguments that tell failing calls from successful ones are found, and no others."""

from __future__ import annotations

from typing import Any

from django_tasks_retry.admin.functions import percentiles, quantile
from django_tasks_retry.analysis.contrast import FEWEST, About, differences, facts_of
from django_tasks_retry.taskqueue.statistics.stats import BOUNDS, BUCKETS


def calls(*arguments: dict[str, Any]) -> list[set[Any]]:
    return [facts_of(each.items()) for each in arguments]


def told(failing: list[dict[str, Any]], succeeding: list[dict[str, Any]]) -> list[tuple[str, About, str]]:
    return [(each.path, each.about, each.value) for each in differences(calls(*failing), calls(*succeeding))]


def test_a_value_of_another_type_is_told_by_its_type():
    failing = [{"currency": None, "id": n} for n in range(37)]
    succeeding = [{"currency": "EUR", "id": 100 + n} for n in range(200)]
    assert told(failing, succeeding) == [("currency", About.TYPE, "null")]


def test_a_value_of_the_same_type_is_told_as_a_value():
    failing = [{"country": "CH", "id": n} for n in range(5)]
    succeeding = [{"country": country, "id": 100 + n} for n, country in enumerate(["DE", "FR", "AT"] * 5)]
    assert told(failing, succeeding) == [("country", About.VALUE, '"CH"')]


def test_an_argument_that_only_failures_have_is_told_as_such():
    assert told([{"dry_run": True, "id": n} for n in range(5)], [{"id": n} for n in range(5)]) == [
        ("dry_run", About.PRESENCE, "")
    ]


def test_what_only_successes_share_is_told_too():
    failing = [{"n": n, "tier": f"tier {n}"} for n in range(5)]
    succeeding = [{"n": n, "tier": "gold"} for n in range(5)]
    assert ("tier", About.VALUE, '"gold"') in told(failing, succeeding)


def test_nothing_is_told_where_they_are_alike():
    alike = [{"id": n, "currency": "EUR"} for n in range(50)]
    assert told(alike, alike) == []


def test_places_in_lists_do_not_matter():
    failing = [{f"items.{n}.sku": "X"} for n in range(5)]
    succeeding = [{f"items.{n}.sku": f"A{n}"} for n in range(5)]
    assert told(failing, succeeding) == [("items.*.sku", About.VALUE, '"X"')]


def test_a_few_exceptions_do_not_hide_a_difference_and_many_do():
    failing = [{"currency": None if n else "EUR"} for n in range(100)]
    succeeding = [{"currency": "EUR"}] * 100
    assert told(failing, succeeding) == [("currency", About.TYPE, "null")]
    assert told(failing[:10] + [{"currency": "EUR"}] * 5, succeeding) == []


def test_too_few_calls_tell_nothing():
    assert told([{"a": None}] * (FEWEST - 1), [{"a": 1}] * 50) == []
    assert told([{"a": None}] * 50, [{"a": 1}] * (FEWEST - 1)) == []


def test_percentiles_are_of_the_nearest_rank():
    assert percentiles([float(n) for n in range(1, 101)]) == (50.0, 95.0, 99.0)
    assert percentiles([7.0]) == (7.0, 7.0, 7.0)
    assert percentiles([]) == ()


def test_quantiles_of_buckets_lie_within_their_bucket():
    counts = [0] * len(BUCKETS)
    counts[3] = 100  # from 250 ms to 1 s
    assert quantile(counts, 0.5) == 0.625
    assert 0.25 < quantile(counts, 0.01) < quantile(counts, 0.99) < 1.0
    counts[0] = 300
    assert quantile(counts, 0.5) < 0.01
    counts[-1] = 10_000
    assert quantile(counts, 0.99) == BOUNDS[-1]
