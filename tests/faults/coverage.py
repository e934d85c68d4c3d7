"""The faults, and `python -m tests.faults.coverage`: which tests show what becomes of each.

A test's name carries the number of the fault that it shows (marker.py). test_coverage.py says that none is forgotten.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.faults.marker import faults_of

ROOT = Path(__file__).parents[2]

FAULTS = {
    "F01": "worker killed",
    "F02": "out of memory",
    "F03": "frozen past the lease",
    "F04": "interpreter held",
    "F05": "exits and interrupts raised",
    "F06": "hard exits",
    "F07": "errors that cannot be told",
    "F08": "endless task",
    "F09": "leaks",
    "F10": "output closed or full",
    "F11": "asked to stop",
    "F12": "told to stop at once",
    "F13": "hang-up",
    "F14": "fork with an open connection",
    "F15": "worker id used again",
    "F16": "event loop blocked",
    "F17": "poison",
    "F20": "clock skew",
    "F21": "the server's clock jumps",
    "F22": "drift",
    "F23": "two schedulers",
    "F24": "schedules in daylight saving",
    "F25": "thundering herd",
    "F30": "request cut",
    "F31": "reply cut",
    "F32": "ghost claim",
    "F33": "server restarts",
    "F34": "failover",
    "F35": "read-only node",
    "F36": "error codes",
    "F37": "black hole",
    "F38": "row locked by the vanished",
    "F39": "session state left by tasks",
    "F40": "pinned horizon",
    "F41": "stale statistics",
    "F42": "wake-ups lost",
    "F43": "PgBouncer",
    "F44": "no connection left",
    "F45": "statement timeout",
    "F46": "disk full",
    "F47": "ids out of order",
    "F48": "rolled back enqueue",
    "F49": "deadlock between batches",
    "F50": "row deleted",
    "F51": "tables changed under load",
    "F52": "SQLite locked",
    "F60": "NUL, surrogates, NaN",
    "F61": "data changed by jsonb",
    "F62": "nested too deep",
    "F63": "too large",
    "F64": "function missing",
    "F65": "arguments that do not fit",
    "F66": "odd exceptions",
    "F96": "row that cannot be read",
    "F97": "backoff of an unknown form",
    "F98": "supervisor meets an unreadable row",
    "F99": "operator meets an unreadable row",
    "F100": "result without end",
    "F101": "values with code of their own",
    "F102": "retry signals half made",
    "F103": "report about a locked row",
    "F104": "renewal of a locked row",
    "F105": "operator meets a locked row",
    "F106": "key locked by a reference",
    "F107": "backlog of other kinds",
    "F67": "the clocks go back",
    "F68": "the clocks go forward",
    "F69": "a database in another time zone",
    "F70": "a result without its end",
    "F71": "a stray result beside a batch",
    "F72": "an event without its move",
    "F73": "a history that is rewritten",
    "F74": "operators of a session's own",
    "F75": "dump and restore",
    "F76": "a clock that is gone or shifted",
    "F77": "deleted, replaced, truncated",
    "F78": "fixtures",
    "F79": "rows that nobody could read",
    "F80": "enqueued while the process ends",
    "F81": "no thread to be had",
    "F82": "transactions managed by hand",
    "F83": "tasks of two databases at once",
    "F84": "a pool of one connection",
    "F85": "a hook that fails after the commit",
    "F86": "two backends, two retentions",
    "F87": "decorators that change arguments",
    "F88": "a host's clock far ahead",
    "F89": "a heartbeat from the future",
    "F90": "a tasks module that cannot be imported",
    "F91": "mistyped and foreign names",
    "F92": "telemetry of the last moments",
    "F93": "state kept by a connection's wrapper",
    "F94": "threads started before the fork",
    "F95": "a series retried twice",
    "F120": "code of a task where others are served",
    "F121": "signals and sockets in forked processes",
    "F122": "sessions used behind Django's back",
    "F123": "what a child must flush",
    "F124": "event loop ended, or cancelled through",
    "F125": "cancelled before the start",
    "F126": "a log that nobody reads",
    "F127": "main thread hangs",
    "F128": "claims ahead of long tasks",
    "F129": "a first host that swallows packets",
    "F150": "console asked for what may not be seen",
    "F151": "reasons that quote secrets",
    "F152": "console made to work",
    "F153": "console fed with nonsense",
    "F154": "backend gone from the settings",
    "F155": "secrets in texts",
    "F156": "rows that cannot be read, in the console",
    "F157": "names in commands to paste",
    "F158": "failures that are only a hash and a number",
    "F159": "retries that all become due at once",
    "F160": "failures said to come",
    "F161": "run now, in a paused queue",
    "F162": "failures grouped past the word that matters",
    "F163": "unknown functions behind unknown functions",
    "F164": "all workers gone",
    "F165": "threads full, coroutines not",
    "F166": "numbers that disagree",
    "F167": "history asked for where Django has none",
    "F180": "no task known",
    "F181": "a task that workers will not find",
    "F182": "no backend in the settings",
    "F183": "not migrated",
    "F185": "log lines twice, and mails by the thousand",
    "F184": "arguments that do not fit, enqueued",
    "F225": "middleware that fails",
    "F226": "middleware that hangs",
    "F227": "counters across prune, restart and a write that fails halfway",
    "F228": "metrics asked for without the right",
    "F232": "logs of an attempt that quote secrets",
    "F231": "logs of an attempt without end, or that cannot be stored",
    "F230": "a failure reported twice",
    "F229": "a queue that nobody serves, a schema that is not whole",
    "F250": "someone searches in arguments for what they may not see",
    "F251": "what is searched for in arguments lies further back than was looked",
    "F252": "somebody changes something and nobody can tell who and why",
    "F253": "tasks are enqueued while a selection of many is being changed",
    "F254": "a task in the foreground outlasts its lease",
    "F255": "somebody with all rights over the database doctored the history",
    "F256": "someone learns arguments from what failures have in common",
    "F200": "many workers tick one slot",
    "F201": "the tick is cut, crashed or killed at any statement",
    "F202": "ten thousand schedules due at once",
    "F203": "a schedule's row that makes no sense",
    "F204": "a schedule comes and goes with a rolling deploy",
    "F205": "no worker for many slots",
    "F206": "a worker's clock is wrong when a slot is due",
    "F260": "many claimers want the last places of a lane",
    "F261": "many claimers want the last starts of a window",
    "F262": "a lease of a limited lane expires and nobody has taken it back",
    "F263": "a lane is paused while a claimer remembers it as open",
    "F290": "a task is claimed in the moment in which it expires",
    "F291": "a million tasks have expired at once",
    "F292": "many calls settle one unique key at once",
    "F293": "a call that settles a unique key, or a sweep of what expired, is cut at any statement",
    "F294": "a task kills every process that runs it, also one of its own",
    "F295": "a task runs beside others that kill their process",
    "F296": "tasks that must run alone cannot be claimed, or nobody here knows them",
    "F320": "a workflow is cut or killed at any statement of step, gather, wake and signal",
    "F321": "a worker without its lease wants to remember something",
    "F322": "a worker dies between the end of the last member and the wake",
    "F323": "the last two members of a batch end at one instant",
    "F324": "a signal comes at the instant a task begins to wait",
    "F325": "graphs of tasks of any shape",
    "F326": "a process that cancels a workflow is killed at any of its statements",
    "F350": "a lone task wakes a whole fleet",
    "F351": "those who were woken have no room",
    "F352": "every worker prunes the same tasks",
    "F353": "a queue for each of many tenants",
    "F354": "a task that was given back loses its place in line",
    "F355": "no partition was made for the present period",
    "F356": "a change to partitions is interrupted",
    "F357": "tasks are enqueued and done while their history becomes partitioned",
    "F358": "somebody reads history while a period is to be dropped",
    "F359": "history that is to be dropped cannot be exported",
    "F360": "a trigger is off on one partition",
    "F361": "a period is over and somebody still needs a task of it",
    "F362": "a report comes after its task has moved to history",
}
DOES_NOT_APPLY: dict[str, str] = {}
ON_POSTGRESQL_ALONE = {
    "F350": "SQLite has no wake-ups",
    "F14": "a file has no connections",
    "F20": "SQLite's clock is the host's, for all workers the same",
    "F21": "SQLite has no server",
    **dict.fromkeys(["F30", "F31", "F32", "F33", "F34", "F35", "F37", "F42", "F43", "F44"], "SQLite has no server"),
    "F84": "pools are PostgreSQL's",
    "F36": "codes of PostgreSQL; SQLite's one trouble is F52",
    "F38": "SQLite locks the file, not the row: F52",
    "F40": "SQLite has no vacuum horizon",
    "F41": "SQLite's planner is told by hand: tests/plans/test_sqlite.py",
    "F45": "SQLite has no statement timeout",
    "F46": "shown where the server goes down with its disk",
    "F49": "SQLite lets one writer in at a time",
    "F51": "SQLite remakes tables under a lock on the file",
    **dict.fromkeys(["F103", "F104", "F105", "F106"], "SQLite locks the file, not the row: F52"),
    "F74": "SQLite has no search_path",
    "F75": "SQLite is restored by a copy of the file",
    "F122": "a session on SQLite is closed after each use",
    "F129": "SQLite has no server",
    **dict.fromkeys([f"F{number}" for number in range(355, 363)], "SQLite has no partitions"),
    "F206": "on SQLite the host's clock is the queue's",
}


def shown() -> dict[str, list[str]]:
    """The tests of each fault, as pytest names them."""
    return by_fault(collected())


def collected() -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "fault", "-p", "no:cacheprovider"]
    # A folder of its own: a run removes the one it is told of.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_SQLITE"))}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def by_fault(named: Iterable[str]) -> dict[str, list[str]]:
    tests = defaultdict(list)
    for test in named:
        for fault in faults_of(test.partition("::")[2]):
            tests[fault].append(test)
    return dict(tests)


def main() -> None:
    tests = shown()
    for fault, words in FAULTS.items():
        sys.stdout.write(f"{fault} {words}\n" + "".join(f"    {test}\n" for test in tests[fault]))
    sys.stdout.writelines(f"{fault} does not apply: {reason}\n" for fault, reason in DOES_NOT_APPLY.items())


if __name__ == "__main__":
    main()
