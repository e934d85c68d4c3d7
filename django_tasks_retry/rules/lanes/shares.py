"""Shares: lanes of one priority take turns by weight. Each lane's account is what it got, divided by its weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


def quotas(weights: Sequence[float], limit: int) -> list[int]:
    """How many of `limit` each of several lanes may take at once. A lone lane takes them all."""
    total = sum(weights)
    return [max(1, math.ceil(limit * weight / total)) for weight in weights]


@dataclass(slots=True)
class Accounts:
    """What each lane got so far, by weight. Who got least comes first; a newcomer begins where the others stand."""

    served: dict[str, float] = field(default_factory=dict)

    def open(self, keys: Iterable[str]) -> None:
        """Keep accounts for these lanes and no others."""
        known = {key: self.served[key] for key in keys if key in self.served}
        start = min(known.values(), default=0.0)
        self.served = {key: known.get(key, start) - start for key in keys}

    def balance(self, key: str) -> float:
        return self.served.get(key, 0.0)

    def charge(self, taken: Mapping[str, int], weights: Mapping[str, float]) -> None:
        for key, count in taken.items():
            if key in self.served:
                self.served[key] += count / weights.get(key, 1.0)
