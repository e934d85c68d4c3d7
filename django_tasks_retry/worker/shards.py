"""A worker of a sharded backend: one supervisor for each shard, below a parent that starts, watches and stops them.

Each has its own process, so a shard that is frozen or gone costs its own tasks only. The parent opens no connection.
"""

import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from ..conf import is_sharded, named_in_settings, shards_by_name
from ..errors import InvalidOptions
from ..taskqueue import database
from .options import WorkerOptions
from .shared.interval import Interval
from .shared.signal_handling import SignalInbox, send_when_parent_ends

logger = logging.getLogger(__name__)
Run = Callable[[WorkerOptions], int]
TICK_SECONDS = 0.5
AGAIN_SECONDS, LONGEST_AGAIN = 0.5, 2.0
CALM_SECONDS = 30.0
FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}


def run_worker(asked: WorkerOptions, shards: Sequence[str], run: Run) -> int:
    """Run one supervisor in this process, or one for each of these shards below it. Return the exit code."""
    if not is_sharded(asked.backend):
        if shards:
            raise InvalidOptions(f"TASKS[{asked.backend!r}] has no OPTIONS['SHARDS'], so leave --shards out.")
        return run(asked)
    chosen = chosen_shards(asked.backend, shards)
    if len(chosen) == 1:
        return run(replace(asked, backend=chosen[0]))
    if asked.max_tasks is not None:
        raise InvalidOptions("--once and --max-tasks count the tasks of one shard: give it as --shards NAME.")
    return ShardedWorker([Supervised(each) for each in divided(asked, chosen)], run, asked.heartbeat_file).run()


def chosen_shards(backend: str, names: Sequence[str]) -> list[str]:
    known = shards_by_name(backend)
    if unknown := [name for name in names if name not in known]:
        raise InvalidOptions(f"--shards {','.join(unknown)}: OPTIONS['SHARDS'] has {', '.join(known)}.")
    if not names and backend != named_in_settings(backend):
        return [backend]
    return [known[name] for name in names or known]


def divided(asked: WorkerOptions, shards: Sequence[str]) -> list[WorkerOptions]:
    """Divide the processes among the shards, at least one for each."""
    each, more = divmod(asked.processes, len(shards))
    return [
        replace(
            asked,
            backend=shard,
            processes=max(1, each + (number < more)),
            heartbeat_file=asked.heartbeat_file and f"{asked.heartbeat_file}.{database(shard)}",
        )
        for number, shard in enumerate(shards)
    ]


@dataclass(slots=True)
class Supervised:
    """One supervisor: its process, and when it may be started again."""

    options: WorkerOptions
    pid: int = 0
    began: float = 0.0
    start_after: float = 0.0
    failures: int = 0
    exit_code: int | None = None

    def note_exit(self, status: int, *, is_last: bool) -> None:
        self.pid, code = 0, os.waitstatus_to_exitcode(status)
        if code == 0 or is_last:
            self.exit_code = code if code >= 0 else 128 - code
            return
        self.failures = 1 if monotonic() - self.began > CALM_SECONDS else self.failures + 1
        self.start_after = monotonic() + min(LONGEST_AGAIN, AGAIN_SECONDS * self.failures)
        using = database(self.options.backend)
        logger.error("the supervisor of the shard %s ended with code %d; it is started again", using, code)


class ShardedWorker:
    def __init__(self, supervised: list[Supervised], run: Run, heartbeat_file: str | None) -> None:
        self.supervised, self.run_one, self.heartbeat_file = supervised, run, heartbeat_file
        self.signals = SignalInbox()
        self.is_stopping = False
        self.touching = Interval(1.0)

    def run(self) -> int:
        self.signals.install_handlers()
        while any(each.exit_code is None for each in self.supervised):
            for each in self.supervised:
                if each.exit_code is None and not each.pid and each.start_after <= monotonic():
                    each.pid, each.began = os.fork(), monotonic()
                    if not each.pid:
                        self.become_supervisor(each.options)
                        return self.run_one(each.options)
            self.wait()
        return max(each.exit_code or 0 for each in self.supervised)

    def become_supervisor(self, asked: WorkerOptions) -> None:
        signal.set_wakeup_fd(-1)
        self.signals.close()
        for number in FORWARDED - {signal.SIGHUP}:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        send_when_parent_ends(signal.SIGTERM)
        # If it loads new code it starts itself again by this command line. Of two equal options the last one holds.
        sys.argv += ["--shards", database(asked.backend), "--processes", str(asked.processes)]
        if asked.heartbeat_file:
            sys.argv += ["--heartbeat-file", asked.heartbeat_file]

    def wait(self) -> None:
        select.select([self.signals.socket], [], [], TICK_SECONDS)
        self.signals.clear_socket()
        for number in self.signals.take():
            if number in FORWARDED:
                self.forward(number)
        for each in self.supervised:
            if each.pid:
                pid, status = os.waitpid(each.pid, os.WNOHANG)
                if pid:
                    each.note_exit(status, is_last=self.is_stopping or each.options.drain)
        if self.heartbeat_file and self.touching.is_due() and any(each.pid for each in self.supervised):
            with suppress(OSError):
                Path(self.heartbeat_file).touch()

    def forward(self, number: int) -> None:
        self.is_stopping |= number != signal.SIGHUP
        for each in self.supervised:
            if each.pid:
                os.kill(each.pid, number)
            elif self.is_stopping and each.exit_code is None:
                each.exit_code = 0
