"""Hosts as network namespaces on one bridge, whose cables can be cut and whose packets can vanish."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

NOBODY = "65534"
BRIDGE = "br0"
MEND_SECONDS = 5.0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def make_bridge() -> None:
    """Before any host. The folder of namespaces is the run's own, like all that it mounts."""
    subprocess.run(["mount", "-t", "tmpfs", "lab", "/run"], check=True)
    Path("/run/netns").mkdir()
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    ip("link", "set", "lo", "up")
    ip("addr", "add", "10.9.0.1/24", "dev", BRIDGE)


class Host:
    def __init__(self, name: str, number: int, folder: Path) -> None:
        self.name, self.address = name, f"10.9.0.{number}"
        self.folder = folder / name
        self.silences: list[tuple[float, float]] = []
        self.folder.mkdir()
        os.chown(self.folder, int(NOBODY), int(NOBODY))
        self.cable = f"cable-{name}"
        ip("netns", "add", name)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", self.cable, "master", BRIDGE, "up")
        ip("-n", name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")

    def start(self, command: list[str], environment: dict[str, str], log: str, cwd: Path | None = None) -> int:
        """A process on this host, of a user without rights; its id."""
        inside = ["ip", "netns", "exec", self.name, "setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
        return self.launch([*inside, *command], environment, log, cwd)

    def start_as_root(self, command: list[str], environment: dict[str, str], log: str, cwd: Path) -> int:
        return self.launch(["ip", "netns", "exec", self.name, *command], environment, log, cwd)

    def launch(self, command: list[str], environment: dict[str, str], log: str, cwd: Path | None) -> int:
        with (self.folder / f"{log}.log").open("ab") as output:
            return subprocess.Popen(
                command, env=environment, cwd=cwd or self.folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            ).pid

    def processes(self) -> list[int]:
        namespace = Path(f"/run/netns/{self.name}").stat().st_ino
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "ns/net").stat().st_ino == namespace:
                    found.append(int(entry.name))
        return found

    def lose_power(self) -> None:
        while alive := [pid for pid in self.processes() if not is_zombie(pid)]:
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all processes. The kernel goes on, and acknowledges what nobody reads."""
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)

    def know_silent(self, address: str) -> None:
        """Send packets for this address to nobody: they are neither refused nor found to be undeliverable."""
        ip("-n", self.name, "neigh", "add", address, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")

    def cut_cable(self) -> None:
        ip("link", "set", self.cable, "down")
        self.silences.append((time.monotonic(), float("inf")))

    def swallow_packets(self) -> None:
        """The link stays up, and nothing arrives."""
        subprocess.run(["bridge", "link", "set", "dev", self.cable, "state", "0"], check=True)

    def mend(self) -> None:
        """A link that comes up carries packets a moment later; only then does the bridge take it back."""
        self.silences[-1:] = [(began, time.monotonic()) for began, _ in self.silences[-1:]]
        ip("link", "set", self.cable, "up")
        forward = ["bridge", "link", "set", "dev", self.cable, "state", "3"]
        deadline = time.monotonic() + MEND_SECONDS
        while subprocess.run(forward, check=False, capture_output=True).returncode:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cable of {self.name} stays cut")
            time.sleep(0.05)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
