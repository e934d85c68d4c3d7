"""A strict reader of Prometheus' text format: what it does not understand, or should not be there, is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (NaN|[+-]Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
SUFFIXES = {"histogram": {"_bucket", "_sum", "_count"}, "counter": {""}, "gauge": {""}}
Labels = frozenset[tuple[str, str]]


@dataclass
class Metric:
    kind: str
    help: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, suffix: str = "", **labels: str) -> float:
        return self.samples[suffix, frozenset(labels.items())]


def parse(text: str) -> dict[str, Metric]:
    assert text.endswith("\n")
    metrics: dict[str, Metric] = {}
    current = ""
    lines = iter(text.removesuffix("\n").split("\n"))
    for line in lines:
        if line.startswith("# HELP "):
            _, _, current, words = line.split(" ", 3)
            kind = re.fullmatch(rf"# TYPE {re.escape(current)} (counter|gauge|histogram)", next(lines))
            assert kind, f"no type of {current}"
            assert current not in metrics, f"{current} comes twice"
            metrics[current] = Metric(kind[1], words)
        else:
            read_sample(line, current, metrics[current])
    for name, metric in metrics.items():
        check(name, metric)
    return metrics


def read_sample(line: str, name: str, metric: Metric) -> None:
    found = SAMPLE.fullmatch(line)
    assert found, f"not a sample: {line!r}"
    suffix = found[1].removeprefix(name)
    assert found[1].startswith(name), f"{found[1]} stands below {name}"
    assert suffix in SUFFIXES[metric.kind], f"{found[1]} in a {metric.kind}"
    labels = re.findall(LABEL, found[2] or "")
    assert len(dict(labels)) == len(labels), f"a label twice: {line}"
    key = (suffix, frozenset(labels))
    assert key not in metric.samples, f"a sample twice: {line}"
    metric.samples[key] = float(found[found.lastindex or 0])


def check(name: str, metric: Metric) -> None:
    assert metric.samples, f"{name} has no sample"
    assert (metric.kind == "counter") == name.endswith("_total"), name
    if metric.kind != "gauge":
        assert all(value >= 0 for value in metric.samples.values()), name
    if metric.kind == "histogram":
        check_histogram(name, metric)


def check_histogram(name: str, metric: Metric) -> None:
    series: dict[Any, list[tuple[float, float]]] = {}
    for (suffix, labels), value in metric.samples.items():
        if suffix == "_bucket":
            bound = dict(labels)["le"]
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((float(bound), value))
    for labels, buckets in series.items():
        counts = [count for _, count in sorted(buckets)]
        assert counts == sorted(counts), f"{name} {labels} goes down"
        assert sorted(buckets)[-1] == (float("inf"), metric.samples["_count", labels]), name
        assert ("_sum", labels) in metric.samples, name
