"""The supervisor: owns the children, their leases and their deadlines. It runs no task, so no task can hold it up.

It has one thread and never forks with an open connection. Whatever it asks the database is bounded in time by an alarm,
so that a network that swallows packets cannot keep it from looking after its children.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from .. import __version__, registry
from ..conf import options as queue_options
from ..rules.queues import serves
from ..taskqueue import database, deregister_worker, heartbeat, register_worker
from ..taskqueue.wakeup import Kind
from .alarm import BoundedWeather
from .fork import ChildProcess
from .heirs import Heirs
from .housekeeping import Housekeeper
from .identity import new_worker_id
from .keeper import Keeper
from .listener import Listener
from .nursery import Nursery
from .options import WorkerOptions
from .reload import Watcher, start_anew
from .timer import Every
from .weather import Trouble

logger = logging.getLogger("django_tasks_retry")
TURN_SECONDS = 0.2
LAST_WILL_SECONDS = 5.0
SIGN_ON_SECONDS = 10.0
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)


class Supervisor:
    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.id = new_worker_id(options.name)
        using, lease = database(options.backend), queue_options(options.backend).lease
        self.weather = BoundedWeather(using, seconds=max(0.5, min(5.0, lease / 4)))
        self.listener = Listener(using, wanted=options.listen, seconds=self.weather.seconds)
        self.housekeeper = Housekeeper(options.backend, self.weather)
        self.heirs = Heirs(self.id, options.backend, self.weather)
        self.keeper = Keeper(self.id, options.backend, self.weather, self.heirs)
        self.nursery = Nursery(self.id, options, self.let_go_in_child)
        self.watcher = Watcher(wanted=options.reload)
        self.selector = selectors.DefaultSelector()
        self.beating, self.touching = Every(5.0), Every(1.0)
        self.signals: list[int] = []
        self.tally: Counter[str] = Counter()
        self.stop_by: float | None = None
        self.exit_code = 0

    def run(self) -> int:
        """Work until told to stop, or until there is nothing left to do. Returns the exit code."""
        began = monotonic()
        self.handle_signals()
        self.sign_on()
        if not self.signals:
            self.staff()  # before we listen: behind a pooler it takes seconds to learn that nothing is heard
        while not self.is_done:
            self.turn()
            if self.options.max_time and monotonic() - began > self.options.max_time:
                self.stop("--max-time is over")
        self.carry_out_last_will()
        logger.info("stopped · %s in %.0fs", self.summary(), monotonic() - began)
        return self.exit_code

    @property
    def is_done(self) -> bool:
        return not self.nursery.children and (self.stop_by is not None or self.nursery.wanted <= 0)

    def turn(self) -> None:
        self.hear(self.patience())
        self.bury_the_dead()
        self.heed_signals()
        self.wake_for(self.heirs.settle())
        self.keeper.turn(self.nursery.children)
        self.wake_for(self.housekeeper.turn(self.id))
        self.say_alive()
        if self.stop_by is None:
            self.staff()
            self.look_for_changes()
        elif monotonic() > self.stop_by:
            self.kill_all()

    def staff(self) -> None:
        for child in self.nursery.staff():
            self.selector.register(child.channel.socket, selectors.EVENT_READ, child)

    # Hearing: children, wake-ups and signals

    def patience(self) -> float:
        """Seconds to listen: not past the moment at which the database may be tried again."""
        wait = self.weather.try_after - monotonic()
        return min(TURN_SECONDS, wait) if wait > 0 else TURN_SECONDS

    def hear(self, seconds: float) -> None:
        if self.weather.is_fine and self.listener.keep_open():
            self.selector.register(self.listener.fileno(), selectors.EVENT_READ, self.listener)
            self.wake_for(1)  # for what was enqueued while nobody listened
        for key, _ in self.selector.select(seconds):
            match key.data:
                case ChildProcess():
                    self.hear_child(key.data)
                case Listener():
                    self.hear_wakeups()
                case socket.socket():
                    with suppress(BlockingIOError):
                        key.data.recv(4096)

    def hear_child(self, child: ChildProcess) -> None:
        for message in child.channel.receive():
            child.heard = monotonic()
            self.tally.update(message.get("tally", {}))
            child.farewell = message.get("bye", child.farewell)
            child.leaving = child.leaving or message.get("leaving")
        if child.channel.closed:
            self.selector.unregister(child.channel.socket)
            child.channel.close()

    def hear_wakeups(self) -> None:
        descriptor = self.listener.fileno()
        messages = self.listener.hear()
        if self.listener.connection is None:
            self.selector.unregister(descriptor)
        if any(message.kind is Kind.CANCELLED for message in messages):
            self.keeper.renewing.hurry()  # which finds out whose task it was; the message only hurries
        self.wake_for(sum(message.kind is Kind.WORK and self.serves(message.subject) for message in messages))

    def serves(self, queue: str) -> bool:
        return serves(queue, self.options.queues, self.options.exclude)

    def wake_for(self, tasks: int) -> None:
        if tasks:
            for child in self.nursery.working:
                child.channel.send(wake=True)

    # Signals: the first asks, the second insists

    def handle_signals(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        theirs.settimeout(0)
        self.selector.register(ours, selectors.EVENT_READ, ours)
        self.bell = theirs
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, lambda number, _: self.signals.append(number))

    def heed_signals(self) -> None:
        heard, self.signals[:] = list(self.signals), []
        for number in heard:
            if number == signal.SIGHUP:
                logger.info("SIGHUP: children are being replaced")
                for child in self.nursery.working:
                    child.ask_to_leave("its process is being replaced")
            elif number in (signal.SIGTERM, signal.SIGINT) and self.stop_by is None:
                self.stop(signal.Signals(number).name)
            elif number != signal.SIGCHLD:
                again = "second " if self.stop_by is not None else ""
                logger.warning("%s%s: handing running tasks back now", again, signal.Signals(number).name)
                self.exit_code, self.stop_by = 1, monotonic()

    def stop(self, why: str) -> None:
        """Stop claiming, and give running tasks their grace."""
        if self.stop_by is not None:
            return
        self.stop_by = monotonic() + self.options.grace
        running = sum(len(child.running()) for child in self.nursery.children)
        logger.info(
            "%s: stopping · %d running, waiting up to %gs (again to hand them back now)",
            why,
            running,
            self.options.grace,
        )
        for child in self.nursery.children:
            child.ask_to_leave("the worker shut down")

    def kill_all(self) -> None:
        for child in self.nursery.children:
            child.leaving = child.leaving or "the worker shut down"
            child.kill()

    # The registry, and the signs of life

    def sign_on(self) -> None:
        facts: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "queues": list(self.options.queues),
            "exclude": list(self.options.exclude),
            "tasks": registry.known_paths(),
            "processes": self.options.processes,
            "slots": self.options.slots,
        }
        # With patience: these are many statements, and there are no children yet to be looked after.
        weather = BoundedWeather(self.weather.using, seconds=SIGN_ON_SECONDS)
        while signal.SIGTERM not in self.signals and signal.SIGINT not in self.signals:
            try:
                weather.ask(lambda: register_worker(self.id, self.options.backend, **facts))
                break
            except Trouble:
                sleep(max(0.0, weather.try_after - monotonic()))

    def say_alive(self) -> None:
        if self.options.heartbeat_file and self.touching.is_due():
            with suppress(OSError):  # who watches the file will notice
                Path(self.options.heartbeat_file).touch()
        if not self.beating.is_due() or not self.weather.is_fine:
            return
        running = sum(len(child.running()) for child in self.nursery.children)
        with suppress(Trouble):
            asked, alive = self.weather.ask(lambda: heartbeat(self.id, self.options.backend, running))
            self.housekeeper.share_with(alive)
            if asked:
                self.stop("asked by an operator")

    # Ends

    def bury_the_dead(self) -> None:
        for child, cause in self.nursery.reap():
            if not child.channel.closed:
                self.hear_child(child)
            if not child.channel.closed:
                self.selector.unregister(child.channel.socket)
                child.channel.close()
            self.heirs.inherit(child, cause)

    def carry_out_last_will(self) -> None:
        """Leases of children that were killed go back before we leave, as far as the database lets us."""
        deadline = monotonic() + (LAST_WILL_SECONDS if self.exit_code == 0 else 1.0)
        while self.heirs.has_urgent and monotonic() < deadline:
            self.heirs.settle()
            sleep(0.01)
        with suppress(Trouble):
            self.weather.ask(lambda: deregister_worker(self.id, self.options.backend))
        self.listener.close()
        if self.watcher.must_start_anew:
            start_anew()

    def look_for_changes(self) -> None:
        changed = self.watcher.changed_file()
        if changed is not None:
            self.stop(f"{changed.name} changed")
            self.watcher.must_start_anew = True

    def let_go_in_child(self) -> None:
        """In a forked child: let go of what belongs to the supervisor."""
        self.selector.close()
        self.listener.drop()
        for sibling in self.nursery.children:
            sibling.channel.close()

    def summary(self) -> str:
        tally = self.tally + self.heirs.tally
        words = {"done": "done", "retry": "retried", "failed": "failed", "released": "released"}
        counted = [f"{tally[key]} {word}" for key, word in words.items()]
        odd = [f"{tally[key]} {key}" for key in ("cancelled", "lost") if tally[key]]
        return ", ".join(counted + odd)
