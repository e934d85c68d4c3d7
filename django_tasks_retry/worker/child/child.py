"""A child's loop: claims, has functions run, and records their outcomes. Other threads run the functions.

It records outcomes as they come in. While one write is in flight the next ones gather, so that under load many outcomes
share a statement, and a lone one is not delayed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from time import monotonic, sleep

from ...conf import options as queue_options
from ...taskqueue import Lease, database
from ..options import WorkerOptions
from ..shared.channel import Channel
from ..shared.database import DatabaseCaller
from ..shared.inflight import InFlightTable, Room
from ..shared.messages import (
    ClaimNow,
    DatabaseAway,
    Goodbye,
    LeasesLost,
    LeasesRenewed,
    Leaving,
    Message,
    MoreDue,
    Ping,
    Pong,
    Stop,
)
from ..shared.outcomes import OutcomeRecorder, Recorded
from ..shared.stats import StatsSender
from ..shared.timer import Every
from .attempt import Attempt
from .attempt_logs import keep_lines
from .finished_signals import FinishedSignals
from .intake import Intake
from .loop_executor import LoopExecutor
from .memory import resident_bytes
from .outbox import Outbox
from .thread_executor import ThreadExecutor
from .watch import EXIT_FENCED, Watch

LONGEST_WAIT = 1.0
FENCE_SECONDS = 0.25
LONG_LINE, LINGER_SECONDS = 50, 0.002
MOST_AT_ONCE = 400  # half of what is claimed ahead: some run while others are recorded
MORE_SECONDS, LONGEST_MORE = 0.05, 1.0


class Child:
    def __init__(
        self,
        worker_id: str,
        channel: Channel,
        stats_channel: Channel,
        inflight: InFlightTable,
        options: WorkerOptions,
        *,
        careful: bool,
    ) -> None:
        self.options, self.inflight, self.channel = options, inflight, channel
        lease = queue_options(options.backend).lease
        keep_lines(queue_options(options.backend).log_lines)
        seconds = max(1.0, min(15.0, lease / 4))
        self.database = DatabaseCaller(database(options.backend), seconds, inflight.promise_return)
        self.inbox: SimpleQueue[Attempt | Message] = SimpleQueue()
        self.attempts: set[Attempt] = set()
        self.outbox = Outbox(self.database)
        self.stats = StatsSender(stats_channel)
        self.finished_signals = FinishedSignals()
        self.recorder = OutcomeRecorder(self.stats, self.finished_signals.send)
        self.threads = ThreadExecutor(options.threads, inflight, lease, self.inbox.put)
        self.loop = LoopExecutor(inflight, lease, self.inbox.put)
        self.intake = Intake(worker_id, options, self.database, self.attempts, careful=careful)
        self.watch = Watch(self.attempts, inflight, lease, self.threads, self.loop, self.outbox, self.intake)
        self.telling_more = Every(MORE_SECONDS)
        self.is_stopping = self.has_drained = self.has_recorded = False

    def run(self) -> None:
        threading.Thread(target=self.read_messages, daemon=True, name="django_tasks_retry.messages").start()
        while not (self.is_stopping and self.is_idle):
            self.collect()
            self.note_recorded(self.outbox.write())
            self.watch.tick()
            self.check_memory()
            self.claim()
        self.finished_signals.flush()
        self.channel.send(Goodbye(self.has_drained))

    @property
    def is_idle(self) -> bool:
        return not self.attempts and not self.outbox

    # What comes in

    def read_messages(self) -> None:
        while not self.channel.closed:
            self.watch.enforce_fence()
            for message in self.channel.receive(timeout=FENCE_SECONDS):
                if isinstance(message, Ping):
                    self.channel.send(Pong())
                else:
                    self.inbox.put(message)
        # Nobody renews our leases any more, and nobody may speak for us: stop before others start the same work.
        os._exit(EXIT_FENCED)

    def collect(self) -> None:
        """Wait for something to do, then take all there is."""
        timeout = self.wait_timeout()
        self.inflight.note_room(Room.NONE if self.is_stopping else self.intake.room)
        self.inflight.promise_return(monotonic() + timeout)
        ended: list[Attempt] = []
        try:
            item = self.inbox.get(timeout=timeout)
            if self.threads.waiting.qsize() > LONG_LINE and self.inbox.qsize() < LONG_LINE:
                sleep(LINGER_SECONDS)  # short tasks stand in line: let some of them end, to share a statement
            while True:
                if isinstance(item, Attempt):
                    ended.append(item)
                else:
                    self.handle_message(item)
                if len(ended) >= MOST_AT_ONCE:
                    break
                item = self.inbox.get_nowait()
        except Empty:
            pass
        self.take_ended(ended)

    def take_ended(self, ended: list[Attempt]) -> None:
        # What was given up for stuck, or given back, may end after all; its outcome was recorded by others.
        ended = [attempt for attempt in ended if attempt in self.attempts]
        for attempt in ended:
            self.intake.prefetch.learn(attempt.run_time)
        self.note_recorded([attempt for attempt in ended if attempt.receipt])
        self.outbox.add(attempt for attempt in ended if not attempt.receipt)

    def wait_timeout(self) -> float:
        """Seconds until something must be done even if nothing comes in."""
        now = monotonic()
        moments = [now + LONGEST_WAIT, self.watch.next_check()]
        if self.outbox:
            moments.append(self.outbox.next_try)
        elif not self.is_stopping and self.database.is_available:
            moments.append(self.intake.next_claim)
        return max(0.0, min(moments) - now)

    def handle_message(self, message: Message) -> None:
        match message:
            case ClaimNow():
                self.intake.claim_now()
            case LeasesRenewed():
                self.database.try_after = 0.0  # the supervisor has just reached the database
            case DatabaseAway():
                self.look_for_database()
            case LeasesLost(tasks, cancelled):
                self.watch.interrupt_lost(tasks, cancelled)
            case Stop(reason, abandoned):
                self.stop(reason, abandoned)

    def look_for_database(self) -> None:
        """Though idle: else it would learn with the first task after a failover that its old server is gone."""
        self.database.forget_connection()
        self.intake.claim_now()

    # What goes out

    def note_recorded(self, answered: Iterable[Attempt]) -> None:
        for attempt in answered:
            if attempt not in self.attempts:
                continue
            self.forget(attempt)
            if attempt.receipt is None:
                continue
            self.has_recorded = True
            self.intake.note_ended(attempt)
            self.intake.careful.note_answered()
            if not (attempt.is_revoked and attempt.receipt.lost):  # else whoever revoked it has told
                reason = attempt.report.reason if attempt.report else ""
                self.recorder.recorded(Recorded(attempt.receipt, reason, attempt.run_time), attempt)
        self.stats.send()

    def forget(self, attempt: Attempt) -> None:
        """Also what the database refused: its lease is to expire."""
        self.attempts.remove(attempt)
        place, attempt.place = attempt.place, None
        if place is not None:
            self.inflight.clear(place)

    # What is taken on

    def claim(self) -> None:
        if self.is_stopping or not self.database.is_available:
            return
        last_look = self.options.drain and self.is_idle and not self.intake.is_turned_away
        if last_look:
            self.intake.claim_now()
        self.intake.claim(self.start_attempts)
        self.tell_more()
        last_look = last_look and not self.intake.is_turned_away
        if self.is_idle and self.database.is_available and (last_look or self.intake.tasks_left == 0):
            self.is_stopping = self.has_drained = True

    def tell_more(self) -> None:
        """That there may be work for others: less and less often while it goes on, as they are at work by then."""
        if self.is_idle:
            self.telling_more.seconds = MORE_SECONDS
        if self.intake.left_some and self.telling_more.is_due():
            self.channel.send(MoreDue())
            self.telling_more.seconds = min(LONGEST_MORE, self.telling_more.seconds * 2)

    def start_attempts(self, leases: list[Lease], claimed: float) -> None:
        for lease in leases:
            attempt = Attempt(lease, claimed, self.inflight.claim(lease, claimed))
            self.attempts.add(attempt)
            (self.loop if attempt.is_async else self.threads).submit(attempt)
        if len(leases) <= self.options.threads:
            sleep(0)  # lets them start now: this thread would keep the interpreter until it has to wait

    # The end

    def stop(self, reason: str, abandoned: Iterable[str] = ()) -> None:
        """Claim no more, give back what has not started, and end with the last running task."""
        self.is_stopping = True
        self.watch.release(self.threads.withdraw_waiting(), reason)
        self.watch.release(self.loop.withdraw_waiting(), reason)
        for attempt in self.watch.abandon(abandoned):
            self.attempts.remove(attempt)

    def check_memory(self) -> None:
        """Outgrown, it stops and lets the supervisor know, which starts another child."""
        limit = self.options.max_memory
        if limit and self.has_recorded and not self.is_stopping and resident_bytes() > limit:
            reason = "its process is replaced, it outgrew its memory"
            self.stop(reason)
            self.channel.send(Leaving(reason))
