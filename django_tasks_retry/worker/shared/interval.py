"""An interval timer, for what is done every so often."""

import random
from time import monotonic


class Interval:
    """Due every `seconds`, ±20 % so that many workers do not act in step."""

    def __init__(self, seconds: float, *, at_once: bool = True) -> None:
        self.seconds = seconds
        self.next = 0.0
        if not at_once:
            self.reset()

    def reset(self) -> None:
        self.next = monotonic() + self.seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load

    def soon(self, seconds: float = 0.0) -> None:
        """Be due after that many seconds, unless it is earlier."""
        self.next = min(self.next, monotonic() + seconds)

    def is_due(self) -> bool:
        """True once per interval."""
        if monotonic() < self.next:
            return False
        self.reset()
        return True
