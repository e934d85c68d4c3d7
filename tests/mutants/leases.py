"""Bugs about who may speak for a task, and how long."""

from __future__ import annotations

from tests.mutants.mutant import INTERLEAVED, MODEL, PG, SQLITE, ZOMBIES, Edit, Mutant

FENCE = """WHERE t.id = r.id
            AND t.locked_by = r.worker
            AND t.attempts = r.attempt
            AND t.lock_expires_at > django_tasks_retry_now()
"""
ORM_FENCE = "(task.locked_by, task.attempts) == (lease.locked_by, lease.attempts) and alive(task, moment)"
RENEWAL = "pk=lease.id, locked_by=lease.locked_by, attempts=lease.attempts, lock_expires_at__gt=Now()"


def fence_without(line: str) -> str:
    return "".join(kept for kept in FENCE.splitlines(keepends=True) if line not in kept)


def fence_becomes(sql: str, orm: str) -> tuple[Edit, ...]:
    return (
        Edit("taskqueue/sql/finish_repeating.sql", FENCE, sql),
        Edit("taskqueue/engines/sqlite_leases.py", ORM_FENCE, orm),
    )


FENCES = (
    Mutant(
        "no fence: any report about a running task counts",
        fence_becomes("WHERE t.id = r.id AND t.locked_by IS NOT NULL\n", "task.locked_by"),
        (MODEL, ZOMBIES + "test_a_worker_cannot_report_about_the_attempt_of_another"),
        guarded=True,
    ),
    Mutant(
        "fence without the attempt",
        fence_becomes(fence_without("t.attempts"), "task.locked_by == lease.locked_by and alive(task, moment)"),
        (MODEL, ZOMBIES + "test_a_worker_cannot_report_about_its_own_next_attempt_with_an_old_lease"),
        guarded=True,
    ),
    Mutant(
        "fence without the expiry",
        fence_becomes(
            fence_without("lock_expires_at"), "(task.locked_by, task.attempts) == (lease.locked_by, lease.attempts)"
        ),
        (MODEL, ZOMBIES + "test_a_worker_that_slept_past_its_lease_cannot_report"),
        guarded=True,
    ),
    Mutant(
        "recover ignores the expiry",
        (
            Edit(
                "taskqueue/sql/recover.sql", "THEN lock_expires_at <= django_tasks_retry_now() ELSE", "THEN TRUE ELSE"
            ),
            Edit(
                "taskqueue/engines/sqlite.py", "if loss.dead else running.lease_expired()", "if loss.dead else running"
            ),
        ),
        (MODEL, ZOMBIES + "test_a_live_lease_is_not_taken_away"),
        guarded=True,
    ),
    Mutant(
        "attempts start again when a task is requeued",
        (
            Edit(
                "taskqueue/sql/finish_repeating.sql",
                "refunds = t.refunds + COALESCE(r.refund, 0),",
                "attempts = CASE r.status WHEN 'PENDING' THEN 0 ELSE t.attempts END, refunds = 0,",
            ),
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                '"refunds": F("refunds") + self.report.move.refunds,',
                '"attempts": F("attempts") if self.report.is_final else 0, "refunds": 0,',
            ),
        ),
        (MODEL, ZOMBIES + "test_attempts_are_counted_through_failures_releases_and_losses"),
        guarded=True,
    ),
)

LATE = "tests/taskqueue/test_late_renewals.py::"

LEASES = (
    Mutant(
        "a renewal that waited for the write lock is judged by when it was let in",
        (Edit("taskqueue/engines/sqlite.py", "with frozen(asked or moment):", "with frozen(moment):"),),
        (
            LATE + "test_an_attempt_outlasts_its_lease_in_its_own_transaction",
            LATE + "test_a_renewal_is_judged_by_when_it_was_asked",
        ),
        on=SQLITE,
    ),
    Mutant(
        "an expired lease can be renewed",
        (
            Edit("taskqueue/sql/renew.sql", "            AND t.lock_expires_at > django_tasks_retry_now()\n", ""),
            Edit("taskqueue/lease.py", RENEWAL, RENEWAL.replace(", lock_expires_at__gt=Now()", "")),
        ),
        (MODEL, ZOMBIES + "test_a_worker_that_slept_past_its_lease_cannot_report"),
        guarded=True,
    ),
    Mutant(
        "a renewal can shorten a lease",
        (
            Edit("taskqueue/sql/renew.sql", "GREATEST(t.lock_expires_at, ", "GREATEST("),
            Edit(
                "taskqueue/engines/sqlite.py",
                'return Greatest(F("lock_expires_at"), Value(moment + timedelta(seconds=seconds), InstantField()))',
                "return Value(moment + timedelta(seconds=seconds), InstantField())",
            ),
        ),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "answers are kept by worker and attempt, without the task",
        (
            Edit(
                "taskqueue/lease.py",
                "return self.id, self.locked_by, self.attempts",
                "return UUID(int=0), self.locked_by, self.attempts",
            ),
            Edit(
                "taskqueue/engines/postgresql.py",
                "return {(task_id, worker, attempt) for",
                "return {(UUID(int=0), worker, attempt) for",
            ),
        ),
        ("tests/model/test_batches.py::test_renewing_a_lost_lease_beside_a_held_one_names_the_lost_one",),
    ),
    Mutant(
        "cancel keeps the lease",
        (
            Edit(
                "taskqueue/sql/cancel.sql",
                "SET status = 'CANCELLED',\n        locked_by = NULL,\n        lock_expires_at = NULL,\n",
                "SET status = 'CANCELLED',\n",
            ),
            Edit(
                "taskqueue/engines/sqlite.py",
                "status=Status.CANCELLED,\n                locked_by=None,\n                lock_expires_at=None,\n",
                "status=Status.CANCELLED,\n",
            ),
        ),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "a cancelled task's worker is told that somebody else has it",
        (Edit("taskqueue/lease.py", "if task.status == Status.CANCELLED:", "if task.status == Status.FAILED:"),),
        (MODEL,),
    ),
    Mutant(
        "recover writes by an old snapshot",
        (Edit("taskqueue/sql/recover.sql", "    FOR NO KEY UPDATE SKIP LOCKED\n", ""),),
        (INTERLEAVED,),
        guarded=True,
        on=PG,
    ),
)
