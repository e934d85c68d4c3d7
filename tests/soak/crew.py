"""The workers of the soak, and the network and the database between them. All of it ends with this process."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tests import pg
from tests.soak.database import children_of

ROOT = Path(__file__).parents[2]
SKEWS = (-3600, 3600, 0)
PIPE_BYTES = 4096
STEP = struct.Struct("@l")
die_with_parent = partial(pg.die_with_parent, signal.SIGKILL)


def skewing_library(folder: Path) -> Path | None:
    """Moves the wall clock of the process that loads it. Return None if there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library, source = folder / "skew.so", ROOT / "tests" / "faults" / "skew.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@dataclass(slots=True)
class Supervisor:
    """One `runworker` and what it writes. Started again after each kill, with its clock wrong in another way."""

    name: str
    folder: Path
    arguments: tuple[str, ...]
    variables: dict[str, str]
    number: int = 0
    shim: Path | None = None
    is_spared: bool = False
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        command = [sys.executable, "-m", "django", "runworker", "--name", self.name, *self.arguments]
        with self.open_log() as log:
            self.process = subprocess.Popen(
                command,
                env=os.environ | self.variables | self.clock(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def open_log(self) -> BinaryIO:
        return self.output.open("wb")

    def clock(self) -> dict[str, str]:
        """An hour behind, an hour ahead, or right."""
        if not self.shim:
            return {}
        self.step_clock(0)
        seconds = SKEWS[(self.number + self.starts - 1) % len(SKEWS)]
        return {"LD_PRELOAD": str(self.shim), "SKEW_SECONDS": str(seconds), "SKEW_FILE": str(self.steps)}

    @property
    def steps(self) -> Path:
        return self.folder / f"{self.name}.steps"

    def step_clock(self, seconds: int) -> None:
        """Let the clock of this host jump to so many seconds beside where it began, for all its processes."""
        with self.steps.open("r+b" if self.steps.exists() else "wb") as file:  # in place: it is mapped
            file.write(STEP.pack(seconds))

    @property
    def output(self) -> Path:
        return self.folder / f"{self.name}.{self.starts}.log"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def children(self) -> list[int]:
        return children_of(self.pid)

    def kill(self) -> None:
        """The supervisor alone: its children are to notice by themselves."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.process is not None
        self.process.wait(10)

    def signal_all(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, seconds: float) -> int | None:
        """The exit code after SIGTERM; None if it did not end in time."""
        assert self.process is not None
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def end(self) -> None:
        self.signal_all(signal.SIGKILL)
        if self.process:
            self.process.wait(10)


@dataclass(slots=True)
class PipedSupervisor(Supervisor):
    """Writes its log into a small pipe, which is read while `is_read` is set."""

    is_read: threading.Event = field(default_factory=threading.Event)

    def open_log(self) -> BinaryIO:
        self.is_read.set()
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        threading.Thread(target=self.copy, args=(reading, self.output), daemon=True).start()
        return os.fdopen(writing, "wb")

    def copy(self, reading: int, output: Path) -> None:
        with output.open("wb") as log, os.fdopen(reading, "rb", buffering=0) as pipe:
            while self.is_read.wait() and (data := pipe.read(PIPE_BYTES)):
                log.write(data)
                log.flush()


@dataclass(slots=True)
class Network:
    """The proxy between workers and database, in a process of its own."""

    server_port: int
    process: subprocess.Popen[str] = field(init=False)
    port: int = 0

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", "tests.soak.proxy", str(self.server_port)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=die_with_parent
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate(timeout=10)
