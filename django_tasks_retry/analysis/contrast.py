"""Contrast: what tells failing calls from successful ones. Pure: samples in, differences out.

A call is the set of facts that can be said of its arguments: which paths there are, of which types, with which values.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

FEWEST = 3  # calls of each kind, below which everything would look like a difference
MOST_OF, FEW_OF = 0.95, 0.05
MOST = 5  # differences that are told
MAX_VALUE = 120


class About(IntEnum):
    """The subject of a fact. If two facts split alike, the more general one is shown."""

    PRESENCE = 0
    TYPE = 1
    VALUE = 2


Fact = tuple[str, About, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that nearly all calls of one side have and nearly none of the other."""

    path: str
    about: About
    value: str
    failing: int
    failures: int
    succeeding: int
    successes: int

    @property
    def is_of_failures(self) -> bool:
        return self.failing * self.successes > self.succeeding * self.failures


def facts_of(leaves: Iterable[tuple[str, Any]]) -> set[Fact]:
    """Return the facts about a call, from the paths and values of its arguments."""
    return {fact for path, value in leaves for fact in facts_about(without_places(path), value)}


def without_places(path: str) -> str:
    """`items.3.sku` is `items.*.sku`: calls with lists of different lengths can be compared."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def facts_about(path: str, value: Any) -> Iterator[Fact]:
    yield path, About.PRESENCE, ""
    yield path, About.TYPE, type_name(value)
    yield path, About.VALUE, json.dumps(value, ensure_ascii=False)[:MAX_VALUE]


def type_name(value: Any) -> str:
    """Return JSON's name for the type of a value."""
    names = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def differences(failing: Sequence[set[Fact]], succeeding: Sequence[set[Fact]]) -> list[Difference]:
    """Return the facts that separate them, the clearest first; none if there are too few of either."""
    if min(len(failing), len(succeeding)) < FEWEST:
        return []
    in_failures, in_successes = (
        Counter(fact for call in failing for fact in call),
        Counter(fact for call in succeeding for fact in call),
    )
    found = [
        Difference(*fact, in_failures[fact], len(failing), in_successes[fact], len(succeeding))
        for fact in in_failures.keys() | in_successes.keys()
        if splits(in_failures[fact] / len(failing), in_successes[fact] / len(succeeding))
    ]
    return most_general(sorted(found, key=clearest_first))[:MOST]


def splits(of_failures: float, of_successes: float) -> bool:
    """A value that all successes share and no failure has tells as much as the other way round."""
    return max(of_failures, of_successes) >= MOST_OF and min(of_failures, of_successes) <= FEW_OF


def clearest_first(each: Difference) -> tuple[bool, float, int, str, str]:
    gap = abs(each.failing / each.failures - each.succeeding / each.successes)
    return not each.is_of_failures, -gap, each.about, each.path, each.value


def most_general(found: Iterable[Difference]) -> list[Difference]:
    """One for each path and side: "is null" says all that "null is of type null" would."""
    differences: dict[tuple[str, bool], Difference] = {}
    for each in found:
        differences.setdefault((each.path, each.is_of_failures), each)
    sides = {path for path, of_failures in differences if of_failures}
    return [each for (path, of_failures), each in differences.items() if of_failures or path not in sides]


def chance_of(failures: int, attempts: int, failures_before: int, attempts_before: int) -> float:
    """Return how likely so many failures, or more, are if nothing got worse: Fisher's exact test, one-sided."""
    total, failed = attempts + attempts_before, failures + failures_before

    def choices(many: int, few: int) -> float:
        return math.lgamma(many + 1) - math.lgamma(few + 1) - math.lgamma(many - few + 1)

    ways = choices(total, attempts)
    possible = range(max(failures, attempts - (total - failed)), min(attempts, failed) + 1)
    return min(1.0, sum(math.exp(choices(failed, n) + choices(total - failed, attempts - n) - ways) for n in possible))
