"""`python -m tests.soak --tasks N --seed S`: tasks under fire, and what became of them. Fails on any violation."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.soak.checker import check
from tests.soak.fire import Plan, soak
from tests.soak.recovery import slow_recovery
from tests.soak.report import report, timeline


def plan_of(arguments: list[str]) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--workflows", type=int, default=20, help="of two levels and 25 members each")
    parser.add_argument("--laned", type=int, default=500, help="tasks of lanes; they take long, for most are limited")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--lease", type=float, default=1.0, help="seconds")
    parser.add_argument("--supervisors", type=int, default=2)
    parser.add_argument("--children", type=int, default=4)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3600.0, help="the fire lasts no longer")
    parser.add_argument("--pace", type=float, default=1.0, help="faults come that many times less often")
    parser.add_argument(
        "--untimed", action="store_true", help="tell how soon work was picked up and given back, but do not judge it"
    )
    parser.add_argument("--partitioned", action="store_true", help="with history in partitions, by the hour")
    folder = Path(tempfile.mkdtemp(prefix="dtr-soak-"))
    folder.chmod(0o755)
    return Plan(**vars(parser.parse_args(arguments)), folder=folder)


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = plan_of(arguments)
    outcome = soak(plan)
    violations = check(outcome.history)
    outcome.complaints += [] if plan.untimed else slow_recovery(outcome)
    for line in report(plan, outcome, violations):
        say(line)
    for violation in violations[:20]:
        say(f"{violation.rule} {violation.task} {violation.text}")
    if violations:
        say(f"the first one, seed {plan.seed}:")
        for line in timeline(outcome, violations[0].task):
            say(line)
    if violations or outcome.complaints:
        say(f"kept for a look: {plan.folder}")
        return 1
    shutil.rmtree(plan.folder)
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
