"""Which children are told to claim: those with free slots, and among them the least busy."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from ...shared.inflight import Room
from ...shared.messages import ClaimNow
from ..child_process import ChildProcess


def wake(children: Sequence[ChildProcess], count: int, *, fresh: bool = False) -> bool:
    """Tell so many children to claim, `fresh` ones for whom the last wake-up is longest ago. False if none has room.

    Otherwise those that were woken last, as they know best where the work is. Where none has room, each of them claims
    once it has.
    """
    ready = [child for child in children if child.inflight.room is Room.ALL]
    if ready:
        ready.sort(key=lambda child: (child.inflight.load, child.woken_at if fresh else -child.woken_at))
        chosen = ready[:count]
    else:
        chosen = [child for child in children if child.inflight.room] or list(children)
    for child in chosen:
        child.woken_at = monotonic()
        child.send(ClaimNow())
    return any(child.inflight.room for child in chosen)
