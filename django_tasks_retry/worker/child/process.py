"""The life of a child's process around its loop: what it inherits by the fork, and how it ends."""

import atexit
import gc
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from django.db.backends.signals import connection_created

from ...middleware import hooks
from ...taskqueue.enqueue import send_notifications
from ..logs import log_exception
from ..shared.signal_handling import send_when_parent_ends
from .connections import let_go_of_sessions, note_session

logger = logging.getLogger(__name__)
EXIT_FENCED, EXIT_BROKEN, EXIT_CRIPPLED = 70, 71, 72
"""Exit codes of a child that ends by itself: leases not renewed; an error of its own; damaged by a task."""
OF_NEIGHBOUR = "a neighbour may have caused it"
ENDING_SECONDS = 5.0
TELEMETRY_SECONDS = 10.0
"""Twenty answers of a collector that takes half a second: the SDK of Sentry sends one event after the other."""
PROVIDERS = {
    "opentelemetry.trace": "get_tracer_provider",
    "opentelemetry.metrics": "get_meter_provider",
    "opentelemetry._logs": "get_logger_provider",
}
leave = os._exit  # ends the process at once, whatever waits to be sent
is_leaving = threading.Event()  # a task called `os._exit()`: nothing more is claimed
GARBAGE_THRESHOLD = 10_000
SWITCH_SECONDS = 0.001
"""Longest wait of a thread that wakes up. With Python's 5 ms, slots stood idle while the main thread computed."""
STATM = Path("/proc/self/statm")
OOM_SCORE = Path("/proc/self/oom_score_adj")
OOM_SCORE_OF_CHILD, HIGHEST_OOM_SCORE = 300, 1000
SUPERVISORS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_child(run: Callable[[], None], worker_id: str, backend: str, supervisor_pid: int) -> None:
    """Run a child, and end the process: no thread of a task can hold up the end."""
    code = EXIT_BROKEN
    try:
        reset_signals()
        end_with_supervisor(supervisor_pid)
        be_killed_before_supervisor()
        look_after_forks()
        send_before_exit()
        collect_less_garbage()
        sys.setswitchinterval(min(SWITCH_SECONDS, sys.getswitchinterval()))
        atexit._clear()  # hooks of the supervisor's process: they are its own to run
        run_hooks("child_started", worker_id, backend)
        run()
        code = 0
        end_in_good_order(worker_id, backend)
    except BaseException:
        log_exception(logger, "child %s failed; it will be replaced", worker_id)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # closed, or never open
                stream.flush()
        leave(code)


def reset_signals() -> None:
    """Ignore signals that are for the supervisor, as a Ctrl-C in the terminal is."""
    signal.set_wakeup_fd(-1)
    for number in SUPERVISORS_SIGNALS:
        # Not SIG_IGN, which a program that a task starts would inherit.
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def end_with_supervisor(supervisor_pid: int) -> None:
    """Let the kernel end the child with its supervisor, on Linux, even while a task holds the interpreter."""
    send_when_parent_ends(signal.SIGKILL)
    if os.getppid() != supervisor_pid:
        leave(1)


def be_killed_before_supervisor() -> None:
    """Let the kernel choose a child when memory runs out: the supervisor must live to record the crash."""
    with suppress(OSError, ValueError):
        score = int(OOM_SCORE.read_text(encoding="utf-8")) + OOM_SCORE_OF_CHILD
        OOM_SCORE.write_text(str(min(score, HIGHEST_OOM_SCORE)), encoding="utf-8")


def look_after_forks() -> None:
    """Make an ordinary process of what a task forks, as multiprocessing does."""
    connection_created.connect(note_session, dispatch_uid="django_tasks_retry.child")
    # Blocked meanwhile: a signal that reaches the new process before its handlers are reset would be lost on ours.
    os.register_at_fork(before=block_signals, after_in_parent=unblock_signals, after_in_child=become_ordinary)


def collect_less_garbage() -> None:
    """Collect less often, and never what the fork brought along: short tasks end before a collection."""
    gc.freeze()
    if 0 < gc.get_threshold()[0] < GARBAGE_THRESHOLD:
        gc.set_threshold(GARBAGE_THRESHOLD)


def block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SUPERVISORS_SIGNALS)


def unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SUPERVISORS_SIGNALS)


def become_ordinary() -> None:
    try:
        let_go_of_sessions()
    finally:
        for number in SUPERVISORS_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        unblock_signals()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # last: what it raises in here would be dropped


def end_in_good_order(worker_id: str, backend: str) -> None:
    """Run exit hooks and send telemetry, for a few seconds at most each."""
    hooks_of_end = partial(run_hooks, "child_ending", worker_id, backend)
    run_in_time("exit hooks", ENDING_SECONDS, partial(run_all, (send_wakeups, hooks_of_end)))
    run_in_time("telemetry", TELEMETRY_SECONDS, flush_sentry, flush_opentelemetry)
    run_in_time("exit hooks", ENDING_SECONDS, partial(run_all, (end_processes, run_atexit)))


def run_in_time(what: str, seconds: float, *steps: Callable[[], None]) -> None:
    """Run these at once, in threads of their own, and leave behind those that take longer."""
    threads = [
        threading.Thread(target=run_all, args=((step,),), daemon=True, name="django_tasks_retry.ending")
        for step in steps
    ]
    deadline = monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=max(0.0, deadline - monotonic()))
    if any(thread.is_alive() for thread in threads):
        logger.warning("process %d: its %s took longer than %g s and were left behind", os.getpid(), what, seconds)


def run_all(steps: Iterable[Callable[[], None]]) -> None:
    for step in steps:
        try:
            step()
        except BaseException:
            log_exception(logger, "an exit hook failed")


def run_hooks(name: str, worker_id: str, backend: str) -> None:
    """Call this method of every middleware. An error of one is logged, and the others are called all the same."""
    for hook in hooks(backend, name):
        try:
            hook(worker_id)
        except BaseException:
            log_exception(logger, "middleware %s failed", hook.__qualname__)


def send_wakeups() -> None:
    """Send wake-ups for what the child's tasks enqueued at last."""
    send_notifications()


def flush_sentry() -> None:
    """Send what waits in a thread that ends with the process, if the project uses Sentry."""
    sentry: Any = sys.modules.get("sentry_sdk")
    if sentry is not None:
        sentry.flush(timeout=TELEMETRY_SECONDS)


def flush_opentelemetry() -> None:
    """Send spans, log records and metrics, if the project uses OpenTelemetry and its SDK."""
    for name, provider in PROVIDERS.items():
        module: Any = sys.modules.get(name)
        flush = getattr(module and getattr(module, provider)(), "force_flush", None)
        if flush is not None:
            flush(TELEMETRY_SECONDS * 1000)


def send_before_exit() -> None:
    """Send what neighbours have reported before a task ends this process by `os._exit()`."""
    pid = os.getpid()

    def exit_after_sending(status: int) -> NoReturn:
        try:
            if os.getpid() == pid:  # not of a process that the task forked
                is_leaving.set()
                run_in_time("telemetry", TELEMETRY_SECONDS, flush_sentry, flush_opentelemetry)
        finally:
            leave(status)

    os._exit = exit_after_sending


def end_processes() -> None:
    """Terminate daemonic processes of multiprocessing, which end with the process that started them."""
    for process in multiprocessing.active_children():
        if process.daemon:
            process.terminate()


def run_atexit() -> None:
    """Run hooks that were registered in this process."""
    atexit._run_exitfuncs()


def exit_broken() -> None:
    """End the process after an error beside a function, as for want of memory: its tasks are queued again."""
    log_exception(logger, "a thread of this child failed; its process will be replaced")
    leave(EXIT_BROKEN)


class Damage:
    """Finds what makes neighbours in this process fail: a task lowered limits, or took the channel's descriptor."""

    WATCHED = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_DATA)

    def __init__(self, channel: int) -> None:
        self.limits = {number: resource.getrlimit(number) for number in self.WATCHED}
        self.channel, self.socket = channel, os.fstat(channel)

    def is_there(self) -> bool:
        return bool(self.lowered()) or not self.has_channel()

    def lowered(self) -> list[int]:
        return [number for number, before in self.limits.items() if is_lower(resource.getrlimit(number), before)]

    def has_channel(self) -> bool:
        with suppress(OSError):
            return os.path.samestat(os.fstat(self.channel), self.socket)
        return False

    def repair(self) -> bool:
        """Raise the limits again. Return False if only a new process can have back what is missing."""
        if not self.has_channel():
            return False
        try:
            for number in self.lowered():
                resource.setrlimit(number, self.limits[number])
        except Exception:  # the system refuses, or a task has replaced the function
            return False
        logger.warning("a task lowered the resource limits of its process; they are restored")
        return True


def is_lower(now: tuple[int, int], before: tuple[int, int]) -> bool:
    """Compare soft limits; infinity is -1."""
    return now[0] != before[0] and now[0] != resource.RLIM_INFINITY and not 0 <= before[0] < now[0]


def rss_bytes() -> int:
    """Return the resident set of this process; if the system does not tell, the largest there ever was."""
    try:
        return int(STATM.read_text(encoding="utf-8").split()[1]) * resource.getpagesize()
    except (OSError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
