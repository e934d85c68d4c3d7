"""The supervisor's loop: owns the children, their leases and deadlines. It runs no task, so no task can hold it up.

It has one thread and never forks with an open connection. Its calls to the database are bounded in time, so that a
network that swallows packets cannot keep it from looking after its children.
"""

import logging
import selectors
import signal
from collections.abc import Callable
from time import monotonic, sleep

from ...conf import options as queue_options
from ...taskqueue import Stat, database
from ...taskqueue.enqueue import WakeUpKind
from ..child.process import run_hooks
from ..logs import log_exception
from ..options import WorkerOptions, new_worker_id
from ..shared.database import DatabaseCaller
from ..shared.interval import Interval
from ..shared.messages import DatabaseAway, Goodbye, Leaving, MoreDue
from ..shared.outcomes import OutcomePublisher, StatsWriter
from ..shared.signal_handling import SignalInbox
from .autoreload import Autoreloader
from .child_process import ChildProcess
from .dispatch import Dispatcher, Listener
from .heartbeat import Heartbeat
from .leases import LeaseRenewal, Watchdog
from .maintenance.maintenance import Maintenance
from .orphans import OrphanRecovery
from .own_processes import AlertProcess, SignalProcess
from .pool import ChildPool, Isolation, ended_processes

logger = logging.getLogger(__name__)
TICK_SECONDS, REST_SECONDS = 0.2, 0.5  # at rest nobody works, and nobody is to be started or ended
SHUTDOWN_SECONDS, COMPLAIN_SECONDS = 5.0, 10.0
DRAINED_SECONDS = 30.0  # for statistics, if nobody waits for the end


class Supervisor:
    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.id = new_worker_id(options.name)
        self.began = monotonic()
        using, lease = database(options.backend), queue_options(options.backend).lease
        self.database = DatabaseCaller(using, seconds=max(0.5, min(5.0, lease / 4)))
        self.listener = Listener(using, wanted=options.listen, seconds=self.database.deadline.seconds)
        self.stats = StatsWriter(options.backend, self.database)
        self.finished_signals = SignalProcess(options.backend, self.close_in_child)
        self.alerts = AlertProcess(options.backend, self.close_in_child)
        publisher = OutcomePublisher(self.stats.note, lambda result: self.finished_signals.send(result.receipt))
        send_enqueued = self.finished_signals.send_enqueued
        self.maintenance = Maintenance(self.id, options.backend, self.database, publisher, send_enqueued)
        self.orphans = OrphanRecovery(self.id, options.backend, self.database, publisher)
        self.leases = LeaseRenewal(self.id, options.backend, self.database)
        self.watchdog = Watchdog(options.backend, self.database, self.leases, self.orphans)
        self.heartbeat = Heartbeat(self.id, options, self.database)
        self.pool = ChildPool(self.id, options, self.close_in_child)
        self.dispatcher = Dispatcher(self.id, options, self.database, self.pool)
        self.isolation = Isolation(options, self.database, self.pool)
        self.autoreloader = Autoreloader(wanted=options.reload)
        self.selector = selectors.DefaultSelector()
        self.signals = SignalInbox()
        self.complaining = Interval(COMPLAIN_SECONDS)
        self.stop_by: float | None = None
        self.exit_code, self.has_sent_outage = 0, False

    def run(self) -> int:
        """Work until asked to stop, or until there is nothing left to do. Return the exit code."""
        self.signals.install_handlers()
        self.selector.register(self.signals.socket, selectors.EVENT_READ, self.signals)
        while not self.signals.asks_to_stop and not self.is_out_of_time and not self.heartbeat.register():
            pass
        run_hooks("worker_started", self.id, self.options.backend)
        self.perform(self.maintain)  # enqueues what is due before children look, which --drain does but once
        if not self.signals.received:
            self.fill_pool()  # before we listen: behind a pooler it takes seconds to learn that nothing is heard
        while not self.is_done:
            self.tick()
        self.shut_down()
        logger.info("stopped · %s in %.0fs", self.stats.summary(), monotonic() - self.began)
        return self.exit_code

    @property
    def is_done(self) -> bool:
        if self.pool.children or (self.stop_by is None and self.pool.wanted > 0):
            return False
        is_drained = self.options.drain and self.options.max_tasks is None and self.stop_by is None
        return not (is_drained and self.isolation.is_work_left())

    def tick(self) -> None:
        """Do one round of all steps. An error in one keeps none of the others from running."""
        for step in (
            self.wait_for_events,
            self.reap_children,
            self.process_signals,
            self.recover_orphans,
            self.renew_leases,
            self.watch_children,
            self.maintain,
            self.send_heartbeat,
            self.dispatcher.poll,
            self.send_outage,
            self.stats.tick,
            self.finished_signals.tick,
            self.alerts.tick,
            self.staff_or_stop,
        ):
            self.perform(step)

    def perform(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            level = logging.ERROR if self.complaining.is_due() else logging.DEBUG
            name = step.__name__.replace("_", " ")
            log_exception(logger, "the supervisor could not %s; it goes on", name, level=level)
            sleep(TICK_SECONDS)

    # Steps

    def recover_orphans(self) -> None:
        self.wake_children(self.orphans.tick())
        if self.orphans.has_crashed:
            self.orphans.has_crashed = False
            self.isolation.looking.soon()

    def renew_leases(self) -> None:
        self.leases.tick(self.pool.children)

    def watch_children(self) -> None:
        self.watchdog.tick(self.pool.children)

    def maintain(self) -> None:
        self.wake_children(self.maintenance.tick())

    def send_heartbeat(self) -> None:
        self.heartbeat.touch_file()
        alive = self.heartbeat.beat(self.pool.count_running, listening=self.listener.is_ready)
        if alive is not None:
            self.dispatcher.learn(alive, listening=self.listener.is_ready)
            self.listen_if_elected(is_elected=self.dispatcher.ring.is_listener)
            self.maintenance.share_with(len(alive), is_elected=self.dispatcher.ring.is_first)
            self.alerts.is_elected = self.dispatcher.ring.is_first
            self.isolation.share_with(len(alive))
            if any(peer.id == self.id and peer.stop_asked_at for peer in alive):
                self.stop("asked by an operator")

    def listen_if_elected(self, *, is_elected: bool) -> None:
        self.listener.is_elected = is_elected
        if self.listener.connection is not None and not is_elected:
            self.selector.unregister(self.listener.fileno())
            self.listener.close()

    def send_outage(self) -> None:
        """Send each outage once: idle children then try the database too, and claim when it is back."""
        had_sent, self.has_sent_outage = self.has_sent_outage, self.database.is_away
        if self.has_sent_outage and not had_sent:
            for child in self.pool.children:
                child.send(DatabaseAway())

    def staff_or_stop(self) -> None:
        if self.stop_by is not None:
            if monotonic() > self.stop_by:
                self.pool.kill()
            return
        self.fill_pool()
        self.register_child(self.isolation.tick())
        if self.is_out_of_time:
            self.stop("--max-time is over")
        if (changed := self.autoreloader.changed_file()) is not None:
            self.restart(f"{changed.name} changed")

    def restart(self, why: str) -> None:
        """Restart with the code as it stands now, once running tasks have ended."""
        if self.stop_by is None:
            self.stop(why)
            self.autoreloader.must_restart = True

    @property
    def is_out_of_time(self) -> bool:
        return self.options.max_time is not None and monotonic() - self.began > self.options.max_time

    def fill_pool(self) -> None:
        for child in self.pool.fill():
            self.register_child(child)

    def register_child(self, child: ChildProcess | None) -> None:
        if child is not None:
            self.selector.register(child.channel.socket, selectors.EVENT_READ, child)

    # Events: messages of children, wake-ups and signals

    def wait_for_events(self) -> None:
        if self.database.is_available and self.listener.keep_open():
            self.selector.register(self.listener.fileno(), selectors.EVENT_READ, self.listener)
            self.wake_children(1)  # for what was enqueued while nobody listened
        for key, _ in self.selector.select(self.wait_timeout()):
            match key.data:
                case ChildProcess():
                    self.read_messages(key.data)
                case Listener():
                    self.read_wakeups()
                case SignalInbox():
                    self.signals.clear_socket()
        for child in self.pool.children:
            self.read_stats(child)

    def wait_timeout(self) -> float:
        """Seconds to wait: not past the moment at which the database may be tried again, or is to be asked."""
        if not self.database.is_available:
            return min(TICK_SECONDS, max(0.0, self.database.try_after - monotonic()))
        if self.maintenance.is_pruning:
            return 0.0
        longest = REST_SECONDS if self.is_at_rest else TICK_SECONDS
        next_look = min(self.dispatcher.polling.next, self.maintenance.next_schedule_check)
        return min(longest, max(0.0, next_look - monotonic()))

    @property
    def is_at_rest(self) -> bool:
        is_staffed = self.stop_by is None and len(self.pool.children) >= self.pool.wanted
        is_working = any(child.inflight.load for child in self.pool.children)
        return is_staffed and not is_working and not self.orphans.is_urgent

    def read_messages(self, child: ChildProcess) -> None:
        if child.channel.socket.fileno() < 0:
            # epoll may still tell of a closed socket that a frozen child keeps open, by the number of another one now.
            return
        for message in child.channel.receive():
            child.last_message_at = monotonic()
            match message:
                case MoreDue():
                    self.dispatcher.note_more()
                case Leaving(reason):
                    child.stop_reason = child.stop_reason or reason
                case Goodbye(drained):
                    child.sent_goodbye, child.has_drained = True, drained
        if child.channel.closed:
            self.selector.unregister(child.channel.socket)
            child.channel.close()

    def read_stats(self, child: ChildProcess) -> None:
        for message in child.stats_channel.receive_all():
            if isinstance(message, Stat):
                self.stats.count(message)

    def read_wakeups(self) -> None:
        descriptor, messages = self.listener.fileno(), self.listener.messages()
        if self.listener.connection is None:
            self.selector.unregister(descriptor)
        if any(message.kind is WakeUpKind.CANCELLED for message in messages):
            # Which task it is does not matter: renewal is how a lost lease is learnt, and the message only hurries it.
            self.leases.renewing.soon()
        self.dispatcher.receive(messages)

    def wake_children(self, tasks: int) -> None:
        if tasks:
            self.dispatcher.wake(1)

    # Signals: the first asks, the second insists

    def process_signals(self) -> None:
        for number in self.signals.take():
            if number == signal.SIGHUP:
                logger.info("SIGHUP: loading the new code")
                self.autoreloader.try_code()
            elif number in (signal.SIGTERM, signal.SIGINT) and self.stop_by is None:
                self.stop(signal.Signals(number).name)
            elif number != signal.SIGCHLD:
                again = "second " if self.stop_by is not None else ""
                logger.warning("%s%s: releasing running tasks now", again, signal.Signals(number).name)
                self.exit_code, self.stop_by = 1, monotonic()

    def stop(self, why: str) -> None:
        """Stop claiming, and give running tasks their grace."""
        if self.stop_by is not None:
            return
        self.stop_by = monotonic() + self.options.grace
        self.pool.ask_to_stop()
        text = "%s: stopping · %d running, waiting up to %gs (again to hand them back now)"
        logger.info(text, why, self.pool.count_running(), self.options.grace)

    def reap_children(self) -> None:
        ended = ended_processes()
        statuses = {pid: each.status for pid, each in ended.items()}
        for process in (self.finished_signals, self.alerts):
            if process.pid in statuses:
                process.note_exit(statuses[process.pid])
        if self.autoreloader.passed_trial(statuses):
            self.restart("SIGHUP")
        for child, cause in self.pool.reap(ended):
            self.read_messages(child)
            if not child.channel.closed:
                self.selector.unregister(child.channel.socket)
            self.read_stats(child)
            child.close()
            self.orphans.add(child, cause)

    def shut_down(self) -> None:
        """Write what is left to the database before the end, within a few seconds."""
        deadline = monotonic() + (SHUTDOWN_SECONDS if self.exit_code == 0 else 1.0)
        while (self.orphans.is_urgent or not self.finished_signals.is_done) and monotonic() < deadline:
            for step in (self.recover_orphans, self.reap_children, self.finished_signals.tick):
                self.perform(step)
            sleep(0.01)
        self.stats.finish(DRAINED_SECONDS if self.stop_by is None else max(1.0, deadline - monotonic()))
        self.heartbeat.deregister()
        self.listener.close()
        if self.autoreloader.must_restart:
            self.autoreloader.restart(lambda: self.signals.asks_to_stop)

    def close_in_child(self) -> None:
        """Close what belongs to the supervisor, in a forked child."""
        self.selector.close()
        self.listener.close_in_child()
        self.signals.close()
        for sibling in self.pool.children:
            sibling.close()
