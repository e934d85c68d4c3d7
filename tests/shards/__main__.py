"""`python -m tests.shards`: a shard is frozen, killed, drained and added under load; prints what became of it."""

from __future__ import annotations

import argparse
import sys
from time import monotonic, sleep
from typing import Any

from tests.shards.field import Field, wait_for

LONGEST_ENQUEUE, LONGEST_RECOVERY, LONGEST_ANSWER = 1.0, 3.0, 2.5


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shards", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="that each fault lasts")
    parser.add_argument("--untimed", action="store_true", help="print times, but do not judge them")
    asked = parser.parse_args(arguments)
    field = Field()
    try:
        field.start()
        return run(field, asked.seconds, timed=not asked.untimed)
    finally:
        field.stop()


def run(field: Field, seconds: float, *, timed: bool) -> int:
    import django

    django.setup()
    from tests.shards.load import Load, unfinished, violations

    field.migrate()
    field.start_workers()
    load = Load()
    wait_for(lambda: load.acknowledged or load.acknowledged.add(warm_up()), 30)
    load.start()
    sleep(min(seconds, 5))
    rows = [
        trial("q1 frozen", field.frozen(1), load, seconds),
        trial("q1 killed", field.killed(1), load, seconds),
        move("q2 drained", field, load, "drain"),
        move("q2 added", field, load, "add"),
    ]
    load.stop()
    left = wait_for(lambda: unfinished() == 0, 90)
    field.stop_workers()
    wrong = violations(load) | {f"breaches in {name}": verify(field, name) for name in ("q0", "q1", "q2")}
    print_table(rows)
    counts = f"{len(load.acknowledged)} acknowledged, refused: {dict(load.refused)}"
    show(f"\n{counts}; all ended {left:.1f} s after the load.")
    for name, count in wrong.items():
        show(f"{count:>5}  {name}")
    late = [row for row in rows for key, most in MOST.items() if row.get(key, 0) > most]
    if timed and late:
        show("Too late:", ", ".join(row["what"] for row in late))
    is_wrong = any(wrong.values()) or any(row.get("code") for row in rows)
    if is_wrong:
        show(field.logs()[-4000:])
    return int(is_wrong or (timed and bool(late)))


MOST = {"longest enqueue": LONGEST_ENQUEUE, "recovery": LONGEST_RECOVERY, "answer of all": LONGEST_ANSWER}


def show(*texts: str) -> None:
    print(*texts, flush=True)  # noqa: T201


def warm_up() -> Any:
    from django_tasks_retry.models import Task
    from tests.shards.tasks import note

    return Task.objects.enqueue(note, [0]).pk


def trial(what: str, fault: Any, load: Any, seconds: float) -> dict[str, Any]:
    """Let a fault last so long; measure what callers and operators notice of it."""
    from django_tasks_retry.taskqueue.control import shard_standings
    from tests.shards.load import finished

    before = drained(("q0", "q2"), min(seconds, 5))
    load.longest, known = 0.0, len(load.acknowledged)
    with fault:
        sleep(0.5)
        began = monotonic()
        away = shard_standings("default")[1]
        answer = monotonic() - began
        during = drained(("q0", "q2"), seconds)
        accepted = len(load.acknowledged) - known
    done = finished_soon("q1")
    recovery = wait_for(lambda: finished("q1") > done, 30)
    return {
        "what": what, "acknowledged": accepted, "longest enqueue": load.longest, "answer of all": answer,
        "away": ",".join(away), "others' drain": during / before if before else 0.0, "recovery": recovery,
    }  # fmt: skip


def finished_soon(name: str) -> int:
    """The number of finished tasks, as soon as the server answers."""
    from tests.shards.load import finished

    found: list[int] = []
    wait_for(lambda: found.append(finished(name)) or found, 30)
    return found[0] if found else 0


def drained(names: tuple[str, ...], seconds: float) -> float:
    """Tasks a second that ended in these shards."""
    from tests.shards.load import finished

    before = sum(map(finished, names))
    began = monotonic()
    sleep(seconds)
    return (sum(map(finished, names)) - before) / (monotonic() - began)


def move(what: str, field: Field, load: Any, verb: str) -> dict[str, Any]:
    load.longest, known, began = 0.0, len(load.acknowledged), monotonic()
    process = field.command("tasks", "shards", verb, "q2", "--yes", "--wait", "60")
    code = process.wait(120)
    took = monotonic() - began
    sleep(1)
    return {
        "what": what, "acknowledged": len(load.acknowledged) - known, "longest enqueue": load.longest, "took": took,
        "code": code,
    }  # fmt: skip


def verify(field: Field, name: str) -> int:
    with (field.folder / "verify").open("ab") as log:
        process = field.command("tasks", "verify", "--all", "--shard", name, stdout=log, stderr=log)
    return process.wait(120)


def print_table(rows: list[dict[str, Any]]) -> None:
    columns = ["what", "acknowledged", "longest enqueue", "answer of all", "away", "others' drain", "recovery", "took"]
    show("  ".join(f"{name:>15}" for name in columns))
    for row in rows:
        cells = (row.get(name, "") for name in columns)
        show("  ".join(f"{cell:>15.2f}" if isinstance(cell, float) else f"{cell:>15}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
