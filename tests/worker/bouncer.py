"""PgBouncer in transaction mode in front of a server, with few connections to share."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.pg import NOBODY, die_with_parent, free_port

CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,options
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program() -> str | None:
    """The path of the program; PGBOUNCER may name another place."""
    return os.environ.get("PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


class Bouncer:
    """Runs until closed, as somebody who is not root."""

    def __init__(self, server_port: int) -> None:
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="dtr-bouncer-")), free_port()
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(CONFIGURATION.format(server_port=server_port, port=self.port, folder=self.folder))
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        if identity:
            os.chown(self.folder, NOBODY, NOBODY)
        self.process = subprocess.Popen(
            [str(program()), "-q", str(ini)], cwd=self.folder, preexec_fn=die_with_parent, **identity
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError("PgBouncer did not start") from None
                time.sleep(0.02)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
