"""Metrics in the text format of Prometheus, version 0.0.4: `scrape()` asks the database, `render()` only writes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf, isnan

from .conf import is_sharded
from .taskqueue import database
from .taskqueue.shards import ask_all
from .taskqueue.statistics import BOUNDS, COUNTS, Budget, Holder, QueueFigures, Snapshot, Stat, take_snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "django_tasks_"
LONG_SECONDS = 60.0
"""The age from which the holder of the horizon is named: short-lived holders change with every scrape."""

OF_QUEUES: tuple[tuple[str, str, Callable[[QueueFigures], float]], ...] = (
    ("due", "Tasks that could run now; counted up to 1001 for each priority.", lambda queue: queue.due),
    ("oldest_due_seconds", "How long the task that is due for the longest time waits.", lambda q: q.oldest_seconds),
    ("running", "Tasks that are running.", lambda queue: queue.running),
    ("queue_paused", "1 while an operator has paused the queue.", lambda queue: queue.is_paused),
    ("queue_workers", "Workers alive that serve the queue.", lambda queue: queue.workers),
    ("queue_slots", "Tasks that these workers can run at once.", lambda queue: queue.slots),
)
SINGLE = (
    ("retrying", "retrying", "Tasks that wait for another attempt; counted up to 1001."),
    ("expired", "expired_leases", "Tasks whose lease expired a minute ago, not recovered."),
    ("late_schedules", "schedules_late", "Schedules whose time has come and that did not fire."),
    ("replica_lag", "replica_lag_seconds", "How old the figures of this scrape may be, as a replica answered."),
    ("workers", "workers", "Workers alive."),
    ("slots", "slots", "Tasks that the workers alive can run at once."),
)
"""Parts of a snapshot that are one number each, or None."""


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


def scrape(backend: str = "default") -> str:
    """The metrics of the backend's database, now; of several, each with its shard as a label."""
    if not is_sharded(backend):
        return render(take_snapshot(backend))
    taken, away = ask_all(backend, take_snapshot)
    return written(metrics_of_shards({database(shard): each for shard, each in taken.items()}, away))


def render(taken: Snapshot) -> str:
    return written(metrics_of(taken))


def written(families: Iterable[Family]) -> str:
    return "".join(f"{line}\n" for family in families if family.samples for line in lines_of(family))


def metrics_of_shards(taken: Mapping[str, Snapshot], away: Sequence[str]) -> Iterator[Family]:
    up = [Sample(shard in taken, {"shard": shard}) for shard in (*taken, *away)]
    merged: dict[str, Family] = {}
    for shard, snapshot in taken.items():
        for family in metrics_of(snapshot):
            samples = [replace(each, labels={**each.labels, "shard": shard}) for each in family.samples]
            merged.setdefault(family.name, replace(family, samples=[])).samples.extend(samples)
    yield Family(f"{PREFIX}shard_up", "gauge", "1 if the shard answers.", up)
    yield from merged.values()


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


def metrics_of(taken: Snapshot) -> Iterator[Family]:
    parts: dict[str, Iterable[Family]] = {
        "totals": counters(taken.totals), "queues": queue_gauges(taken.queues), "holder": horizon(taken.holder),
        "budgets": burn_rates(taken.budgets),
    }  # fmt: skip
    for part, metrics in parts.items():
        if part not in taken.unanswered:
            yield from metrics
    for part, name, help_text in SINGLE:
        value = getattr(taken, part)
        if part not in taken.unanswered and value is not None:
            yield gauge(name, help_text, value)
    help_text = "Parts of this scrape that are missing because the database took too long."
    yield gauge("scrape_timeouts", help_text, len(taken.unanswered))


def queue_gauges(queues: Sequence[QueueFigures]) -> Iterator[Family]:
    for name, help_text, value in OF_QUEUES:
        yield Family(PREFIX + name, "gauge", help_text, [Sample(value(each), {"queue": each.name}) for each in queues])


def gauge(name: str, help_text: str, value: float) -> Family:
    return Family(PREFIX + name, "gauge", help_text, [Sample(value)])


def counters(totals: Sequence[Stat]) -> Iterator[Family]:
    attempts = [Sample(getattr(t, outcome), {**labels_of(t), "outcome": outcome}) for t in totals for outcome in COUNTS]
    help_text = "Attempts that ended; retried ones are followed by another."
    yield Family(PREFIX + "attempts_total", "counter", help_text, attempts)
    ran = [each for t in totals for each in histogram(BOUNDS, t.ran, t.seconds, labels_of(t))]
    yield Family(PREFIX + "run_seconds", "histogram", "How long attempts ran.", ran)
    waited = [each for t in totals for each in histogram(BOUNDS, t.waited, t.wait_seconds, labels_of(t))]
    yield Family(PREFIX + "wait_seconds", "histogram", "From due to claimed.", waited)


def labels_of(total: Stat) -> dict[str, str]:
    return {"queue": total.queue, "task": total.func_path}


def burn_rates(budgets: Sequence[Budget]) -> Iterator[Family]:
    samples = [
        Sample(budget.burn(window), {"objective": budget.objective.label, "window": window})
        for budget in budgets
        for window in budget.attempts
    ]
    help_text = "How many times as many attempts started late as the objective allows; 1 uses the budget up."
    yield Family(PREFIX + "objective_burn_rate", "gauge", help_text, samples)


def horizon(holder: Holder | None) -> Iterator[Family]:
    help_text = "Age of the oldest transaction that keeps dead rows from being cleaned up."
    yield gauge("horizon_held_seconds", help_text, holder.seconds if holder else 0)
    if holder is not None and holder.seconds >= LONG_SECONDS:
        labels = {
            "pid": holder.pid, "application": holder.application, "state": holder.state, "query": holder.query,
        }  # fmt: skip
        yield Family(PREFIX + "horizon_holder_info", "gauge", "Whose transaction it is.", [Sample(1, labels)])
