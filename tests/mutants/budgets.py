"""Bugs about attempts, delays and clocks."""

from __future__ import annotations

from tests.mutants.mutant import MODEL, PG, PROMISES, ZOMBIES, Edit, Mutant

BUDGETS = (
    Mutant(
        "release does not refund the attempt",
        (
            Edit("taskqueue/engines/postgresql_rows.py", '"refund": report.move.refunds}', '"refund": 0}'),
            Edit("taskqueue/engines/sqlite_leases.py", '"refunds": F("refunds") + self.report.move.refunds,', ""),
        ),
        (MODEL,),
    ),
    Mutant(
        "a lost lease refunds the attempt, for ever",
        (
            Edit(
                "taskqueue/sql/recover.sql",
                "        locked_by = NULL,\n",
                "        refunds = t.refunds + 1, locked_by = NULL,\n",
            ),
            Edit(
                "taskqueue/engines/sqlite.py",
                '"locked_by": None, "lock_expires_at"',
                '"refunds": task.refunds + 1, "locked_by": None, "lock_expires_at"',
            ),
        ),
        (MODEL, ZOMBIES + "test_attempts_are_counted_through_failures_releases_and_losses"),
        guarded=True,
    ),
    Mutant(
        "a failure forgets that the budget is spent",
        (Edit("rules/policy.py", "if spent >= max_attempts or", "if spent > max_attempts or"),),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "refunds count towards the backoff",
        (Edit("taskqueue/lease.py", "return self.attempts - self.refunds", "return self.attempts"),),
        (MODEL,),
    ),
    Mutant(
        "a requeued task is due at once",
        (Edit("taskqueue/report.py", "delay=delay, error=error", "delay=0.0, error=error"),),
        (MODEL,),
    ),
    Mutant(
        "jitter removed",
        (Edit("rules/backoff.py", " * (1 + self.jitter * chance)", ""),),
        (PROMISES + "test_tasks_that_fail_together_do_not_come_back_together",),
    ),
)

CLOCKS = (
    Mutant(
        "the host's clock decides which leases are lost",
        (
            Edit(
                "taskqueue/sql/recover.sql",
                "THEN lock_expires_at <= django_tasks_retry_now() ELSE",
                "THEN lock_expires_at <= clock_timestamp() ELSE",
            ),
            Edit(
                "models/querysets.py",
                "filter(lock_expires_at__lte=Now())",
                'filter(lock_expires_at__lte=__import__("django.utils.timezone").utils.timezone.now())',
            ),
        ),
        (MODEL,),
    ),
    Mutant(
        "the clock stands still within a transaction",
        (Edit("clock.py", "SELECT pg_catalog.statement_timestamp()", "SELECT pg_catalog.now()"),),
        (PROMISES + "test_a_lease_runs_out_even_inside_a_transaction_that_began_before",),
        on=PG,
    ),
    Mutant(
        "a repeating task drifts",
        (
            Edit(
                "taskqueue/sql/finish_repeating.sql",
                "SELECT t.slot + interval '1 second' * t.interval * GREATEST(",
                "SELECT django_tasks_retry_now() + interval '1 second' * t.interval * LEAST(",
            ),
            Edit("rules/schedules/timing.py", "return slot + ", "return now + timedelta(seconds=interval) or slot + "),
        ),
        (PROMISES + "test_a_repeating_task_keeps_to_its_slots_and_leaves_out_those_it_missed",),
    ),
    Mutant(
        "a repeating task catches up on every slot it missed",
        (
            Edit("taskqueue/sql/finish_repeating.sql", "t.interval * GREATEST(", "t.interval * LEAST("),
            Edit("rules/schedules/timing.py", "step * max(first, ", "step * min(first, "),
        ),
        (PROMISES + "test_a_repeating_task_keeps_to_its_slots_and_leaves_out_those_it_missed",),
    ),
    Mutant(
        "a completion divides by the interval of every task in the table",
        (Edit("taskqueue/sql/finish_repeating.sql", "NULLIF(t.interval, 0)", "t.interval"),),
        ("tests/plans/test_small_tables.py::test_a_repeating_task_goes_on_beside_tasks_of_schedules",),
        on=PG,
    ),
)
