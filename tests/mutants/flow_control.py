"""Bugs about what may wait, for how long, and beside what."""

from __future__ import annotations

from tests.mutants.mutant import PG, SQLITE, Edit, Mutant

EXPIRY = "tests/taskqueue/test_expiry.py::"
IN_TIME = (
    "            AND (t.expires_at IS NULL OR t.expires_at > django_tasks_retry_now() OR t.attempts > t.refunds)\n"
)

FLOW_CONTROL = (
    Mutant(
        "an expired task is claimed",
        (
            Edit("taskqueue/sql/claim.sql", IN_TIME, ""),
            Edit("taskqueue/engines/sqlite.py", "        above = above.filter(MAY_STILL_BEGIN)\n", ""),
        ),
        (EXPIRY + "test_an_expired_task_never_starts_even_before_anybody_has_swept_it",),
        guarded=True,
    ),
    Mutant(
        "the guard lets an expired task start",
        (Edit("guard/conditions.py", "OLD.eta <= now() AND {IN_TIME} AND ", "OLD.eta <= now() AND "),),
        (EXPIRY + "test_the_database_lets_nobody_start_an_expired_task",),
    ),
    Mutant(
        "expiry ends a task that waits for its retry",
        (
            Edit(
                "taskqueue/engines/postgresql.py",
                't.locked_by IS NULL "\n    "AND t.attempts = t.refunds"',
                't.locked_by IS NULL"',
            ),
            Edit("taskqueue/sql/expired_sqlite.sql", "    AND attempts = refunds\n", ""),
        ),
        (EXPIRY + "test_a_task_that_failed_in_time_is_retried_however_late",),
    ),
    Mutant(
        "a task given back before it began no longer expires",
        (
            Edit("taskqueue/sql/claim.sql", "OR t.attempts > t.refunds)", "OR t.attempts > 0)"),
            Edit("taskqueue/engines/sqlite.py", 'Q(attempts__gt=F("refunds"))', "Q(attempts__gt=0)"),
        ),
        (EXPIRY + "test_a_task_that_was_given_back_before_it_began_expires",),
        guarded=True,
    ),
    Mutant(
        "the sweep takes what has yet to expire",
        (
            Edit(
                "taskqueue/engines/postgresql.py",
                "t.expires_at <= django_tasks_retry_now()",
                "t.expires_at IS NOT NULL",
            ),
        ),
        (EXPIRY + "test_the_sweep_takes_only_what_is_past_and_no_more_than_it_may",),
        on=PG,
    ),
    Mutant(
        "the sweep has no bound",
        (Edit("taskqueue/sql/expired_sqlite.sql", "LIMIT %(limit)s\n", ""),),
        (EXPIRY + "test_the_sweep_takes_only_what_is_past_and_no_more_than_it_may",),
        on=SQLITE,
    ),
)
