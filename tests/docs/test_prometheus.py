"""The alert rules, the dashboard and the scaler ask for metrics that we have; promtool agrees where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from django_tasks_retry import metrics
from django_tasks_retry.taskqueue.statistics import Budget, Objective
from django_tasks_retry.taskqueue.statistics.snapshot import Holder, Snapshot
from django_tasks_retry.taskqueue.statistics.stats import Stat
from django_tasks_retry.taskqueue.statistics.summaries import QueueFigures
from tests.docs.pages import DOCS
from tests.metrics.parser import parse

FOLDER = DOCS / "deploy" / "prometheus"
ASKING = [FOLDER / "alerts.yaml", FOLDER / "alerts_test.yaml", FOLDER / "grafana.json", DOCS / "deploy" / "keda.yaml"]
EVERYTHING = Snapshot(
    (QueueFigures("default", 1, 1.0, 1, None, 1, 1),),
    (Stat("default", "f", 1, 1, 1, 1.0, 1.0, (1,) * 9, (1,) * 9),),
    holder=Holder("1", 100.0, "app", "idle", "SELECT ?"),
    late_schedules=0,
    budgets=(Budget(Objective("queue", "default", 60.0), 0.99, {"1h": 1.0}, {"1h": 1.0}),),
)
PROMTOOL = shutil.which("promtool")


def known() -> set[str]:
    return {name + suffix for name, metric in parse(metrics.render(EVERYTHING)).items() for suffix, _ in metric.samples}


@pytest.mark.parametrize("file", ASKING, ids=lambda file: file.name)
def test_every_metric_that_is_asked_for_exists(file: Path):
    asked = set(re.findall(r"\bdjango_tasks_\w+", file.read_text(encoding="utf-8")))
    assert asked
    assert asked <= known()


def test_the_page_tells_of_every_metric():
    listed = set(re.findall(r"``(django_tasks_\w+)``", (DOCS / "howto" / "prometheus.rst").read_text(encoding="utf-8")))
    assert listed == set(parse(metrics.render(EVERYTHING)))


def test_every_alert_is_whole():
    [group] = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_dashboard_is_whole():
    dashboard = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool: apt-get install prometheus")
def test_promtool_agrees(tmp_path):
    for command in (
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "--syntax-only", "prometheus.yaml"),
    ):
        subprocess.run([str(PROMTOOL), *command], cwd=FOLDER, check=True, capture_output=True)
    text = metrics.render(EVERYTHING)
    subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, text=True, check=True, capture_output=True)
