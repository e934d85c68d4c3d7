"""The crowd: what a claimer does when many others claim from the same lane.

Each claimer steps over what all the others have locked, so that with many of them a claim is mostly stepping. So a lane
has a few places at its head. Who finds none free takes nothing, not even what is less urgent, and comes back: after a
few times as long as its last claim took, then twice as long, since there is no saying how many wait with it.

Places are locks that nobody waits for. Who was turned away for some seconds claims without one for a while: what keeps
a place taken, be it a process that was stopped in the middle of a claim or a lock of somebody else, must stop nobody's
work.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

PLACES = 8
CLAIMS_TO_WAIT = 6
LONGEST_WAIT = 0.5
PATIENCE_SECONDS = 3.0
INSIST_SECONDS = 5.0


@dataclass(slots=True)
class Crowd:
    claim_seconds: float = 0.005
    refusals: int = 0
    since: float = float("inf")
    insists_until: float = float("-inf")

    def places(self) -> int:
        """How many there are; 0 means: claim without one."""
        return 0 if time.monotonic() < self.insists_until else PLACES

    def note_claim(self, seconds: float) -> None:
        self.claim_seconds, self.refusals, self.since = seconds, 0, float("inf")

    def turned_away(self) -> float:
        """Seconds until the next try."""
        now = time.monotonic()
        self.since = min(self.since, now)
        if now - self.since > PATIENCE_SECONDS:
            self.insists_until = now + INSIST_SECONDS
            return 0.0
        wait = min(LONGEST_WAIT, self.claim_seconds * CLAIMS_TO_WAIT * 2**self.refusals)
        self.refusals += 1
        return float(wait * random.uniform(1.0, 1.4))  # noqa: S311 - spreads load
