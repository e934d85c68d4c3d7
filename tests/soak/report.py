"""The result of a soak, in figures; and the merged timeline of the first violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from uuid import UUID

from tests.soak.bounds import MOST_RELEASES, most_within_window, releases_by_choice
from tests.soak.checker import pick_ups
from tests.soak.fire import Outcome, Plan
from tests.soak.history import Event, History
from tests.soak.recovery import CHILD, SUPERVISOR, waits_after_kills
from tests.soak.violation import Violation
from tests.soak.vitals import growth

BROKEN = {
    "kill_child": "children killed",
    "kill_supervisor": "supervisors killed",
    "freeze_child": "children frozen past the lease",
    "freeze_worker": "workers frozen past the lease",
    "reset_connections": "times all connections reset",
    "black_hole": "black holes",
    "end_backend": "backends ended",
    "kill_backend": "server crashes by a killed backend",
    "restart_server": "hard restarts of the server",
    "lock_row": "times running rows locked for 2 to 5 leases",
    "lock_beside": "times events, or rows beside the tasks, locked past the lease",
    "freeze_server": "times the server frozen past the lease",
    "step_clock": "steps of one host's clock",
    "leave_log_unread": "times a log left unread",
}


def report(plan: Plan, outcome: Outcome, violations: list[Violation]) -> Iterator[str]:
    history = outcome.history
    yield (
        f"soak · {plan.database} · seed {plan.seed} · {len(history.rows):,} tasks · lease {plan.lease:g} s · "
        f"{plan.supervisors} supervisors x {plan.children} children x {plan.threads} threads · "
        f"{outcome.fire_seconds:.0f} s of fire, {outcome.peace_seconds:.1f} s until quiet, "
        f"{len(history.rows) / (outcome.fire_seconds + outcome.peace_seconds):.1f} tasks/s"
    )
    broken = outcome.nemesis.deeds
    yield "survived: " + ", ".join(f"{broken[key]} {words}" for key, words in BROKEN.items() if broken[key])
    statuses = Counter(row.status for row in history.rows.values())
    yield f"finished: {listed(statuses)}; by an operator: {listed(outcome.operator_deeds)}"
    yield f"violations: {listed(Counter(v.rule for v in violations)) or 'none'}" + bound(history, violations)
    yield judged(violations)
    yield from hostile_ends(outcome)
    yield releases(history)
    yield calm(history)
    yield from duplicates(history)
    yield from latencies(outcome)
    yield from held(outcome)
    yield pause(outcome.nemesis.diary)
    yield str(outcome.slots)
    yield from outcome.lanes
    yield from outcome.complaints


def listed(counts) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))


def bound(history: History, violations: list[Violation]) -> str:
    """None seen in n means, at 95 % confidence, less than 3/n."""
    return "" if violations or not history.rows else f" (95 % sure: fewer than {3 / len(history.rows):.0e} per task)"


def judged(violations: list[Violation]) -> str:
    rules = Counter(violation.rule for violation in violations)
    return (
        f"lost {rules['I1']}, finished twice {rules['I2']}, overlapping leases {rules['I4']}, "
        f"neighbours that paid {rules['I10']}, renewed without progress {rules['I11']}, "
        f"given back in a circle {rules['I12']}"
    )


def hostile_ends(outcome: Outcome) -> Iterator[str]:
    rows = [outcome.history.rows[task] for task in outcome.history.hostile if task in outcome.history.rows]
    ends = Counter(row.code or row.status for row in rows)
    yield f"hostile rows: {len(rows)} stored, {outcome.refused.total()} refused; ended {listed(ends)}"
    yield f"  of a kind that was refused: {', '.join(sorted(outcome.refused))}"


def releases(history: History) -> str:
    total = [sum(event.kind == "released" for event in events) for events in history.events.values()]
    by_choice = [most_within_window(releases_by_choice(events)) for events in history.events.values()]
    reasons = Counter(
        event.data.get("reason") for events in history.events.values() for event in events if event.kind == "released"
    )
    return (
        f"released: at most {max(total, default=0)} times per task; by the worker's choice at most "
        f"{max(by_choice, default=0)} times a minute ({MOST_RELEASES} allowed); {listed(reasons)}"
    )


def calm(history: History) -> str:
    seconds = sum(ended - began for began, ended in history.calm)
    longest = max((one.renewed - one.claimed for one in history.sightings), default=0.0)
    renewed = f"longest renewal {longest:.1f} s after a claim"
    stalled = sum(
        not history.in_order(began + n, began + n + 1)
        for began, ended in history.calm
        for n in range(int(ended - began))
    )
    locked = f"{len(history.locked)} rows locked in all"
    return f"{seconds:.1f} s of calm, in {stalled} of them a worker waited for a processor; {locked}, {renewed}"


def duplicates(history: History) -> Iterator[str]:
    """At least once is the promise: what ran more than once, and why."""
    starts = sum(line.word == "start" for lines in history.lines.values() for line in lines)
    twice = sum(sum(line.word == "end" for line in lines) > 1 for lines in history.lines.values())
    causes = Counter(why for task in history.rows for why in causes_of(history, task))
    extra = causes.total() - causes["failed, to be tried again"]
    n = max(1, len(history.rows))
    yield f"executions: {starts:,} of {len(history.lines):,} tasks, {100 * extra / n:.1f} % more than asked for"
    yield f"executed again because: {listed(causes)}"
    yield f"ran to the end more than once: {twice:,} tasks ({100 * twice / n:.2f} %), {at_once(history)} at once"


def causes_of(history: History, task: UUID) -> Iterator[str]:
    """Figures of each execution that is followed by another."""
    started = sorted({line.attempt for line in history.lines.get(task, []) if line.word == "start"})
    ends = {event.attempt: event for event in history.events.get(task, []) if event.kind in CAUSES}
    for attempt in started[:-1]:
        event = ends.get(attempt)
        yield CAUSES[event.kind](event) if event else "nothing that was recorded"


CAUSES = {
    "lease_lost": lambda event: event.data["cause"],
    "released": lambda event: f"released: {event.data.get('reason')}",
    "failed": lambda event: "failed, to be tried again",
}


def at_once(history: History) -> int:
    """A frozen worker wakes up and goes on for a moment while another runs the next attempt."""
    found = 0
    for lines in history.lines.values():
        starts = {line.attempt: line.at for line in lines if line.word == "start"}
        ends = {line.attempt: line.at for line in lines if line.word == "end"}
        found += any(starts.get(attempt + 1, float("inf")) < end for attempt, end in ends.items())
    return found


def latencies(outcome: Outcome) -> Iterator[str]:
    """From the kill of a process until what it was running was given back, and until it was claimed again."""
    for whose, name in ((CHILD, "a child"), (SUPERVISOR, "its supervisor")):
        found = waits_after_kills(outcome, whose)
        if found:
            yield f"{len(found):,} tasks after the kill of {name}: given back {spread(w.given_back for w in found)}"
            yield f"  claimed again, behind all that waited, {spread(w.claimed for w in found)}"
            calm = [w.given_back for w in found if w.calm]
            yield f"  given back by a worker that could reach the database all the time ({len(calm):,}): {spread(calm)}"
    waited = [seconds for seconds, _ in pick_ups(outcome.history)]
    yield f"{len(waited):,} urgent tasks while the database could be reached: picked up {spread(waited)}"


def pause(diary: list[tuple[float, str]]) -> str:
    """If the nemesis itself was held up, what it had broken stayed broken for as long."""
    gaps = [(after[0] - before[0], before[1], after[1]) for before, after in pairwise(diary)]
    seconds, before, after = max(gaps, default=(0.0, "", ""))
    return f"longest pause between two faults: {seconds:.1f} s, from {before!r} to {after!r}"


def spread(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    if not found:
        return "never"
    parts = [f"p{p} {found[min(len(found) - 1, len(found) * p // 100)]:.2f} s" for p in (50, 90, 99)]
    return ", ".join([*parts, f"at most {found[-1]:.2f} s"])


def held(outcome: Outcome) -> Iterator[str]:
    """Resources that a supervisor held early in its life and late."""
    for one, what, early, late in growth(outcome.samples):
        yield f"{one.name} ({one.pid}): {early:g} {what} at first, {late:g} in the end"


def timeline(outcome: Outcome, task: UUID) -> Iterator[str]:
    """The events of a task, what it wrote itself and what was broken meanwhile, in the order of time."""
    history = outcome.history
    told = [(event.at - history.wall, f"event   {described(event)}") for event in history.events.get(task, [])]
    told += [
        (line.at, f"journal {line.word} of attempt {line.attempt} in {line.worker} ({line.pid})")
        for line in history.lines.get(task, [])
    ]
    first = min(told)[0] if told else 0.0
    near = [at for at, _ in told]
    told += [(at, f"nemesis {deed}") for at, deed in outcome.nemesis.diary if any(0 < one - at < 1 for one in near)]
    for at, text in sorted(told):
        yield f"  {at - first:9.3f}  {text}"


def described(event: Event) -> str:
    return f"{event.kind} of attempt {event.attempt} by {event.actor} {str(event.data or '')[:160]}"
