"""The life of a child's process around its loop: what it inherits by the fork, and how it ends."""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from django.db.backends.signals import connection_created

from ...signals import child_ending, child_started
from ...taskqueue.producer import wakeup
from ..logs import log_exception
from ..shared.lifecycle import announce
from .connections import let_go_of_sessions, note_session

logger = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1
ENDING_SECONDS = 5.0
GARBAGE_THRESHOLD = 10_000
SUPERVISORS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_child(run: Callable[[], None], worker_id: str, backend: str, supervisor_pid: int) -> None:
    """Never returns, and leaves no thread of a task a chance to hold up the end."""
    code = 1
    try:
        reset_signals()
        end_with_supervisor(supervisor_pid)
        look_after_forks()
        collect_less_garbage()
        atexit._clear()  # hooks of the supervisor's process: they are its own to run
        announce(child_started, worker_id, backend)
        run()
        code = 0
        end_in_good_order(worker_id, backend)
    except BaseException:
        log_exception(logger, "child %s failed; it will be replaced", worker_id)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # closed, or never open
                stream.flush()
        os._exit(code)


def reset_signals() -> None:
    """The supervisor decides; a Ctrl-C in the terminal reaches it, not us."""
    signal.set_wakeup_fd(-1)
    for number in SUPERVISORS_SIGNALS:
        # Not SIG_IGN, which a program that a task starts would inherit.
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def end_with_supervisor(supervisor_pid: int) -> None:
    """On Linux the kernel ends us with our supervisor, even while a task holds the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor_pid:
        os._exit(1)


def look_after_forks() -> None:
    """A process that a task forks, as multiprocessing does, is an ordinary one."""
    connection_created.connect(note_session, dispatch_uid="django_tasks_retry.child")
    # Blocked meanwhile: a signal that reaches the new process before its handlers are reset would be lost on ours.
    os.register_at_fork(before=block_signals, after_in_parent=unblock_signals, after_in_child=become_ordinary)


def collect_less_garbage() -> None:
    """What the fork brought along is never looked through again, and short tasks end before they are looked at."""
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
    """What a process does before it ends; but no longer than a few seconds."""
    ending = threading.Thread(
        target=run_exit_hooks, args=(worker_id, backend), daemon=True, name="django_tasks_retry.ending"
    )
    ending.start()
    ending.join(timeout=ENDING_SECONDS)
    if ending.is_alive():
        logger.warning("child %s: its exit hooks took longer than %g s and were left behind", worker_id, ENDING_SECONDS)


def run_exit_hooks(worker_id: str, backend: str) -> None:
    announce_end = partial(announce, child_ending, worker_id, backend)
    for hook in (send_wakeups, announce_end, flush_telemetry, end_processes, run_atexit):
        try:
            hook()
        except BaseException:
            log_exception(logger, "child %s: an exit hook failed", worker_id)


def send_wakeups() -> None:
    """For what the child's tasks enqueued at last."""
    wakeup.send_all()


def flush_telemetry() -> None:
    """Sentry and OpenTelemetry send from threads that end with us; both are asked only where the project uses them."""
    sentry: Any = sys.modules.get("sentry_sdk")
    if sentry is not None:
        sentry.flush(timeout=2.0)
    trace: Any = sys.modules.get("opentelemetry.trace")
    flush = getattr(trace and trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(2000)


def end_processes() -> None:
    """Daemonic processes of multiprocessing end with the process that started them."""
    for process in multiprocessing.active_children():
        if process.daemon:
            process.terminate()


def run_atexit() -> None:
    """Hooks that were registered in this process."""
    atexit._run_exitfuncs()
