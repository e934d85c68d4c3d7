"""A child: claims, runs and reports. One thread does the claiming and the writing; others run the functions.

It writes outcomes as they come in. While one write is in flight the next ones gather, so that under load many outcomes
share a statement, and a lone one is not delayed.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from time import monotonic, sleep

from .. import registry
from ..conf import options as queue_options
from ..errors import TaskCancelled, TaskTimeout
from ..taskqueue import Fence, Lease, Released, database
from . import journal
from .alarm import BoundedWeather
from .appetite import Appetite
from .attempt import Attempt, LeaseClock, is_coroutine
from .board import Board
from .books import Books
from .channel import Channel, Message
from .claimer import Claimer
from .counts import Counts
from .memory import resident_bytes
from .options import WorkerOptions
from .slots import LoopSlots, ThreadSlots
from .teller import Teller
from .timer import Every

EXIT_FENCED = 70
HOSTAGE_SECONDS = 1.0
CAREFUL_TASKS, CAREFUL_SECONDS = 5, 0.5
LONG_LINE, LINGER_SECONDS = 50, 0.002


class Child:
    def __init__(
        self, worker_id: str, channel: Channel, board: Board, options: WorkerOptions, *, careful: bool
    ) -> None:
        self.options, self.board, self.channel = options, board, channel
        lease = queue_options(options.backend).lease
        self.clock = LeaseClock(lease)
        self.weather = BoundedWeather(database(options.backend), seconds=max(1.0, min(30.0, lease / 2)))
        self.books = Books(self.weather)
        self.inbox: SimpleQueue[Attempt | Message] = SimpleQueue()
        self.in_flight: dict[Fence, Attempt] = {}
        self.tally: Counter[str] = Counter()
        self.telling = Every(1.0, at_once=False)
        self.counts = Counts(options.backend, self.weather)
        self.teller = Teller()
        self.stopping = self.has_settled = False
        self.farewell = "stopped"
        self.tasks_left = options.max_tasks
        self.careful_for, self.careful_until = (CAREFUL_TASKS if careful else 0), monotonic() + CAREFUL_SECONDS
        paths = registry.known_paths()
        self.threads = ThreadSlots(options.threads, board, self.inbox.put)
        self.loop = LoopSlots(board, self.inbox.put)
        self.thread_work = Claimer(worker_id, options, self.weather, [p for p in paths if not is_coroutine(p)])
        self.loop_work = Claimer(worker_id, options, self.weather, [p for p in paths if is_coroutine(p)])
        self.appetite = Appetite(options.threads)

    def run(self) -> None:
        threading.Thread(target=self.read_messages, daemon=True, name="django_tasks_retry.messages").start()
        while not self.is_done:
            self.gather()
            self.settle(self.books.write())
            self.watch_running()
            self.claim_more()
            self.counts.turn()
            if self.telling.is_due():
                self.tell_tally()
        self.counts.add()
        self.teller.finish()
        self.tell_tally()
        self.channel.send(bye=self.farewell)

    def tell_tally(self) -> None:
        """Now and then, so that the summary knows about a child that cannot say good-bye."""
        if self.tally:
            self.channel.send(tally=dict(self.tally))
            self.tally.clear()

    @property
    def is_done(self) -> bool:
        return self.stopping and not self.in_flight and not self.books.pending

    # What comes in

    def read_messages(self) -> None:
        while not self.channel.closed:
            for message in self.channel.receive():
                self.inbox.put(message)
        # Nobody renews our leases any more, and nobody may speak for us: stop before others start the same work.
        os._exit(EXIT_FENCED)

    def gather(self) -> None:
        """Wait for something to do, then take all there is."""
        ended: list[Attempt] = []
        try:
            item = self.inbox.get(timeout=self.patience())
            if self.threads.line.qsize() > LONG_LINE:
                sleep(LINGER_SECONDS)  # short tasks stand in line: let some of them end, to share a statement
            while True:
                if isinstance(item, Attempt):
                    ended.append(item)
                else:
                    self.obey(item)
                item = self.inbox.get_nowait()
        except Empty:
            pass
        # What was given up for stuck may end after all; its outcome was recorded by others.
        ended = [attempt for attempt in ended if attempt.lease.fence in self.in_flight]
        for attempt in ended:
            self.appetite.learn(attempt.run_time)
        self.settle([attempt for attempt in ended if attempt.receipt])
        self.books.add(attempt for attempt in ended if not attempt.receipt)

    def patience(self) -> float:
        """Seconds until something must be done even if nothing comes in."""
        now, until = monotonic(), monotonic() + 1.0
        if self.books.pending:
            until = min(until, self.weather.try_after)
        elif not self.stopping and self.weather.is_fine:
            until = min([until, *(work.next_poll for work, room in self.openings() if room and not work.hungry)])
            if any(work.hungry and room for work, room in self.openings()):
                return 0.0
        if self.is_careful:
            until = min(until, self.careful_until)
        for attempt in self.in_flight.values():
            if attempt.is_running and attempt.interruption is None:
                until = min(until, attempt.deadline, attempt.valid_until - self.clock.margin)
            elif attempt.is_running:
                until = min(until, attempt.valid_until)
        return max(0.0, until - now)

    def obey(self, message: Message) -> None:
        match message:
            case {"wake": True}:
                self.thread_work.hungry = self.loop_work.hungry = True
            case {"renewed": True}:
                self.weather.try_after = 0.0  # the supervisor has just reached the database
            case {"lost": ids, "cancelled": cancelled}:
                self.interrupt_lost(set(ids), set(cancelled))
            case {"ping": True}:
                self.channel.send(pong=True)
            case {"stop": reason, "abandon": abandoned}:
                self.stop(reason, set(abandoned))

    def stop(self, reason: str, abandoned: Iterable[str] = ()) -> None:
        """Claim no more, give back what has not started, and end with the last running task."""
        self.stopping = True
        self.give_back(self.threads.take_back(), reason)
        for attempt in [a for a in self.in_flight.values() if str(a.lease.id) in abandoned]:
            del self.in_flight[attempt.lease.fence]
            if attempt.is_async:
                self.loop.ask_for_sign_of_life()

    def give_back(self, attempts: Iterable[Attempt], reason: str) -> None:
        for attempt in attempts:
            attempt.outcome = Released(attempt.lease, reason)
            attempt.ended = monotonic()
            attempt.started = attempt.started or attempt.ended
            self.books.add([attempt])

    # What goes on

    def settle(self, answered: Iterable[Attempt]) -> None:
        for attempt in answered:
            self.in_flight.pop(attempt.lease.fence, None)
            self.board.settled(attempt.lease)
            word = journal.record(attempt)
            self.tally[word] += 1
            self.has_settled = True
            self.counts.count(attempt, word)
            self.teller.tell(attempt)
            self.careful_for = max(0, self.careful_for - 1)

    def watch_running(self) -> None:
        """Interrupt what runs too long or has lost its lease; give back what waits behind long tasks."""
        now, self.clock.renewed_at = monotonic(), self.board.renewed_at
        hostages = False
        for attempt in self.in_flight.values():
            if attempt.is_running:
                self.watch(attempt, now)
            elif not attempt.started and not attempt.is_async:
                hostages = hostages or now - attempt.claimed > HOSTAGE_SECONDS
        if hostages:
            self.give_back(self.threads.take_back(), "waited behind long tasks")
        if self.loop.is_blocked:
            self.give_back_coroutines()
        if self.options.max_memory and self.has_settled and resident_bytes() > self.options.max_memory:
            self.leave("its process is replaced, it outgrew its memory")

    def give_back_coroutines(self) -> None:
        """A function that does not yield keeps all coroutines of this process from going on."""
        waiting = [a for a in self.in_flight.values() if a.is_async and not a.ended and a.outcome is None]
        for attempt in waiting:
            self.interrupt(attempt, TaskCancelled("Another coroutine blocked the event loop."))
        self.give_back(waiting, "another coroutine blocked the event loop")

    def leave(self, reason: str) -> None:
        """Stop, and let the supervisor know so that it starts another child."""
        if not self.stopping:
            self.stop(reason)
            self.channel.send(leaving=reason)

    def watch(self, attempt: Attempt, now: float) -> None:
        if attempt.interruption is None and now >= attempt.deadline:
            self.interrupt(
                attempt, TaskTimeout(f"The attempt ran longer than its timeout of {attempt.lease.timeout:g} s.")
            )
        if attempt.interruption is None and now >= attempt.valid_until - self.clock.margin:
            self.interrupt(attempt, TaskCancelled("The lease could not be renewed; another worker may take the task."))
        if now >= attempt.valid_until:
            os._exit(EXIT_FENCED)

    def interrupt_lost(self, ids: set[str], cancelled: set[str]) -> None:
        """But not what commits together with its completion: that may be why its lease is gone, else it is refused."""
        for attempt in list(self.in_flight.values()):
            task_id = str(attempt.lease.id)
            can_stop = attempt.is_running and not attempt.is_committing and attempt.interruption is None
            if task_id in ids and can_stop:
                why = "The task was cancelled." if task_id in cancelled else "The lease was lost."
                self.interrupt(attempt, TaskCancelled(why))

    def interrupt(self, attempt: Attempt, interruption: BaseException) -> None:
        attempt.interruption = interruption
        (self.loop if attempt.is_async else self.threads).interrupt(attempt)

    # What is taken on

    def openings(self) -> list[tuple[Claimer, int]]:
        """Each kind of work, and how much of it there is room for."""
        if self.is_careful:
            alone = 0 if self.in_flight else 1
            return [(self.thread_work, alone), (self.loop_work, alone)]
        knows_coroutines = bool(self.loop_work.lanes.paths)
        in_loop = sum(attempt.is_async for attempt in self.in_flight.values()) if knows_coroutines else 0
        thread_room = self.appetite.room(len(self.in_flight) - in_loop)
        loop_room = self.options.async_slots - in_loop if knows_coroutines else 0
        return [(self.thread_work, thread_room), (self.loop_work, loop_room)]

    @property
    def is_careful(self) -> bool:
        """One task at a time, for a few tasks; but one that lasts long does not keep the other slots empty."""
        return self.careful_for > 0 and monotonic() < self.careful_until

    def claim_more(self) -> None:
        if self.stopping or not self.weather.is_fine:
            return
        last_look = self.options.drain and self.is_idle
        for work in (self.thread_work, self.loop_work):
            work.release_ghosts(self.in_flight.values())
            work.hungry = work.hungry or last_look
            room = dict(self.openings())[work]
            limit = room if self.tasks_left is None else min(room, self.tasks_left)
            if limit > 0 and work.is_due:
                asked = monotonic()  # leases run from before the answer arrives
                self.take_on(work.claim(limit), asked)
        if self.is_idle and self.weather.is_fine and (last_look or self.tasks_left == 0):
            self.stopping, self.farewell = True, "drained"

    @property
    def is_idle(self) -> bool:
        return not self.in_flight and not self.books.pending

    def take_on(self, leases: list[Lease], claimed: float) -> None:
        for lease in leases:
            attempt = Attempt(lease, claimed, self.clock)
            self.in_flight[lease.fence] = attempt
            self.board.claimed(lease, claimed)
            (self.loop if attempt.is_async else self.threads).submit(attempt)
        if self.tasks_left is not None:
            self.tasks_left -= len(leases)
