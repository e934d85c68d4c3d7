"""Deploy guard: pauses or reports functions that fail significantly more under a new release than under the one before.

Tasks are compared, each by its first attempt that ended under a release: retries of one count once. The difference must
also hold without the lane that fails most, so that one tenant does not stop all.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple, TypeAlias
from uuid import UUID

from ..clock import now
from ..conf import options
from ..models import OperatorEvent, TaskEvent, Worker
from ..rules.names import worker_of
from ..rules.transitions import EventKind
from ..taskqueue import database, engine_for, pause, sound_workers, write_operator_event
from .contrast import chance_of

logger = logging.getLogger("django_tasks_retry")
ACTOR = "deploy guard"
WATCHED = timedelta(days=1)
MOST_EVENTS = 20_000
FEWEST_TASKS, FEWEST_FAILURES, SURE = 20, 5, 0.001
Counts: TypeAlias = Counter[tuple[str, bool]]  # tasks by lane, and whether they failed


class Suspect(NamedTuple):
    func_path: str
    release: str
    reason: str


def guard_release(backend: str) -> list[Suspect]:
    """Act on each suspect once for a release: who resumes it has decided."""
    using, found = database(backend), []
    for suspect in suspects(backend, using):
        label, begin = f"function:{suspect.func_path}", suspect.reason.partition(":")[0]
        if (
            OperatorEvent.objects.using(using)
            .filter(subject=label[:128], actor=ACTOR, reason__startswith=f"{begin}:")
            .exists()
        ):
            continue
        found.append(suspect)
        if options(backend).deploy_guard == "pause":
            pause(suspect.func_path, kind="function", by=ACTOR, reason=suspect.reason, backend=backend)
        else:
            write_operator_event("release.suspected", label, ACTOR, suspect.reason, using)
        logger.warning("%s: %s", suspect.func_path, suspect.reason)
    return found


def suspects(backend: str, using: str) -> Iterator[Suspect]:
    known = Worker.objects.using(using).filter(backend=backend, release__gt="").order_by("-started_at", "pk")
    workers = sound_workers(known)
    begun = {worker.release: worker.started_at for worker in workers}  # by its first worker, the last release first
    latest = sorted(begun, key=lambda release: begun[release], reverse=True)[:2]
    if len(latest) < 2 or begun[latest[0]] < now(using) - WATCHED:
        return
    after, before = latest
    counts = count_tasks({worker.pk: worker.release for worker in workers}, using)
    for path in sorted({path for path, _release in counts}):
        new, old = counts.get((path, after), Counter()), counts.get((path, before), Counter())
        if fails_more(new, old):
            texts = [f"{failures(some)} of {some.total()}" for some in (new, old)]
            reason = f"Release {after[:60]}: {texts[0]} tasks failed, under {before[:60]} {texts[1]}"
            yield Suspect(path, after, reason)


def count_tasks(releases: dict[str, str], using: str) -> dict[tuple[str, str], Counts]:
    """Count the tasks of the newest events by function and release of their worker."""
    ends = TaskEvent.objects.using(using).filter(kind__in=(EventKind.COMPLETED, EventKind.FAILED)).order_by("pk")
    ends = ends.filter(pk__gt=engine_for(using).last_event_id() - MOST_EVENTS)
    counts: dict[tuple[str, str], Counts] = {}
    seen: set[tuple[UUID, str]] = set()
    for task, kind, actor, path, lane in ends.values_list("task_id", "kind", "actor", "task__func_path", "task__lane"):
        release = releases.get(worker_of(actor))
        if release and path and (task, release) not in seen:
            seen.add((task, release))
            counts.setdefault((path, release), Counter())[lane, kind == EventKind.FAILED] += 1
    return counts


def failures(counts: Counts) -> int:
    return sum(count for (_lane, has_failed), count in counts.items() if has_failed)


def fails_more(new: Counts, old: Counts) -> bool:
    """Fisher's exact test, of all tasks and of those beside the lane that fails most, if there are several lanes."""
    lanes = {lane for lane, _ in (*new, *old)}
    worst = max(lanes - {""}, key=lambda lane: new[lane, True], default="") if len(lanes) > 1 else ""
    parts = [(new, old)]
    if worst and new[worst, True]:
        parts.append(tuple(Counter({key: n for key, n in some.items() if key[0] != worst}) for some in (new, old)))  # type: ignore[arg-type]
    return all(is_significant(*part) for part in parts)


def is_significant(new: Counts, old: Counts) -> bool:
    failed = failures(new)
    enough = min(new.total(), old.total()) >= FEWEST_TASKS and failed >= FEWEST_FAILURES
    return enough and chance_of(failed, new.total(), failures(old), old.total()) < SURE
