"""Doctor: one verdict on the queue in one sentence, and its causes in order, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, Sum
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..clock import Now
from ..display.explain import explain_unclaimed
from ..display.explain_limits import explain_limit, explain_pause
from ..display.formatting import (
    NO_VALUE,
    format_duration,
    format_elapsed,
    format_number,
    format_percentage,
    one_line,
    shell_word,
)
from ..display.problems import Problem, find_problems, runworker_command
from ..display.scope import Scope, Standing
from ..models import KEYED, FlowLimit, Queue, Task, TaskQuerySet, TaskStat
from ..rules.transitions import EventKind
from ..taskqueue import read_row, read_rows, statistics
from ..taskqueue.control import pause_of
from ..taskqueue.lanes import LaneSummary, labels_of, summarize_limits, tasks_of
from ..taskqueue.reading import read_values
from ..taskqueue.statistics import BOUNDS, COUNTS, RECENT, WAITED, counts_since, serving
from .contrast import chance_of

DAYS = 7
HALF_AN_HOUR = timedelta(minutes=30)
SHORTEST_LATE = 60.0  # seconds that the oldest due task may always have waited
SURE = 0.001  # the probability below which more failures than usual are not called chance
FEWEST_FAILURES = 5
FLUSHED = timedelta(minutes=2)  # the time within which workers add an attempt that ended to the statistics
MOST_DUE = 500
FEW_KINDS = 3  # enough for the one sentence of a page
MOST_KINDS = 20  # combinations of queue, lane and function that are explained
MOST_EVENTS = 1000
ENDS = (EventKind.COMPLETED, EventKind.FAILED)
WORST = ("setup", "unserved", "unknown_function", "no_tasks", "expired_leases", "failing_function", "failing", "full")
"""Kinds of problems, the worst first; others follow in their order."""

TOLD_ELSEWHERE = {"paused", "paused_lane", "stuck_lane", "unserved", "unknown_function"}
"""Problems that the grouped waits tell, with the number of tasks that each keeps."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question, beside what is usual at this hour."""

    question: str
    is_well: bool
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    text: str
    command: str = ""
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    answers: list[Answer]
    causes: list[Cause]

    @property
    def is_well(self) -> bool:
        return not self.causes and all(answer.is_well for answer in self.answers)

    @property
    def sentence(self) -> str:
        """The first answer that is bad, and the first cause."""
        bad = [answer.text for answer in self.answers if not answer.is_well][:1]
        well = _("All is well: work starts, succeeds as usual, and the figures are fresh.")
        return " ".join([*bad, *(cause.text for cause in self.causes[:1])]) or well


def diagnose(
    standing: Standing, *, can_see_payload: bool, problems: Iterable[Problem] | None = None, kinds: int = MOST_KINDS
) -> Verdict:
    """Give the problems if they have been looked for already. Each of the `kinds` of late tasks costs some queries."""
    problems = find_problems(standing, can_see_payload=can_see_payload) if problems is None else problems
    usual = Usual.at_this_hour(standing.scope)
    answers = [starts(standing, usual), succeeds(standing.scope, usual), is_fresh(standing.scope)]
    waits = [] if answers[0].is_well else waiting_causes(standing, kinds, can_see_payload=can_see_payload)
    others = [each for each in problems if not waits or each.kind not in TOLD_ELSEWHERE]
    return Verdict(answers, waits + [Cause(each.text, each.command) for each in sorted(others, key=severity)])


def severity(problem: Problem) -> int:
    return WORST.index(problem.kind) if problem.kind in WORST else len(WORST)


@dataclass(frozen=True, slots=True)
class Usual:
    """The attempts of the same hour of the last seven days."""

    attempts: int
    failures: int
    waited: list[int]

    @classmethod
    def at_this_hour(cls, scope: Scope) -> Usual:
        hours = Q(pk__in=[])
        for day in range(1, DAYS + 1):
            middle = scope.now - timedelta(days=day)
            hours |= Q(minute__gte=middle - HALF_AN_HOUR, minute__lt=middle + HALF_AN_HOUR)
        names = (*COUNTS, *WAITED)
        sums = TaskStat.objects.using(scope.using).filter(hours).aggregate(**{name: Sum(name) for name in names})
        completed, retried, failed, *waited = (int(sums[name] or 0) for name in names)
        return cls(completed + retried + failed, retried + failed, waited)

    @property
    def longest_wait(self) -> float | None:
        """The bound in seconds within which 95 % started; None if too few are known."""
        sums = list(accumulate(self.waited))
        place = next((n for n, seen in enumerate(sums) if sums[-1] >= 20 and seen >= 0.95 * sums[-1]), len(BOUNDS))
        return BOUNDS[place] if place < len(BOUNDS) else None


def starts(standing: Standing, usual: Usual) -> Answer:
    oldest, bound = standing.oldest_seconds, usual.longest_wait
    values = {"time": format_duration(oldest), "usual": format_duration(bound or 0)}
    if not standing.workers:
        return Answer("starts", is_well=False, text=_("Nothing starts: no worker is running."))
    if standing.due and oldest > max(SHORTEST_LATE, 2 * (bound or 0)):
        text = _("Work starts late: the oldest due task has waited for %(time)s.")
        if bound is not None:
            text = _("Work starts late: the oldest due task has waited for %(time)s, usually %(usual)s at most.")
        return Answer("starts", is_well=False, text=text % values)
    text = _("Work starts: the oldest due task has waited for %(time)s.") if standing.due else _("No due task waits.")
    return Answer("starts", is_well=True, text=text % values)


def succeeds(scope: Scope, usual: Usual) -> Answer:
    """Compare the last ten minutes with the same hour of the days before; without these, half may fail."""
    recent = counts_since(scope.now - RECENT, scope.using, "queue")
    failures, attempts = sum(each.failures for each in recent), sum(each.attempts for each in recent)
    values = {
        "failures": format_number(failures), "attempts": format_number(attempts),
        "usual": format_percentage(usual.failures, usual.attempts),
    }  # fmt: skip
    if usual.attempts:
        is_worse = chance_of(failures, attempts, usual.failures, usual.attempts) < SURE
    else:
        is_worse = failures >= attempts / 2
    if failures >= FEWEST_FAILURES and is_worse:
        text = _("Work fails: %(failures)s of %(attempts)s attempts in ten minutes, usually %(usual)s.")
        return Answer("succeeds", is_well=False, text=text % values)
    text = _("Work succeeds: %(failures)s of %(attempts)s attempts failed in ten minutes, usually %(usual)s.")
    return Answer("succeeds", is_well=True, text=text % values)


def is_fresh(scope: Scope) -> Answer:
    """Compare the statistics with the newest attempts that must be in them."""
    minutes = TaskStat.objects.using(scope.using).filter(minute__lte=Now())
    counted_until = minutes.aggregate(newest=Max("minute"))["newest"]
    events, _last = statistics.newest_events(MOST_EVENTS, scope.using)
    ended = [each.ts for each in events if each.kind in ENDS and each.ts < scope.now - FLUSHED]
    ended = ended or [each.ts for each in events[:1] if len(events) == MOST_EVENTS]
    if ended and (counted_until is None or counted_until + FLUSHED < ended[-1]):
        text = _("The figures are old: attempts that ended %(time)s ago are not counted. Restart the workers.")
        return Answer("fresh", is_well=False, text=text % {"time": format_elapsed(ended[-1], scope.now)})
    return Answer("fresh", is_well=True, text=_("The figures are fresh."))


# Causes: the oldest due tasks, grouped by what keeps them


def waiting_causes(standing: Standing, kinds: int, *, can_see_payload: bool) -> list[Cause]:
    """Return what keeps the oldest due tasks, the most frequent first."""
    due = oldest_due(standing, kinds)
    alike: dict[tuple[str, str, str], list[UUID]] = {}
    for _eta, pk, queue, lane, path in due:
        alike.setdefault((queue, lane, path), []).append(pk)
    sizes: dict[Cause, int] = {}
    for ids in sorted(alike.values(), key=len, reverse=True)[:kinds]:
        task = read_row(Task.objects.using(standing.scope.using).all(), ids[0])
        if task is not None:
            found = cause_of(task, standing, can_see_payload=can_see_payload)
            sizes[found] = sizes.get(found, 0) + len(ids)
    total = _("%s due tasks") if len(due) == standing.due else _("the oldest %s due tasks")
    text = _("%(count)s of %(total)s wait: %(why)s")
    among = total % format_number(len(due))
    return [
        Cause(text % {"count": format_number(size), "total": among, "why": found.text}, found.command, size)
        for found, size in sorted(sizes.items(), key=lambda each: -each[1])
    ]


def oldest_due(standing: Standing, kinds: int) -> list[tuple[Any, ...]]:
    """Read when and where they wait, range by range, as the indexes of claims have them."""
    due: TaskQuerySet = Task.objects.using(standing.scope.using).due()
    ranges = sorted((each for each in standing.waiting if each.due), key=lambda each: each.oldest_eta)[:kinds]
    found = []
    for each in ranges:
        of_range = due.filter(queue=each.queue, priority=each.priority).order_by("eta", "pk")
        for some in (of_range.filter(lane=""), of_range.filter(KEYED)):
            found += read_values(some[:MOST_DUE], "eta", "pk", "queue", "lane", "func_path")
    return sorted(found)[:MOST_DUE]


def cause_of(task: Task, standing: Standing, *, can_see_payload: bool) -> Cause:
    """Return the same for all tasks that are kept by the same, whatever their places."""
    scope = standing.scope
    if row := pause_of(task, scope.using):
        flag = "" if isinstance(row, Queue) else f"--{row.kind} "
        command = f"python manage.py tasks resume {flag}{shell_word(one_line(row.name, 255))}"
        return Cause(explain_pause(task, scope, can_see_payload=can_see_payload), command)
    states = read_rows(FlowLimit.objects.using(scope.using).among(labels_of(task)))
    for summary in summarize_limits(states, scope.backend) if states else ():
        if summary.is_full:
            return full_cause(summary, scope)
    workers = serving(task.queue, standing.workers)
    if any(task.func_path in worker.tasks for worker in workers) and not (states and explain_limit(task, scope)):
        values = {"queue": one_line(task.queue, 64), "slots": format_number(sum(worker.slots for worker in workers))}
        text = _("others are ahead in queue %(queue)s, whose workers run %(slots)s at once.")
        return Cause(text % values, runworker_command(task.queue))
    found = explain_unclaimed(task, scope)
    return Cause(found.sentence, found.command)


def full_cause(summary: LaneSummary, scope: Scope) -> Cause:
    """Say how long the tasks that keep it full have run, and how long they usually do."""
    running = tasks_of(Task.objects.using(scope.using).running(), summary.state.kind, summary.state.name)
    found = read_rows(running.only("pk", "func_path", "last_attempt_at").order_by("locked_by")[:100])
    longest = min(found, key=lambda task: task.last_attempt_at or scope.now, default=Task())
    usual = counts_since(scope.now - timedelta(days=DAYS), scope.using, "func_path", func_path=longest.func_path)
    values = {
        "lane": one_line(summary.label, 100), "running": format_number(summary.running),
        "time": format_elapsed(longest.last_attempt_at or scope.now, scope.now),
        "usual": format_duration(usual[0].mean_seconds or 0) if usual else NO_VALUE,
    }  # fmt: skip
    text = ngettext(
        "lane %(lane)s is full; its running task has run for %(time)s, usually %(usual)s.",
        "lane %(lane)s is full; its %(running)s running tasks have run for up to %(time)s, usually %(usual)s.",
        summary.running,
    )
    return Cause(text % values, f"python manage.py tasks show {longest.pk}" if found else "")


def lines(verdict: Verdict) -> Iterator[str]:
    """The verdict as a shell shows it, below its sentence."""
    for answer in verdict.answers:
        yield f"{'ok  ' if answer.is_well else 'BAD '} {answer.text}"
    for n, cause in enumerate(verdict.causes, 1):
        yield f"{n}. {cause.text}"
        if cause.command:
            yield f"     {cause.command}"
