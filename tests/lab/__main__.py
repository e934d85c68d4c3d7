"""python -m tests.lab"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.pg import die_with_parent

from . import __doc__ as about
from .cluster import Cluster, wait_until
from .faults import FAULTS
from .load import ROOT, Load
from .network import Host, make_bridge
from .programs import Missing, Programs, why_not
from .verdict import Books, balance, is_drained, outages

NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
CALM_SECONDS, AFTER_SECONDS, LONGEST_OUTAGE = 4.0, 4.0, 100.0
REACHES = ("haproxy", "multihost", "silent")
CANNOT_RUN = 77
"""The exit code of a lab that cannot run: automake's for a test that was skipped, which is no success."""
BOOKS = ("acknowledged", "lost", "finished_twice", "ran_twice", "ran_past_the_lease")


def arguments() -> argparse.Namespace:
    known = "\n".join(f"  {name:20} {fault.__doc__}" for name, fault in FAULTS.items())
    parser = argparse.ArgumentParser(
        "python -m tests.lab",
        description=about,
        epilog=f"faults:\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("faults", nargs="*", metavar="fault", help="some of those below, in this order (default: all)")
    parser.add_argument("--replication", choices=["sync", "async"], default="sync")
    cache = Path(tempfile.gettempdir()) / "django-tasks-retry-lab"
    parser.add_argument("--programs", type=Path, default=cache, help="where programs are kept, readable by all users")
    parser.add_argument("--rate", type=float, default=25.0, help="tasks a second and host (default: 25)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the run, with all logs")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.faults) - set(FAULTS):
        parser.error(f"unknown fault {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    return given


def enter_namespaces(given: argparse.Namespace) -> int:
    """The run itself is the first process of a namespace: when it ends, so does everything in it."""
    folder = Path(tempfile.mkdtemp(prefix="dtr-lab-"))
    folder.chmod(0o755)
    command = [*NAMESPACES, sys.executable, "-m", "tests.lab", *sys.argv[1:], "--inside", str(folder)]
    try:
        return subprocess.run(command, cwd=ROOT, check=False, preexec_fn=die_with_parent).returncode
    finally:
        if given.keep:
            say(f"logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def run(given: argparse.Namespace) -> int:
    programs = Programs(given.programs)
    make_bridge()
    hosts = [Host(f"db{number}", 10 + number, given.inside) for number in (1, 2, 3)]
    cluster = Cluster(hosts, programs, synchronous=given.replication == "sync")
    cluster.start()
    loads = [
        Load(reach, Host(f"app{number}", 20 + number, given.inside), cluster, programs, given.rate)
        for number, reach in enumerate(REACHES, 1)
    ]
    cluster.workers = [load.host for load in loads]
    cluster.restart_worker = loads[-1].restart_worker
    with cluster.connect("postgres") as connection:
        connection.execute("CREATE DATABASE lab")
    migrate = [sys.executable, "-m", "django", "migrate", "-v", "0"]
    direct = {**loads[1].environment, "PATH": os.environ["PATH"]}
    subprocess.run(migrate, env=direct, cwd=ROOT, check=True)
    for load in loads:
        load.start()
    wait_until(lambda: all(len(load.runs()) > 20 for load in loads), "tasks that run")
    say(f"{given.replication}hronous replication, {', '.join(REACHES)}")
    say(f"{'fault':20} {'reach':10} {'enqueue':>9} {'execution':>10} {'resumed':>9}")
    has_held = True
    try:
        for name in given.faults or FAULTS:
            has_held &= try_fault(name, cluster, loads)
    except TimeoutError as error:
        say(f"stopped: {error}")
        has_held = False
    return tell_books(close(cluster, loads)) or (0 if has_held else 1)


def try_fault(name: str, cluster: Cluster, loads: list[Load]) -> bool:
    """Tell what the fault cost. Return whether all went on."""
    time.sleep(CALM_SECONDS)
    first = time.monotonic()
    mend = FAULTS[name](cluster)
    waited = within(LONGEST_OUTAGE, lambda: all(has_gone_on(load, first) for load in loads))
    time.sleep(AFTER_SECONDS)
    last = time.monotonic()
    for outage in outages(loads, first, last):
        figures = f"{outage.enqueue:7.1f} s {outage.execution:8.1f} s {outage.resumed:7.1f} s"
        say(f"{name:20} {outage.reach:10} {figures}{'' if waited else '  (had not gone on)'}")
    mend()
    wait_until(cluster.is_whole, f"a whole cluster after {name}")
    return waited


def has_gone_on(load: Load, since: float) -> bool:
    """Enqueued and run again for a while, after a pause or without one."""
    now = time.monotonic()
    moments = [[line.at for line in lines] for lines in (load.acknowledged(), load.runs())]
    return now - since > 12 and all(sum(at > max(since, now - 3) for at in each) > 20 for each in moments)


def within(seconds: float, fact: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def close(cluster: Cluster, loads: list[Load]) -> Books:
    for load in loads:
        load.stop_enqueuing()

    def drained() -> bool:
        with suppress(psycopg.Error):
            return is_drained(cluster)
        return False

    wait_until(drained, "the end of all tasks", 60)
    return balance(cluster, loads)


def tell_books(books: Books) -> int:
    say(", ".join(f"{getattr(books, name)} {name.replace('_', ' ')}" for name in BOOKS))
    say(json.dumps({name: getattr(books, name) for name in BOOKS}))
    is_empty = not books.acknowledged  # nothing was tried
    return 1 if is_empty or books.lost or books.finished_twice or books.ran_past_the_lease else 0


def first_process(act: Callable[[], int]) -> int:
    """Run as the first process of the namespace, and reap processes that lost their parents, as init does."""
    child = os.fork()
    if child == 0:
        return act()
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main() -> int:
    given = arguments()
    if given.inside:
        return first_process(lambda: run(given))
    if reason := why_not():
        say(f"failed: no failover lab here; {reason}")
        return CANNOT_RUN
    try:
        Programs(given.programs).fetch()
    except Missing as error:
        say(f"failed: no failover lab here; its programs cannot be had: {error}")
        return CANNOT_RUN
    return enter_namespaces(given)


if __name__ == "__main__":
    sys.exit(main())
