"""The checker can fail: every rule, shown by a history that was doctored in one place."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.soak.bounds import MOST_RELEASES
from tests.soak.checker import check
from tests.soak.history import Event, History, Row
from tests.soak.journal import Line
from tests.soak.recovery import too_slow
from tests.soak.renewals import Sighting
from tests.soak.stalls import Stalls
from tests.soak.vitals import Sample, grown, left_open, unexplained

TASK, OTHER = UUID(int=1), UUID(int=2)
ONE, TWO = "one-1-a/1", "two-2-b/1"


def good() -> History:
    """Killed once, failed once, then done; by a worker whose supervisor speaks for it."""
    events = [
        Event(100.0, "running", 1, ONE, {}),
        Event(101.0, "lease_lost", 1, "one-1-a", {"cause": "killed"}),
        Event(102.0, "running", 2, TWO, {}),
        Event(103.0, "failed", 2, TWO, {"terminal": False, "error": {"code": "EXCEPTION"}}),
        Event(103.0, "requeued", 2, TWO, {"eta": "1970-01-01T00:01:44+00:00"}),
        Event(105.0, "running", 3, ONE, {}),
        Event(106.0, "completed", 3, ONE, {}),
    ]
    lines = [
        Line(0.1, "start", 1, ONE, 7),
        Line(2.1, "start", 2, TWO, 8),
        Line(5.1, "start", 3, ONE, 7),
        Line(5.9, "end", 3, ONE, 7),
    ]
    row = Row(number=5, status="SUCCESS", attempts=3, refunds=0, outcome="SUCCESS")
    return History(2.0, {TASK: 5}, set(), {TASK: row}, {TASK: events}, {TASK: lines}, wall=100.0, canaries={TASK: 99.5})


def test_a_good_history_passes():
    assert check(good()) == []


def test_a_batch_whose_acknowledgement_was_lost_may_be_there():
    history = good()
    assert check(replace(history, acknowledged={}, unsure={5})) == []


def test_a_claim_that_a_frozen_server_ran_after_the_end_of_the_one_before_is_no_breach():
    """It is dated by its arrival, however long the server stood still."""
    history = good()
    event(history, 2, at=90.0)
    assert check(history) == []


def row(history: History, **changes) -> None:
    history.rows[TASK] = replace(history.rows[TASK], **changes)


def event(history: History, n: int, **changes) -> None:
    history.events[TASK][n] = replace(history.events[TASK][n], **changes)


def line(history: History, n: int, **changes) -> None:
    history.lines[TASK][n] = replace(history.lines[TASK][n], **changes)


def hostile_row(history: History, status: str = "FAILED", code: str | None = "UNREADABLE") -> None:
    """A row that cannot be read, claimed once and failed without a start."""
    error = {"terminal": True, "error": {"code": code}}
    last = Event(102.0, "failed", 1, ONE, error) if status == "FAILED" else Event(102.0, "completed", 1, ONE, {})
    history.hostile[OTHER] = "arguments nested 5000 deep"
    history.acknowledged[OTHER] = 6
    history.rows[OTHER] = Row(6, status, 1, 0, status, name="work", code=code)
    history.events[OTHER] = [Event(101.0, "running", 1, ONE, {}), last]
    if status == "SUCCESS":
        history.lines[OTHER] = [Line(1.1, "start", 1, ONE, 7), Line(1.2, "end", 1, ONE, 7)]


def sighting(history: History, renewed: float, timeout: float = 20.0) -> None:
    """Of the last attempt, which was claimed at 105.0, started at 105.1 and ended at 105.9."""
    history.sightings.append(Sighting(TASK, 3, 105.0, renewed, timeout))


def given_back(history: History, times: int, seconds: float, reason: str = "waited behind long tasks") -> None:
    """A task that is claimed and given back, then done."""
    events = []
    for n in range(times):
        events += [Event(200 + n * seconds, "running", n + 1, ONE, {})]
        events += [Event(200.5 + n * seconds, "released", n + 1, ONE, {"reason": reason})]
    ended, last = 200 + times * seconds, times + 1
    events += [Event(ended, "running", last, ONE, {}), Event(ended + 1, "completed", last, ONE, {})]
    history.acknowledged[OTHER], history.events[OTHER] = 6, events
    history.rows[OTHER] = Row(6, "SUCCESS", last, times, "SUCCESS", name="work")
    at = ended - history.wall
    history.lines[OTHER] = [Line(at + 0.1, "start", last, ONE, 7), Line(at + 0.9, "end", last, ONE, 7)]


def many_canaries(history: History, enqueued: float) -> None:
    for n in range(100, 200):
        task = UUID(int=n)
        history.canaries[task], history.acknowledged[task] = enqueued, 5
        for known in (history.rows, history.events, history.lines):
            known[task] = known[TASK]
        history.rows[task] = replace(history.rows[TASK], retry_of=TASK)
        history.events[task] = [Event(enqueued, "retried", 0, "olga", {}), *history.events[TASK]]


DOCTORED = {
    "I1 lost": lambda h: h.acknowledged.update({OTHER: 6}),
    "I1 unheard of": lambda h: h.acknowledged.clear(),
    "I1 unfinished": lambda h: row(h, status="PENDING"),
    "I1 enqueued twice": lambda h: h.rows.update({OTHER: replace(h.rows[TASK])}),
    "I2 finished twice": lambda h: h.events[TASK].append(Event(107.0, "completed", 3, ONE, {})),
    "I4 claimed while running": lambda h: h.events[TASK].insert(1, Event(100.5, "running", 2, TWO, {})),
    "I2 failed and not requeued": lambda h: h.events[TASK].pop(4),
    "I3 an attempt not counted": lambda h: row(h, attempts=2),
    "I3 an attempt skipped": lambda h: event(h, 5, attempt=4),
    "I3 reported by another": lambda h: event(h, 6, actor=TWO),
    "I4 taken while the lease held": lambda h: event(h, 1, actor="two-2-b"),
    "I5 completed without an end": lambda h: h.lines[TASK].pop(),
    "I5 failed without a start": lambda h: h.lines[TASK].pop(1),
    "I5 completed before its end": lambda h: line(h, 3, at=6.5),
    "I5 an attempt ran twice": lambda h: h.lines[TASK].append(Line(5.5, "start", 3, ONE, 7)),
    "I5 ran where it was not claimed": lambda h: line(h, 1, worker=ONE),
    "I6 another status": lambda h: row(h, status="FAILED", outcome="FAILED"),
    "I6 no result": lambda h: row(h, outcome=None),
    "I6 an uncounted refund": lambda h: row(h, refunds=1),
    "I7 overdue": lambda h: h.canaries.update({TASK: 94.0}),
    "I7 not soon": lambda h: many_canaries(h, enqueued=97.5),
    "I9 a hostile row that was run": lambda h: hostile_row(h, "SUCCESS", None),
    "I9 a hostile row that cost its worker": lambda h: hostile_row(h, code="LEASE_LOST"),
    "I9 a function that does not fail": lambda h: row(h, name="fork"),
    "I10 an attempt lost without a fault": lambda h: h.calm.append((100.5, 101.5)),
    "I11 claimed and not started": lambda h: (h.lines[TASK].clear(), sighting(h, renewed=120.1)),
    "I11 past its timeout": lambda h: (h.lines[TASK].pop(), sighting(h, renewed=131.5)),
    "I11 past a short timeout": lambda h: (h.lines[TASK].pop(), sighting(h, renewed=112.0, timeout=0.5)),
    "I11 ended and not recorded": lambda h: sighting(h, renewed=231.0),
    "I12 given back in a circle": lambda h: given_back(h, MOST_RELEASES + 1, seconds=5.0),
    "I6 too early": lambda h: event(h, 4, data={"eta": "1970-01-01T00:01:46+00:00"}),
}


@pytest.mark.parametrize("doctored", DOCTORED)
def test_a_doctored_history_is_found_out(doctored):
    history = good()
    DOCTORED[doctored](history)
    assert doctored.split()[0] in {violation.rule for violation in check(history)}


PERMITTED = {
    "a hostile row that fails alone": lambda h: hostile_row(h),
    "a lost attempt in a calm without it": lambda h: h.calm.append((101.5, 110.0)),
    "the attempt of a task whose row was locked": lambda h: (h.calm.append((100.5, 101.5)), h.locked.add(TASK)),
    "the attempt of a task while its host stood still": lambda h: (
        h.calm.append((100.5, 101.5)),
        h.outages.append((99.5, 100.9)),
    ),
    "a lease that ran out where one alone can write": lambda h: (
        h.calm.append((100.5, 101.5)),
        event(h, 1, data={"cause": "lease expired"}),
    ),
    "a start within the bound": lambda h: (h.lines[TASK].clear(), sighting(h, renewed=114.9)),
    "a run within its timeout": lambda h: (h.lines[TASK].pop(), sighting(h, renewed=131.0)),
    "a record within the bound": lambda h: sighting(h, renewed=230.0),
    "as many releases as are allowed": lambda h: given_back(h, MOST_RELEASES, seconds=5.0),
    "many releases over a long time": lambda h: given_back(h, 3 * MOST_RELEASES, seconds=11.0),
    "many releases by faults": lambda h: given_back(h, 20, 2.0, "its process was killed by SIGKILL"),
}
RULES = {"I9", "I10", "I11", "I12"}


@pytest.mark.parametrize("permitted", PERMITTED)
def test_what_the_bounds_permit_passes(permitted):
    history = good()
    PERMITTED[permitted](history)
    history = replace(history, one_writer="one alone" in permitted)
    assert [violation for violation in check(history) if violation.rule in RULES] == []


def test_a_process_that_dies_costs_attempts_also_where_one_alone_can_write():
    history = replace(good(), one_writer=True, calm=[(100.5, 101.5)])
    assert "I10" in {violation.rule for violation in check(history)}


def test_many_urgent_tasks_that_are_picked_up_soon_pass():
    history = good()
    many_canaries(history, enqueued=99.5)
    assert check(history) == []


def test_nobody_is_blamed_for_what_waited_while_the_database_was_away():
    history = good()
    history.canaries[TASK] = 90.0
    assert check(replace(history, outages=[(91.0, 99.0)])) == []


@pytest.mark.parametrize("late", ["I7 overdue", "I7 not soon"])
def test_on_a_busy_machine_nobody_is_blamed_for_a_late_start(late):
    history = good()
    DOCTORED[late](history)
    assert check(replace(history, untimed=True)) == []


STEADY = {"open files": 20, "threads": 2, "KiB of memory": 50_000}
LEAKS = {"open files": 40, "threads": 9, "KiB of memory": 90_000}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_supervisor_that_holds_more_and_more_is_found_out(leak):
    steady = [Sample(float(n), "one", 7, STEADY) for n in range(60)]
    assert grown(steady) == []
    late = [replace(one, held=STEADY | {leak: LEAKS[leak]}) for one in steady[40:]]
    assert [complaint.endswith(leak) for complaint in grown(steady[:40] + late)] == [True]


def test_a_supervisor_that_starts_does_not_grow():
    starting = [Sample(float(n), "one", 7, {"open files": 3}) for n in range(14)]
    assert grown(starting + [Sample(float(n), "one", 7, {"open files": 13}) for n in range(14, 60)]) == []


def test_a_short_life_tells_nothing_about_leaks():
    assert grown([Sample(float(n), "one", 7, {"threads": n * 10}) for n in range(20)]) == []


def test_errors_that_nobody_caused_are_found_out():
    caused = [
        "10:00:00 ERROR child one-1-a/1 ended: its process was killed by SIGKILL",
        "10:00:00 ERROR child one-1-a/2, alone with one task, ended: its process was killed by SIGKILL",
        "10:00:00 ERROR failed    return_unstorable 33f155a36f69 queue=default attempt=2/2 · wait=1ms run=0ms",
        "10:00:00 ERROR failed    work 33f1 attempt=3/60 · CRASHED: Its process died 2 times in a row, and so "
        "did the one in which it then ran alone: its process exited with code 3. Peak memory: 54 MiB.",
        "10:00:00 WARN  lost      work 33f155a36f69 attempt=1 · its process was killed by SIGKILL",
    ]
    assert unexplained(caused) == []
    for line in ("child one-1-a/1 ended: its process exited with code 1", "failed    work 33f155a36f69 · KeyError"):
        assert len(unexplained([*caused, f"10:00:00 ERROR {line}"])) == 1


def test_what_the_nemesis_killed_thrice_is_explained():
    alone = "10:00:00 ERROR child one-1-a/7, alone with one task, ended: its process was killed by SIGKILL"
    failed = "10:00:00 ERROR failed    work 33f155a36f69 · CRASHED: Its process died 2 times, {}: its process {}"
    assert unexplained([alone, failed.format("ran alone", "was killed by SIGKILL. Peak memory: 58 MiB.")]) == []
    assert len(unexplained([failed.format("ran alone", "was killed by SIGSEGV.")])) == 1


def test_the_failure_of_a_hostile_row_is_explained_and_that_of_another_is_not():
    said = [
        f"10:00:00 ERROR failed    work {str(TASK)[:18]} queue=default attempt=1/60 · TypeError: too many",
        f"10:00:00 ERROR tests.soak.tasks.work {TASK} fails: The task's row cannot be read.",
    ]
    assert unexplained(said, [TASK]) == []
    assert len(unexplained(said, [UUID(int=1 << 100)])) == 2


@pytest.mark.parametrize(
    "left",
    [{"connections": 11}, {"transactions": 1}, {"dead_rows": 5}],
    ids=["connections", "transactions", "dead rows"],
)
def test_what_is_left_open_is_found_out(left):
    nothing = {"connections": 10, "budget": 10, "transactions": 0, "dead_rows": 0}
    assert left_open(**nothing) == []
    assert len(left_open(**nothing | left)) == 1


def test_tasks_that_are_given_back_late_are_found_out():
    soon = [0.1] * 990
    assert too_slow([*soon, *[9.0] * 9], [2.9], lease=1.0) == []
    assert len(too_slow([*soon, *[1.1] * 10], [], lease=1.0)) == 1
    assert len(too_slow(soon, [3.1], lease=1.0)) == 1


def test_a_supervisor_that_waits_for_a_processor_is_noted_and_one_that_sleeps_is_not():
    stalls = Stalls(1.0, lambda: [7])
    stalls.note(0.0, {7: 3.0}, 1.0, {7: 3.2})
    assert stalls.found == []
    stalls.note(1.0, {7: 3.2}, 2.0, {7: 3.5})
    stalls.note(2.0, {}, 3.0, {7: 9.0})  # it was started meanwhile: what it had waited before is not of this window
    assert stalls.found == [(1.0, 2.0)]
