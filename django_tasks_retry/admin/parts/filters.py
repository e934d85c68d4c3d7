"""The task list: its filters, search box, pages and rows. They come from an index or a bounded look back."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import registry
from ...display.formatting import one_line, task_name
from ...display.scope import Scope, current_scope, queue_names, read_workers
from ...display.states import TASK_STATES, badge, error_line, task_state, timing
from ...models import LANE, FlowLimit, Task, TaskQuerySet
from ...rules.names import short_id, short_name, time_of
from ...selection import grammar
from ...selection.grammar import Query, parse_search
from ...selection.matching import first_id_at, has_index, matching
from ...taskqueue import statistics

LOOK_FURTHER_BACK = 100_000
"""The number of tasks to search if the first look back finds none. The list offers to go on from there."""

WINDOWS = {
    "15m": (timedelta(minutes=15), gettext_lazy("Last 15 minutes")),
    "1h": (timedelta(hours=1), gettext_lazy("Last hour")),
    "24h": (timedelta(days=1), gettext_lazy("Last 24 hours")),
    "7d": (timedelta(days=7), gettext_lazy("Last 7 days")),
}
TITLES: dict[str, str | Promise] = {
    "status": gettext_lazy("status"),
    "queue": gettext_lazy("queue"),
    "task": gettext_lazy("task"),
    "window": gettext_lazy("time enqueued"),
    "fingerprint": gettext_lazy("failure"),
    "retried": gettext_lazy("retried"),
    "older": gettext_lazy("older than"),
}
"""The list's filters. Only links of other pages and of the pagination set the last three."""

PARAMETERS = frozenset({*TITLES, "q"})
MAX_CANDIDATES = 2000  # the number of tasks whose arguments or metadata are read for one page
MAX_CHOICES = 200  # queues, functions, lanes and workers that are offered to choose from


@dataclass(frozen=True, slots=True)
class Choices:
    """Values that the bar of filters offers. Queues and functions come with their attempts of a day."""

    queues: list[tuple[str, int]]
    functions: list[tuple[str, int]]
    words: list[str]  # words of the search box, with stored values
    statuses = TASK_STATES
    windows = [(name, label) for name, (_length, label) in WINDOWS.items()]


def read_choices(scope: Scope, may_view: Mapping[str, bool]) -> Choices:
    """Return the queues and functions that exist; for the search, also lanes and workers if the user may view them."""
    queues, functions = (Counter(dict.fromkeys(names, 0)) for names in (queue_names(scope), registry.project_paths()))
    attempts = {"queue": queues, "func_path": functions}
    for each in statistics.counts_since(scope.now - timedelta(days=1), scope.using, *attempts):
        for name, counter in attempts.items():
            counter[getattr(each, name)] += each.attempts
    values: dict[str, Iterable[str]] = {
        "status": grammar.STATUSES,
        "queue": (name for name, _count in queues.most_common()),
        "task": (short_name(path) for path, _count in functions.most_common()),
    }
    if may_view["flowlimit"]:
        values["lane"] = FlowLimit.objects.using(scope.using).filter(kind=LANE).values_list("name", flat=True)
    if may_view["worker"]:
        values["worker"] = (worker.pk for worker in read_workers(scope))
    words = [*(f"{key}:" for key in grammar.KEYS), *(word for item in values.items() for word in words_of(*item))]
    return Choices(chosen(queues), chosen(functions), words)


def chosen(counter: Counter[str]) -> list[tuple[str, int]]:
    """Return the busiest in the order of their names, each with its attempts."""
    return sorted((name, count) for name, count in counter.most_common(MAX_CHOICES) if is_shown(name))


def is_shown(name: str) -> bool:
    return one_line(name, 255) == name and not name.startswith("django_tasks_retry.")


def words_of(key: str, names: Iterable[str]) -> list[str]:
    """Return the names as words of a search; without those that no word can say."""
    said = dict.fromkeys(name for name in islice(names, MAX_CHOICES) if is_shown(name) and '"' not in name)
    return [f'{key}:"{name}"' if " " in name else f"{key}:{name}" for name in said]


def label_of(name: str, value: str) -> str:
    """Return a chosen value as people read it."""
    labels: dict[str, dict[str, str | Promise]] = {
        "status": {state.name: state.label for state in TASK_STATES},
        "window": {window: label for window, (_length, label) in WINDOWS.items()},
        "retried": {value: _("Not yet")},
        "task": {value: task_name(value)},
    }
    return one_line(labels.get(name, {}).get(value, value), 60)


def parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def filter_query(params: Mapping[str, str]) -> Query:
    """Return the list's parameters except its search, as a query. Values that nobody offers match nothing."""
    older, window = params.get("older", ""), params.get("window", "")
    query = Query(below=parse_uuid(older), is_not_retried=bool(params.get("retried")))
    if (older and not query.below) or (window and window not in WINDOWS):
        query.problems.append("")
    if window in WINDOWS:
        query.since.append(WINDOWS[window][0])
    for name, values in (
        ("status", query.statuses), ("queue", query.queues), ("task", query.tasks), ("fingerprint", query.fingerprints),
    ):  # fmt: skip
        if value := params.get(name):
            values.append(value.lower() if name == "status" else value)
            query.words += 1
    return query


def apply_filters(tasks: TaskQuerySet, params: Mapping[str, str], *, can_see_payload: bool) -> TaskQuerySet:
    """Return the tasks that the list shows for these parameters to a user who may, or may not, see payloads."""
    for query in (filter_query(params), parse_search(params.get("q", ""))):
        tasks = matching(tasks, query, has_status="status" in params, can_see_payload=can_see_payload)
    return tasks


def look_back_floor(params: Mapping[str, str], using: str, limit: int | None = None) -> UUID | None:
    """Return the oldest id to read if no index serves the filters; None if all matches can be found."""
    chosen, parsed = filter_query(params), parse_search(params.get("q", ""))
    if has_index(parsed) or has_index(chosen):
        return None
    if parsed.is_only_a_period and not (chosen.words or chosen.is_not_retried):
        return None
    floor = statistics.newest_before(limit or statistics.LOOK_BACK, using, chosen.below)
    begin = first_id_at(chosen.since[0], current_scope().now) if chosen.since else UUID(int=0)
    return None if floor and floor <= begin else floor


def filter_params(changelist: ChangeList) -> dict[str, str]:
    """Return the list's parameters in the shape that `apply_filters` takes."""
    given = changelist.get_filters_params()
    values = {name: given[name][-1] for name in TITLES if given.get(name) and given[name][-1]}
    return values | ({"q": changelist.query} if changelist.query else {})


def search_problems(query: Query, *, can_see_payload: bool) -> list[str]:
    """Say why a search finds nothing, and what to type instead."""
    if query.has_payload and not can_see_payload:
        return [*query.problems, _("You may not see arguments and metadata, so you cannot search in them.")]
    return query.problems


# Only type checkers, and the backport's patches, let Django's Paginator take a parameter.
class CappedPaginator(Paginator[Task] if TYPE_CHECKING else Paginator):  # type: ignore[misc]
    """Count to CAP and no further, by reading ids in the order of the page, which an index serves."""

    more = False

    @cached_property
    def count(self) -> int:
        tasks: Any = self.object_list
        count = len(tasks.values_list("pk", flat=True)[: statistics.CAP + 1])
        self.more = count > statistics.CAP
        return min(count, statistics.CAP)


def enqueued_time(task_id: Any) -> str:
    return f"{timezone.localtime(time_of(task_id)):%Y-%m-%d %H:%M}"


def task_row(task: Any, chains: Mapping[UUID, str]) -> dict[str, Any]:
    """Return one task of the list in words. The time is that of its id, which can always be read."""
    return {
        "id": short_id(task.pk),
        "pk": task.pk,
        "path": one_line(task.func_path, 255),
        "name": chains.get(task.pk) or task_name(task.func_path, 255),
        "badge": badge(task_state(task, task.seen_at)),
        "spent": f"{task.spent}/{task.max_attempts}",
        "queue": one_line(task.queue, 64),
        "moment": time_of(task.pk),
        "enqueued": enqueued_time(task.pk),
        "timing": timing(task, task.seen_at),
        "error": error_line(visible_error(task)),
    }


def visible_error(task: Any) -> dict[str, Any]:
    """Return the last error as far as the user may see it: the code is read in place of a hidden message."""
    message = task.error_message if task.error_message != task.error_code else ""
    return {"exception": task.error_class, "code": task.error_code, "message": message}
