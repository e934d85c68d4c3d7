"""Run due tasks in this thread until none is left."""

from __future__ import annotations

from collections.abc import Sequence

from ..taskqueue import Lanes, Receipt, claim, finish
from .attempt import run, tell


def drain(worker_id: str, *, queues: Sequence[str] = ("*",), backend: str = "default") -> list[Receipt]:
    receipts: list[Receipt] = []
    lanes = Lanes(queues)
    while leases := claim(worker_id, limit=1, backend=backend, lanes=lanes):
        for lease in leases:
            outcome = run(lease)
            [receipt] = finish([outcome])
            tell(outcome, receipt)
            receipts.append(receipt)
    return receipts
