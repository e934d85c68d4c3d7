"""The grammar: `status:failed queue:emails error:"timed out" since:1h`, or the beginning of an id. Text in, values out.

Words of one key are alternatives, except of `error`, `arg` and `meta`, which must all be met; keys narrow each other.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_date, parse_datetime
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import suggestion
from ..durations import read_duration
from ..utc import as_instant

HELP = gettext_lazy(
    "Search by id or the beginning of an id, status:failed, queue:NAME, lane:NAME, task:NAME, worker:NAME, error:TEXT, "
    "failure:FINGERPRINT, run:ID, batch:ID, retries:ID, since:1h, until:2026-01-31, arg:TEXT or arg:NAME=VALUE, "
    "meta:NAME=VALUE. Put quotes around a text with spaces."
)
TOKEN = re.compile(r'(?:"[^"]*"|[^\s"])+|"')
QUALIFIED = re.compile(r"(?P<key>[A-Za-z_-]+):(?P<value>.*)", re.DOTALL)
PATH = re.compile(r"(?P<path>[\w.-]*)=(?P<text>.*)", re.DOTALL)
SHORTEST_PREFIX = 4
MAX_WORDS, MAX_LENGTH = 10, 400  # of a search in the console
STATUSES = ("ready", "scheduled", "waiting", "retrying", "pending", "running", "success", "failed", "cancelled")
IdRange = tuple[UUID, UUID]


@dataclass(frozen=True, slots=True)
class PayloadTerm:
    """A text to be found in a value, at this path if one is given."""

    path: str
    text: str


@dataclass(slots=True)
class Query:
    """A parsed search. `problems` say what was not understood, and what to type instead."""

    ids: list[IdRange] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    lanes: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    workers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)
    runs: list[UUID] = field(default_factory=list)
    batches: list[UUID] = field(default_factory=list)
    args: list[PayloadTerm] = field(default_factory=list)
    metas: list[PayloadTerm] = field(default_factory=list)
    since: list[timedelta | datetime] = field(default_factory=list)
    until: list[timedelta | datetime] = field(default_factory=list)
    below: UUID | None = None  # only tasks with a lower id: a list goes on from there
    is_not_retried: bool = False
    retries_since: list[UUID] = field(default_factory=list)  # only retries, with a higher id
    problems: list[str] = field(default_factory=list)
    words: int = 0

    @property
    def has_payload(self) -> bool:
        """Return whether it searches payloads, which need a permission of their own."""
        return bool(self.args or self.metas)

    @property
    def is_empty(self) -> bool:
        return not self.words

    @property
    def is_only_a_period(self) -> bool:
        """Return whether it asks for nothing but a time, which ids tell."""
        return self.words == len(self.since) + len(self.until)


def parse(text: str) -> Query:
    """Parse a search that was typed on one line."""
    return parse_words(TOKEN.findall(text))


def parse_search(text: str) -> Query:
    """Parse the words of a search box, unless they are too many."""
    if len(text) <= MAX_LENGTH:
        query = parse(text)
        if query.words <= MAX_WORDS:
            return query
    values = {"words": MAX_WORDS, "length": MAX_LENGTH}
    return Query(problems=[_("Search for at most %(words)s words and %(length)s characters.") % values], words=1)


def parse_arguments(words: Iterable[str]) -> Query:
    """Parse words that a shell has split: one with spaces was quoted, unless it holds further keys."""
    return parse_words(word for given in words for word in ([given] if is_whole(given) else TOKEN.findall(given)))


def is_whole(word: str) -> bool:
    matched = QUALIFIED.match(word)
    return bool(matched and '"' not in word and not re.search(rf"\s({'|'.join(KEYS)}):", matched["value"]))


def parse_words(words: Iterable[str]) -> Query:
    query = Query()
    for word in words:
        query.words += 1
        try:
            read_word(query, word)
        except ValueError as error:
            query.problems.append(str(error))
    return query


def read_word(query: Query, word: str) -> None:
    if word == '"':
        raise ValueError(_("A quotation mark is not closed."))
    qualified = QUALIFIED.match(word)
    if qualified is None:
        query.ids.append(read_id(word))
        return
    key, value = qualified["key"].lower(), qualified["value"].replace('"', "")
    if key not in KEYS:
        hint = suggestion(key, KEYS).replace("'", "")
        raise ValueError(_("There is no “%(key)s:”.") % {"key": key[:40]} + hint + f" {HELP}")
    if not value:
        raise ValueError(_("“%(key)s:” needs a value, without a space before it.") % {"key": key})
    name, read = KEYS[key]
    getattr(query, name).extend(read(value))


def read_id(text: str) -> IdRange:
    id_range = ids_beginning_with(text)
    if id_range is None:
        raise ValueError(_("“%(words)s” is not an id. %(help)s") % {"words": text[:60], "help": HELP})
    return id_range


def ids_beginning_with(text: str) -> IdRange | None:
    """First and last id of a prefix: a range of the primary key."""
    digits = text.replace("-", "").lower()
    if not SHORTEST_PREFIX <= len(digits) <= 32 or re.fullmatch(r"[0-9a-f]+", digits) is None:
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def read_statuses(text: str) -> list[str]:
    chosen = text.lower().split(",")
    for each in chosen:
        if each not in STATUSES:
            known = ", ".join(STATUSES)
            raise ValueError(
                _("“%(value)s” is not a status (%(known)s).") % {"value": each[:40], "known": known}
                + suggestion(each, STATUSES).replace("'", "")
            )
    return chosen


def read_whole_id(problem: Promise) -> Callable[[str], list[UUID]]:
    def read(text: str) -> list[UUID]:
        try:
            return [UUID(text)]
        except ValueError:
            raise ValueError(str(problem) % {"value": text[:60]}) from None

    return read


def read_moment(text: str) -> list[timedelta | datetime]:
    """Some time ago (1h), or a date, or a date and time."""
    try:
        return [timedelta(seconds=read_duration(text))]
    except (ValueError, OverflowError):
        pass
    moment = parsed_moment(text)
    if moment is None:
        text = text[:40]
        raise ValueError(
            _("“%(value)s” is not a time. Write 15m, 1h, 7d, 2026-01-31 or 2026-01-31T08:30.") % {"value": text}
        )
    return [moment]


def parsed_moment(text: str) -> datetime | None:
    try:
        day = parse_date(text)
        moment = datetime(day.year, day.month, day.day) if day else parse_datetime(text)
        return as_instant(moment) if moment else None
    except (ValueError, OverflowError):  # the 31st of February
        return None


def read_payload_term(text: str) -> list[PayloadTerm]:
    qualified = PATH.fullmatch(text)
    if qualified is None:
        return [PayloadTerm("", text)]
    if not qualified["text"]:
        raise ValueError(_("“%(value)s” needs a value after the equals sign.") % {"value": text[:60]})
    return [PayloadTerm(qualified["path"], qualified["text"])]


KEYS: dict[str, tuple[str, Callable[[str], Sequence[Any]]]] = {
    "id": ("ids", lambda text: [read_id(text)]),
    "status": ("statuses", read_statuses),
    "queue": ("queues", lambda text: [text]),
    "lane": ("lanes", lambda text: [text]),
    "task": ("tasks", lambda text: [text]),
    "worker": ("workers", lambda text: [text]),
    "error": ("errors", lambda text: [text]),
    "failure": ("fingerprints", lambda text: [text]),
    "run": ("runs", read_whole_id(gettext_lazy("“%(value)s” is not the id of a run: give all of it."))),
    "batch": ("batches", read_whole_id(gettext_lazy("“%(value)s” is not the id of a batch: give all of it."))),
    "retries": ("retries_since", read_whole_id(gettext_lazy("“%(value)s” is not an id: give all of it."))),
    "since": ("since", read_moment),
    "until": ("until", read_moment),
    "arg": ("args", read_payload_term),
    "meta": ("metas", read_payload_term),
}
"""Key → the field of a Query, and how its value is read."""
