"""The text format of Prometheus, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isinf, isnan

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, what it tells, and its samples. `kind` is counter, gauge or histogram."""

    name: str
    kind: str
    help: str
    samples: list[Sample]


def histogram(bounds: Iterable[float], counts: Iterable[int], total: float, labels: Mapping[str, str]) -> list[Sample]:
    """The samples of one histogram, from counts that each hold their own bucket alone."""
    samples, seen = [], 0
    for bound, count in zip((*bounds, inf), counts, strict=True):
        seen += count
        samples.append(Sample(seen, {**labels, "le": number(bound)}, "_bucket"))
    return [*samples, Sample(total, labels, "_sum"), Sample(seen, labels, "_count")]


def written(families: Iterable[Family]) -> str:
    return "".join(f"{line}\n" for family in families if family.samples for line in lines_of(family))


def lines_of(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {escaped(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        labels = ",".join(f'{name}="{quoted(value)}"' for name, value in sample.labels.items())
        yield f"{family.name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {number(sample.value)}"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def quoted(text: str) -> str:
    return escaped(text).replace('"', '\\"')


def number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
