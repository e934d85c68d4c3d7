"""A child's loop: claims, has functions run, and records their outcomes. Other threads run the functions.

It records outcomes as they come in. While one write is in flight the next ones gather, so that under load many outcomes
share a statement, and a lone one is not delayed. While others wait in line, outcomes gather some milliseconds longer.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic, sleep

from ...conf import options as queue_options
from ...taskqueue import Lease, Released, database
from ..options import WorkerOptions
from ..shared import messages
from ..shared.database import DatabaseCaller
from ..shared.inflight import InFlightTable, Room
from ..shared.interval import Interval
from ..shared.outcomes import AttemptResult, Counts, OutcomePublisher
from .attempt import Attempt, conclude
from .attempt_logs import keep_lines
from .claimer import Intake
from .executors import LoopExecutor, ThreadExecutor
from .outbox import Outbox
from .pipeline import SignalThread
from .process import EXIT_CRIPPLED, OF_NEIGHBOUR, Damage, exit_broken, is_leaving, leave, rss_bytes
from .timeouts import Timeouts

logger = logging.getLogger(__name__)
LONGEST_WAIT = 1.0
FENCE_SECONDS = 0.25
LARGE_REPORT, LONGEST_LINGER = 50, 0.01
MOST_AT_ONCE = 400  # half of what is claimed ahead: some run while others are recorded
MORE_SECONDS, LONGEST_MORE = 0.05, 1.0
FLUSH_SECONDS = 10.0  # a supervisor is held up by its own calls to the database, 5 s each


class Child:
    def __init__(
        self,
        worker_id: str,
        channel: messages.Channel,
        stats_channel: messages.Channel,
        inflight: InFlightTable,
        options: WorkerOptions,
        *,
        careful: bool,
    ) -> None:
        self.options, self.inflight, self.channel = options, inflight, channel
        lease = queue_options(options.backend).lease
        keep_lines(queue_options(options.backend).attempt_log_lines)
        seconds = max(1.0, min(15.0, lease / 4))
        self.database = DatabaseCaller(database(options.backend), seconds, inflight.promise_return)
        self.inbox: SimpleQueue[Attempt | messages.Message] = SimpleQueue()
        self.attempts: set[Attempt] = set()
        self.outbox = Outbox(self.database, inflight, lease)
        self.counts, self.stats_channel = Counts(), stats_channel
        self.finished_signals = SignalThread()
        self.publisher = OutcomePublisher(self.counts.note, lambda result: self.finished_signals.send(result.attempt))
        self.threads = ThreadExecutor(options.threads, inflight, lease, self.inbox.put)
        self.loop = LoopExecutor(inflight, lease, self.inbox.put)
        self.intake = Intake(worker_id, options, self.database, self.attempts, careful=careful)
        self.timeouts = Timeouts(
            self.attempts, inflight, lease, self.threads, self.loop, self.outbox, self.intake.budget
        )
        self.sending_more = Interval(MORE_SECONDS)
        self.damage = Damage(channel.socket.fileno())
        self.is_stopping = self.has_drained = self.has_recorded = False
        self.is_crippled = False

    def run(self) -> None:
        threading.Thread(target=self.read_messages, daemon=True, name="django_tasks_retry.messages").start()
        while not (self.is_stopping and self.is_idle):
            self.collect()
            self.write()
            if self.is_crippled:
                self.leave_neighbours()
            self.claim()  # before the books: a task that just came waits for this
            self.timeouts.tick()
            self.check_memory()
        self.finished_signals.flush()
        self.flush_stats()
        self.channel.send(messages.Goodbye(self.has_drained))

    @property
    def is_idle(self) -> bool:
        return not self.attempts and not self.outbox

    # What comes in

    def read_messages(self) -> None:
        try:
            while not self.channel.closed:
                self.timeouts.enforce_fence()
                for message in self.channel.receive(timeout=FENCE_SECONDS):
                    if isinstance(message, messages.Ping):
                        self.channel.send(messages.Pong())
                    else:
                        self.inbox.put(message)
        except BaseException:  # raised into this thread by a task
            exit_broken()
        # Our supervisor is gone, or a task closed our descriptors. Nobody may speak for us: stop before others start
        # the same work.
        leave(EXIT_CRIPPLED)

    def collect(self) -> None:
        """Wait for something to do, then take all there is."""
        timeout = self.wait_timeout()
        self.inflight.note_room(Room.NONE if self.is_stopping else self.intake.room)
        self.inflight.promise_return(monotonic() + timeout)
        ended: list[Attempt] = []
        try:
            item = self.inbox.get(timeout=timeout)
            if self.inbox.qsize() < LARGE_REPORT and (seconds := self.linger_time()):
                sleep(seconds)
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

    def linger_time(self) -> float:
        """Return how long to let more attempts end, to share a statement: half the time that the line of others lasts.

        Not while lanes or limits are known, in which the next task may wait for the permit of one that has ended.
        """
        memory = self.intake.functions.memory
        if memory.cursor.has_lanes or memory.closed.until:
            return 0.0
        return min(LONGEST_LINGER, self.intake.budget.prefetch.lasts(self.threads.waiting.qsize()) / 2)

    def take_ended(self, ended: list[Attempt]) -> None:
        # What was given up for stuck, or given back, may end after all; its outcome was recorded by others.
        ended = [attempt for attempt in ended if attempt in self.attempts]
        now = monotonic()
        for attempt in ended:
            if not attempt.is_async:
                self.intake.budget.prefetch.learn(attempt.run_time, now)
        if ended and self.damage.is_there():
            self.is_crippled = not self.damage.repair()
            begun = [attempt for attempt in self.attempts if attempt.started]
            for attempt in begun if len(begun) > 1 else ():
                attempt.is_suspect = True
        for attempt in ended:
            if attempt.is_suspect and attempt.has_raised:  # perhaps for want of what a neighbour took
                attempt.report = conclude(attempt, Released(attempt.lease, OF_NEIGHBOUR, is_suspect=True))
        self.note_recorded([attempt for attempt in ended if attempt.receipt])
        self.outbox.add(attempt for attempt in ended if not attempt.receipt)

    def wait_timeout(self) -> float:
        """Return the seconds until something must be done even if nothing comes in."""
        now = monotonic()
        moments = [now + LONGEST_WAIT, self.timeouts.next_check()]
        if self.outbox:
            moments.append(self.outbox.next_try)
        elif not self.is_stopping and self.database.is_available:
            moments.append(self.intake.next_claim)
        return max(0.0, min(moments) - now)

    def handle_message(self, message: messages.Message) -> None:
        match message:
            case messages.ClaimNow():
                self.intake.claim_now()
            case messages.LeasesRenewed():
                self.database.try_after = 0.0  # the supervisor has just reached the database
            case messages.DatabaseAway():
                self.look_for_database()
            case messages.LeasesLost(tasks, cancelled):
                self.timeouts.interrupt_lost(tasks, cancelled)
            case messages.Stop(reason, abandoned):
                self.stop(reason, abandoned)

    def look_for_database(self) -> None:
        """Try the database, though idle: else the first task after a failover would learn that the server is gone."""
        self.database.forget_connection()
        self.intake.claim_now()

    # What goes out

    def write(self) -> None:
        """Record what has ended; and claim what comes after it in full lanes, with the same commit."""
        may_claim = not (self.is_stopping or self.is_crippled or is_leaving.is_set())
        successors = self.intake.successors_of(self.outbox.pending) if may_claim else None
        self.note_recorded(self.outbox.write(successors))
        self.intake.take_successors(self.start_attempts)

    def note_recorded(self, answered: Iterable[Attempt]) -> None:
        ours = [attempt for attempt in answered if attempt in self.attempts]
        self.forget(ours)
        for attempt in ours:
            if attempt.receipt is None:
                continue
            self.has_recorded = True
            self.intake.note_ended(attempt)
            if not (attempt.is_revoked and attempt.receipt.lost):  # else the process that revoked it has published it
                reason = attempt.report.reason if attempt.report else ""
                self.publisher.publish(AttemptResult(attempt.receipt, reason, attempt.run_time, attempt))
        self.send_stats()

    def send_stats(self) -> None:
        """Send counts after each write: what was sent outlives the child. The rest is kept if the channel is full."""
        stats = self.counts.take()
        for sent, stat in enumerate(stats):
            if not self.stats_channel.send(stat):
                for unsent in stats[sent:]:
                    self.counts.add(unsent)
                return

    def flush_stats(self) -> None:
        """Wait until the supervisor has taken all counts, a few seconds at most: the rest ends with this process."""
        channel, deadline = self.stats_channel, monotonic() + FLUSH_SECONDS
        self.inflight.promise_return(deadline)
        self.send_stats()
        while self.counts.stats or channel.unsent:
            # The supervisor reads statistics after any message, else several times a second.
            self.channel.send(messages.Pong())
            if not channel.flush(deadline - monotonic()):
                lost = len(self.counts.stats) + channel.unsent.count(b"\n")
                logger.warning("counts of %d queues and functions are lost: the supervisor did not read them", lost)
                return
            self.send_stats()

    def forget(self, attempts: Sequence[Attempt]) -> None:
        """Forget these attempts, also those that the database refused: their leases will expire."""
        self.attempts.difference_update(attempts)
        self.inflight.clear([attempt.place for attempt in attempts if attempt.place is not None])
        for attempt in attempts:
            attempt.place = None

    # What is taken on

    def claim(self) -> None:
        if self.is_stopping or is_leaving.is_set() or not self.database.is_available:
            return
        last_look = self.options.drain and self.is_idle and self.intake.may_look_again
        if last_look:
            self.intake.claim_now()
        self.intake.claim(self.start_attempts, ran_dry=self.threads.waiting.empty())
        self.send_more_due()
        if self.is_idle and self.database.is_available:
            is_over = self.intake.budget.tasks_left == 0 or (last_look and not self.intake.is_work_left())
            self.is_stopping = self.has_drained = is_over

    def send_more_due(self) -> None:
        """Report that there may be work for others; less and less often, as they are at work by then."""
        if self.is_idle:
            self.sending_more.seconds = MORE_SECONDS
        if self.intake.may_be_more and self.sending_more.is_due():
            self.channel.send(messages.MoreDue())
            self.sending_more.seconds = min(LONGEST_MORE, self.sending_more.seconds * 2)

    def start_attempts(self, leases: list[Lease], claimed: float) -> None:
        for lease, place in zip(leases, self.inflight.claim(leases, claimed), strict=True):
            attempt = Attempt(lease, claimed, place)
            self.attempts.add(attempt)
            (self.loop if attempt.is_async else self.threads).submit(attempt)
        if len(leases) <= self.options.threads:
            sleep(0)  # lets them start now: this thread would keep the interpreter until it has to wait

    # The end

    def stop(self, reason: messages.StopReason, abandoned: Iterable[str] = ()) -> None:
        """Claim no more, give back what has not started, and end with the last running task."""
        self.is_stopping = True
        self.timeouts.release(self.threads.withdraw_waiting(), reason)
        self.timeouts.release(self.loop.withdraw_waiting(), reason)
        for attempt in self.timeouts.abandon(abandoned):
            self.attempts.remove(attempt)

    def leave_neighbours(self) -> None:
        """End at once: what still runs here would fail for want of what a neighbour took, and begins anew elsewhere."""
        logger.error("a task damaged its process for good (resource limits, descriptors); the process is replaced")
        leave(EXIT_CRIPPLED)

    def check_memory(self) -> None:
        """Stop if the process outgrew its memory, and let the supervisor know, which starts another."""
        limit = self.options.max_memory
        if limit and self.has_recorded and not self.is_stopping and rss_bytes() > limit:
            self.stop(messages.StopReason.MEMORY)
            self.channel.send(messages.Leaving(messages.StopReason.MEMORY))
