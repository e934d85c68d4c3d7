"""Opens the circuit breakers of functions and lanes that fail too often, and tries those that are open."""

from __future__ import annotations

from ....taskqueue import tick_breakers
from . import Periodic


class Breakers(Periodic):
    def run(self) -> int:
        self.database.call(lambda: tick_breakers(self.backend))
        return 0
