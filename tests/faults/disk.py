"""`unshare -m python -m tests.faults.disk <megabytes>`: a server on a disk of its own that can be filled and freed.

Says its port; then obeys, line by line: fill, free, exit. The disk is seen by this process and its server alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.pg import PgCluster, version

SPARE = 2 * 1024 * 1024


class FullDisk:
    def __init__(self, megabytes: int, folder: Path) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)], check=True)
        tempfile.tempdir = str(folder)
        self.ballast = folder / "ballast"
        self.cluster = PgCluster(version(), {"min_wal_size": "32MB", "max_wal_size": "32MB"})
        self.cluster.initdb()
        self.cluster.start()

    def fill(self) -> None:
        with self.ballast.open("ab", buffering=0) as ballast, suppress(OSError):
            while ballast.write(b"\0" * SPARE):
                continue

    def free(self) -> None:
        """Somebody made room, and started the server again where it had given up."""
        self.ballast.unlink()
        if self.cluster.process and self.cluster.process.poll() is not None:
            (self.cluster.data / "postmaster.pid").unlink(missing_ok=True)
            self.cluster.start()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dtr-disk-") as folder:
        disk = FullDisk(int(sys.argv[1]), Path(folder))
        say(str(disk.cluster.port))
        for command in sys.stdin:
            {"fill": disk.fill, "free": disk.free}[command.strip()]()
            say("done")
        disk.cluster.remove()
        subprocess.run(["umount", "-l", folder], check=True)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
