"""The workers that hear the same wake-ups. All of them agree, without asking each other, for whom a message is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b

from ....rules.queues import serves
from ....taskqueue import Peer

SILENT = timedelta(seconds=12)
"""Who has missed two heartbeats is not counted on, though nobody calls it dead yet."""


class Peers:
    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.alive: list[Peer] = []
        self.counted_on: list[Peer] = []

    def learn(self, alive: Sequence[Peer]) -> None:
        """Who is alive, by one reading of the database's clock; the worker itself has just said that it is."""
        self.alive = list(alive)
        latest = max((peer.heartbeat_at for peer in alive), default=None)
        self.counted_on = [
            peer
            for peer in alive
            if latest and latest - peer.heartbeat_at <= SILENT
            if peer.id != self.worker_id and peer.listening and peer.stop_asked_at is None
        ]

    @property
    def is_first(self) -> bool:
        """Whether this worker does what one of them must do for all: the one that started first."""
        return bool(self.alive) and self.alive[0].id == self.worker_id

    def rank(self, queue: str, sender: int) -> int:
        """This worker's place in line for a message: 0 is the first. Each sender's messages begin elsewhere."""
        mine = score(self.worker_id, sender)
        return sum(score(other, sender) > mine for other in self.others(queue))

    def others(self, queue: str) -> set[str]:
        """Who else would answer for this queue."""
        return {peer.id for peer in self.counted_on if serves(queue, peer.queues, peer.exclude)}


def score(worker_id: str, sender: int) -> bytes:
    return blake2b(f"{sender}:{worker_id}".encode(), digest_size=8).digest()
