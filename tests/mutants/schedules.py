"""Bugs about schedules."""

from __future__ import annotations

from tests.mutants.mutant import PG, UNNAMED, Edit, Mutant

TICK = "tests/schedules/test_tick.py::"
RACES = "tests/schedules/test_races.py::"
FAULTS = "tests/schedules/test_faults.py::"
RULES = "tests/rules/test_schedules.py::"
TICK_FILE = "taskqueue/schedules/tick.py"

SCHEDULES = (
    Mutant(
        "a schedule's next instant is not moved",
        (Edit(TICK_FILE, "engine_for(using).move_schedules_on(rows)", "pass"),),
        (TICK + "test_the_next_instant_moves_on_with_each_slot",),
    ),
    Mutant(
        "a schedule is moved before its task is written",
        (
            Edit(
                TICK_FILE,
                "            insert_rows(tasks, using)",
                "            transaction.on_commit(lambda: insert_rows(tasks, using), using=using)",
            ),
        ),
        (FAULTS + "test_a_tick_that_fails_at_any_statement_leaves_nothing_half_done",),
    ),
    Mutant(
        "the host's clock says which slots are due",
        (
            Edit(TICK_FILE, "        moment = now(using)", "        moment = datetime.now(UTC)"),
            Edit(TICK_FILE, "from datetime import datetime", "from datetime import UTC, datetime"),
        ),
        (FAULTS + "test_the_clock_of_the_host_decides_nothing",),
        on=PG,
    ),
    Mutant(
        "a tick waits for what another one ticks",
        (Edit(TICK_FILE, "skip_locked=True, ", ""),),
        (RACES + "test_a_tick_passes_by_what_another_ticks_and_waits_for_nobody",),
        on=PG,
    ),
    Mutant(
        "the second of two hours runs what was over in the first",
        (
            Edit(
                "rules/schedules/timing.py",
                "next((slot for slot in instants if slot > moment), None)",
                "next(instants, None)",
            ),
        ),
        (RULES + "test_the_next_slot_is_what_a_walk_through_the_minutes_finds",),
        on=UNNAMED,
    ),
    Mutant(
        "a slot is enqueued while the previous run still runs",
        (Edit(TICK_FILE, "due.blocked_by = running.get(name) if slot else None", "due.blocked_by = None"),),
        (TICK + "test_skip_leaves_a_slot_out_while_the_previous_run_has_not_finished",),
    ),
    Mutant(
        "a resumed schedule catches up on the past",
        (Edit("taskqueue/control/decisions.py", "row.timing.after(moment)", "row.next_at"),),
        (
            "tests/schedules/test_edit.py::test_a_paused_schedule_enqueues_nothing_and_a_resumed_one_nothing_for_the_past",
        ),
    ),
    Mutant(
        "every worker ticks schedules that left its code",
        (Edit(TICK_FILE, 'Q(source="database") | Q(name__in=listed), ', ""),),
        (TICK + "test_schedules_of_code_are_ticked_by_those_who_list_them",),
    ),
)
