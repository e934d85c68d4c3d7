"""Runs the services that keep the whole queue in order. Each worker runs them all, and one of them prunes for all."""

from collections.abc import Callable, Sequence
from uuid import UUID

from ...shared.database import DatabaseCaller, Unavailable
from ...shared.outcomes import OutcomePublisher
from .problems import DeployGuard, Problems
from .schedules import Schedules
from .services import Archive, Breakers, CancelMembers, Expire, Pending, Prune, Recover, Service, Wake


class Maintenance:
    def __init__(
        self,
        worker_id: str,
        backend: str,
        database: DatabaseCaller,
        publisher: OutcomePublisher,
        send_enqueued: Callable[[Sequence[UUID]], None],
    ) -> None:
        self.database = database
        self.prune, self.archive = Prune(backend, database), Archive(backend, database)
        self.problems, self.guard = Problems(backend, database), DeployGuard(backend, database)
        self.pending = Pending(backend, database)
        self.wake = Wake(backend, database, self.pending)
        self.periodic = (self.wake, CancelMembers(backend, database), Breakers(backend, database))
        self.schedules = Schedules(worker_id, backend, database, self.pending, send_enqueued)
        self.services: Sequence[Service] = (
            self.prune,
            self.archive,
            self.pending,
            Recover(worker_id, backend, database, self.pending, publisher),
            Expire(worker_id, backend, database, self.pending),
            *self.periodic,
            self.schedules,
            self.problems,
            self.guard,
        )

    def share_with(self, workers: int, *, is_elected: bool) -> None:
        """Ask less often while many workers are alive, so that the database is asked about as often in all.

        One of them prunes. Two that do, since they disagree for some seconds, only alternate.
        """
        self.prune.is_elected = self.archive.is_elected = self.problems.is_elected = is_elected
        self.guard.is_elected = is_elected
        for service in (self.pending, *self.periodic):
            service.share_with(workers)
        self.schedules.interval.seconds = self.pending.interval.seconds

    def tick(self) -> int:
        """Return how many tasks became due by it. The error of one service is raised after the others have run."""
        done, failed = 0, []
        for service in self.services:
            try:
                done += service.run() if self.database.is_available and service.is_due() else 0
            except Unavailable:
                continue
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return done

    @property
    def is_pruning(self) -> bool:
        return self.prune.is_open or self.archive.is_open

    @property
    def next_schedule_check(self) -> float:
        """Return when slots are checked next, by the monotonic clock: one that is due soon is waited for."""
        return self.schedules.interval.next if self.pending.found.scheduled else float("inf")
