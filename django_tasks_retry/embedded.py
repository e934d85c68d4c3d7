"""A worker inside the web process, for small sites and for development beside `runserver`.

Write it below `application = …` in `wsgi.py` or `asgi.py`:

    from django_tasks_retry import embedded

    embedded.start()

It gives up what needs processes of its own: a function that runs past its timeout, or whose task was cancelled, is not
ended, though what it returns is refused; a crash or a full memory ends the web process, too. `manage.py runworker` can
run beside it, and replaces it without other changes.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from time import monotonic

from django.db import connections

from . import registry
from .conf import check_backend
from .conf import options as queue_options
from .errors import InvalidOptions
from .taskqueue import ClaimMemory, Receipt, claim, database, release_task, renew
from .worker.child.attempt import Attempt
from .worker.child.outbox import Outbox
from .worker.child.pipeline import run_attempt, send_signals
from .worker.logs import log_exception
from .worker.options import WorkerOptions, child_id, new_worker_id
from .worker.shared.database import DatabaseCaller, Deadline, Unavailable
from .worker.shared.inflight import InFlightTable
from .worker.shared.interval import Interval
from .worker.shared.outcomes import AttemptResult, OutcomePublisher, StatsWriter
from .worker.supervisor.dispatch import Ring
from .worker.supervisor.heartbeat import Heartbeat
from .worker.supervisor.maintenance.maintenance import Maintenance
from .worker.supervisor.own_processes import look, send_all

logger = logging.getLogger("django_tasks_retry.worker")
CALL_SECONDS, ALERT_SECONDS, REST_SECONDS = 5.0, 60.0, 0.5
RENEWALS_PER_LEASE = 4


class ThreadDeadline(Deadline):
    """Bounds nothing: only a main thread receives the signal that would."""

    @contextmanager
    def running(self) -> Iterator[None]:
        self.has_passed = False
        yield


class ThreadCaller(DatabaseCaller):
    def __init__(self, using: str) -> None:
        super().__init__(using, CALL_SECONDS)
        self.deadline = ThreadDeadline(lambda: connections[using].connection, CALL_SECONDS)


class EmbeddedWorker:
    """A thread that claims, renews, records and keeps the queue in order; and threads that run what it claimed."""

    def __init__(self, options: WorkerOptions) -> None:
        backend, self.options = options.backend, options
        self.id = new_worker_id(options.name)
        self.lease = queue_options(check_backend(backend)).lease
        self.database = ThreadCaller(database(backend))
        self.stats = StatsWriter(backend, self.database)
        self.publisher = OutcomePublisher(self.stats.note, lambda result: self.send(result.receipt))
        self.maintenance = Maintenance(self.id, backend, self.database, self.publisher, self.send)
        self.heartbeat = Heartbeat(self.id, options, self.database)
        self.heartbeat.patient = self.database
        self.ring, self.memory = Ring(self.id), ClaimMemory(options.queues, options.exclude)
        self.outbox = Outbox(self.database, InFlightTable(1), self.lease)
        self.running: list[Attempt] = []
        self.ended: SimpleQueue[Attempt] = SimpleQueue()
        self.jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.renewing, self.claiming = Interval(self.lease / RENEWALS_PER_LEASE), Interval(options.poll)
        self.alerting = Interval(ALERT_SECONDS, at_once=False)
        self.awake, self.stopping = threading.Event(), threading.Event()
        self.keeper = threading.Thread(target=self.keep, daemon=True, name=f"{self.id} keeper")
        self.threads = [
            threading.Thread(target=self.work, daemon=True, name=f"{self.id} {n}") for n in range(options.threads)
        ]

    def start(self) -> None:
        registry.discover()
        for thread in (self.keeper, *self.threads):
            thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Claim no more, wait for running tasks as long as `grace`, and hand the others back."""
        atexit.unregister(self.stop)
        self.stopping.set()
        self.awake.set()
        self.keeper.join(self.options.grace + 2 * CALL_SECONDS)

    # The threads that run tasks

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                job()
            except Exception:
                log_exception(logger, "an embedded worker could not finish a job")
            finally:
                connections.close_all()  # a fresh session for each

    def run(self, attempt: Attempt) -> None:
        attempt.started = monotonic()
        try:
            run_attempt(attempt)
        finally:
            attempt.ended = monotonic()
            self.ended.put(attempt)
            self.awake.set()

    def send(self, about: object) -> None:
        """Send the signals of tasks that were recovered, cancelled or enqueued by a schedule."""
        subjects = [about] if isinstance(about, Receipt) else list(about)  # type: ignore[call-overload]
        self.jobs.put(partial(send_all, subjects, self.options.backend))

    # The thread that keeps them going

    def keep(self) -> None:
        try:
            while not self.stopping.is_set() and not self.heartbeat.register():
                pass
            logger.info("embedded worker %s runs %d threads", self.id, self.options.threads)
            while not self.stopping.is_set():
                self.tick(self.beat, self.maintain, self.claim)
                self.awake.wait(min(REST_SECONDS, self.options.poll))
                self.awake.clear()
            self.finish()
        finally:
            for _thread in self.threads:
                self.jobs.put(None)
            connections.close_all()

    def tick(self, *steps: Callable[[], object]) -> None:
        """Do one round. An error in one step keeps none of the others from running."""
        for step in (self.record, self.renew, self.stats.tick, *steps):
            try:
                step()
            except Unavailable:
                continue
            except Exception:
                log_exception(logger, "an embedded worker could not %s; it goes on", getattr(step, "__name__", "step"))

    def claim(self) -> None:
        free = self.options.threads - len(self.running)
        if free < 1 or not self.database.is_available or not self.claiming.is_due():
            return
        options, worker_id = self.options, child_id(self.id, 1)
        leases = self.database.call(
            lambda: claim(worker_id, options.queues, free, backend=options.backend, memory=self.memory)
        )
        for attempt in [Attempt(lease, monotonic()) for lease in leases]:
            self.running.append(attempt)
            self.jobs.put(partial(self.run, attempt))
        if leases:
            self.claiming.soon()

    def record(self) -> None:
        """Record what has ended, under its fence. While the database is away it is kept, and its lease renewed."""
        ended = [self.ended.get() for _ in range(self.ended.qsize())]
        self.outbox.add(each for each in ended if each.report is not None and each.receipt is None)
        # What was atomic is recorded already. What was interrupted is not reported: its lease expires.
        recorded = [each for each in ended if each.report is None or each.receipt is not None]
        for attempt in [*recorded, *self.outbox.write()]:
            self.running.remove(attempt)
            self.claiming.soon()
            if attempt.receipt is not None:
                self.publisher.publish(AttemptResult(attempt.receipt, run_seconds=attempt.run_time, attempt=attempt))
                self.jobs.put(partial(send_signals, attempt))

    def renew(self) -> None:
        """Renew what runs within its timeout. Past it the lease expires, and somebody else may try again."""
        if not self.database.is_available or not self.renewing.is_due():
            return
        leases = [each.lease for each in self.running if each.ended or not each.started or monotonic() < each.deadline]
        for fence, why in self.database.call(lambda: renew(leases)).items():
            logger.warning("lost the lease of %s (%s): what it returns is refused", fence[0], why)

    def maintain(self) -> None:
        if self.maintenance.tick():
            self.claiming.soon()

    def beat(self) -> None:
        alive = self.heartbeat.beat(lambda: len(self.running), listening=False)
        if alive is not None:
            self.ring.learn(alive)
            self.maintenance.share_with(len(alive), is_elected=self.ring.is_first)
            if any(peer.id == self.id and peer.stop_asked_at for peer in alive):
                self.stopping.set()
        backend = self.options.backend
        if self.ring.is_first and queue_options(backend).alerts and self.alerting.is_due():
            self.jobs.put(partial(look, backend))

    def finish(self) -> None:
        give_up_at = monotonic() + self.options.grace
        while self.running and monotonic() < give_up_at:
            self.tick()
            self.awake.wait(0.1)
            self.awake.clear()
        for attempt in [each for each in self.running if not each.ended]:
            self.tick(partial(release_task, attempt.lease, "shutdown"))
        self.stats.finish(1.0)
        self.heartbeat.deregister()


_workers: dict[int, EmbeddedWorker] = {}  # by process
_starting = threading.Lock()


def start(
    queues: tuple[str, ...] = ("*",),
    *,
    threads: int = 2,
    exclude: tuple[str, ...] = (),
    backend: str = "default",
    poll: float = 1.0,
    grace: float = 10.0,
) -> EmbeddedWorker:
    """Run tasks in threads of this process until it ends. A second call in the same process changes nothing.

    A server that forks needs the call in each of its processes: threads do not survive a fork.
    """
    if threads < 1 or poll <= 0:
        raise InvalidOptions(f"threads={threads}, poll={poll}: give one thread or more, and a pause above 0.")
    with _starting:
        worker = _workers.get(os.getpid())
        if worker is None or not worker.keeper.is_alive():
            named = WorkerOptions(
                queues=queues, exclude=exclude, backend=backend, threads=threads, async_slots=0, poll=poll, grace=grace,
                listen=False, name="embedded",
            )  # fmt: skip
            worker = _workers[os.getpid()] = EmbeddedWorker(named)
            worker.start()
        return worker


def stop() -> None:
    """Stop as a server does that shuts down: wait for running tasks, hand back those that take too long."""
    if (worker := _workers.get(os.getpid())) is not None:
        worker.stop()
