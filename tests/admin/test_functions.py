"""The pages of functions, and the panel that tells what changed since one last worked."""

from __future__ import annotations

import html

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.admin.functions import Times, formatted
from django_tasks_retry.models import Task
from tests.admin import scene, shop

BASE = "/admin/django_tasks_retry/taskfunction/"


def test_all_functions_are_listed_the_busiest_first(played, operator):
    shown = operator.get(BASE).content.decode()
    names = [name for name in ("shop.default", "shop.emails", "shop.bulk", "tests.tasks.noop") if name in shown]
    assert sorted(names, key=shown.index) == names
    assert len(names) == 4
    assert 'href="?function=tests.tasks.noop"' in shown


def test_a_function_has_a_page_with_rates_times_and_failures(played, operator):
    taskqueue.add_stats([taskqueue.Stat("emails", "shop.tasks.send_receipt", completed=3, failed=1, seconds=2.0)])
    shown = html.unescape(operator.get(f"{BASE}?function=shop.tasks.send_receipt").content.decode())
    for text in ("25.0 %", "500 ms", "p95", "p99", "MailServerDown", "What changed since it last worked"):
        assert text in shown
    assert "finished tasks of this function, among the newest 25,000 tasks." in shown
    assert operator.get(f"{BASE}?function=shop.tasks.sync_stock&span=24h").status_code == 200


def test_a_function_shows_how_its_waits_and_runs_are_spread(database, operator):
    stat = taskqueue.Stat("default", "tests.tasks.noop")
    for waited in (0.1, 0.1, 7200.0):
        stat.note("completed", 0.02, waited)
    taskqueue.add_stats([stat])
    page = operator.get(f"{BASE}?function=tests.tasks.noop")
    rows = {name: counts for name, *counts in page.context["distribution"]}
    assert len(rows) == 9
    assert (rows["≤ 50 ms"], rows["≤ 250 ms"], rows["> 1 h"]) == ([0, 3], [2, 0], [1, 0])
    (_wait, waits), (_run, runs) = page.context["histograms"]
    assert [shape["height"] for shape in waits] == ["20.00", "10.00"]
    assert len(runs) == 1
    assert operator.get(f"{BASE}?function=tests.tasks.add").context["histograms"][0][1] == []


def test_percentiles_beyond_the_last_bucket_say_so():
    """Histograms end at an hour; a wait of 22 hours was shown as 1 h."""
    estimate = Times(9, (30.0, 3600.0, 3600.0), (), is_estimate=True)
    assert formatted(estimate.wait, estimate) == ["30 s", "≥ 1 h", "≥ 1 h"]
    measured = Times(9, (3600.0, 7200.0, 7200.0), ())
    assert formatted(measured.wait, measured) == ["1 h", "2 h", "2 h"]


def test_a_function_that_fails_mostly_is_marked(database, operator):
    stats = [
        taskqueue.Stat("default", "shop.good", completed=9, failed=1),
        taskqueue.Stat("default", "shop.bad", failed=4),
    ]
    taskqueue.add_stats(stats)
    shown = operator.get(BASE).content.decode()
    assert '<strong class="dtr-error">100.0 %</strong>' in shown
    assert shown.count("dtr-error") == 1


def test_the_tasks_page_links_to_its_function(played, operator):
    shown = operator.get(f"/admin/django_tasks_retry/task/{played['failed'].pk}/change/").content.decode()
    assert f'href="{BASE}?function=shop.tasks.send_receipt"' in shown


def test_a_function_that_nobody_knows_is_not_found(played, operator):
    assert operator.get(f"{BASE}?function=nobody.knows").status_code == 404


def test_it_needs_the_permission_to_view_tasks(played, session_with):
    client = session_with("view_queue")
    assert client.get(BASE).status_code == 403
    assert client.get(f"{BASE}?function=shop.tasks.send_receipt").status_code == 403


@pytest.mark.fault("arguments_leaked_by_similar_failures")
def test_who_may_not_see_arguments_learns_none_from_the_comparison(database, session_with, operator):
    at = scene.clock_of(database)
    at(-10)
    Task.objects.enqueue_many([{"func": shop.sync_stock, "args": [f"W{n}"]} for n in range(4)])
    taskqueue.finish([taskqueue.Completed(lease, None) for lease in taskqueue.claim("w", limit=9)])
    at(0)
    Task.objects.enqueue_many([{"func": shop.sync_stock, "args": [None], "max_attempts": 1} for _ in range(4)])
    taskqueue.finish([taskqueue.Failed(lease, KeyError("x")) for lease in taskqueue.claim("w", limit=9)])
    difference = "warehouse is of type null: in 4 of 4 failures, and in 0 of 4 successes."
    page = f"{BASE}?function=shop.tasks.sync_stock"
    assert difference in operator.get(page).content.decode()
    group = f"/admin/django_tasks_retry/failuregroup/{Task.objects.failed().first().fingerprint}/"
    assert difference in operator.get(group).content.decode()
    client = session_with("view_task")
    for shown in (client.get(page).content.decode(), client.get(group).content.decode()):
        assert "What changed since it last worked" in shown
        assert "warehouse" not in shown
