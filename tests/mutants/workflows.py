"""Bugs about steps, batches and signals."""

from __future__ import annotations

from tests.mutants.mutant import PG, SQLITE, Edit, Mutant

STEPS = "tests/workflows/test_steps.py::"
BATCHES = "tests/workflows/test_batches.py::"
MEMBERS = "tests/workflows/test_members.py::"
SWEEP = "tests/workflows/test_sweep.py::"
RACES = "tests/workflows/test_races.py::"
WAKE = "taskqueue/workflows/wake.py"
FENCE = """\
        AND t.locked_by = %(worker)s::text
        AND t.attempts = %(attempt)s::int
        AND t.lock_expires_at > django_tasks_retry_now()
"""
TASK_ACTIONS = "taskqueue/control/task_actions.py"

WORKFLOWS = (
    Mutant(
        "who ends a member wakes before its commit",
        (
            Edit(
                WAKE,
                "transaction.on_commit(partial(try_to_wake, keys, using), using=using, robust=True)",
                "try_to_wake(keys, using)",
            ),
        ),
        (RACES + "test_of_two_last_members_the_later_to_commit_wakes",),
        on=PG,
    ),
    Mutant(
        "nobody sweeps",
        (Edit("worker/supervisor/maintenance/maintenance.py", "(self.wake, Cancel", "(Cancel"),),
        (SWEEP + "test_every_worker_sweeps",),
    ),
    Mutant(
        "a step is remembered whoever holds the lease",
        (Edit("taskqueue/sql/remember.sql", FENCE, ""),),
        (STEPS + "test_nothing_is_remembered_without_the_lease",),
        guarded=True,
        on=PG,
    ),
    Mutant(
        "a step is remembered after the lease on SQLite",
        (Edit("taskqueue/engines/sqlite.py", "if not leased_by(lease).exists():", "if lease is None:"),),
        (STEPS + "test_nothing_is_remembered_without_the_lease",),
        guarded=True,
        on=SQLITE,
    ),
    Mutant(
        "a retried member is lost to its batch",
        (Edit(TASK_ACTIONS, "schedule_id=task.schedule_id, batch=task.batch, ", "schedule_id=task.schedule_id, "),),
        (BATCHES + "test_a_retry_of_a_failed_member_lets_the_whole_go_on",),
    ),
    Mutant(
        "a cancelled parent leaves its batch running",
        (Edit("taskqueue/workflows/cancel.py", "        cancel_below(done, order)\n", ""),),
        (BATCHES + "test_a_cancelled_parent_takes_its_batches_along_level_by_level",),
    ),
    Mutant(
        "a wake that comes late cuts a backoff short",
        (
            Edit(
                WAKE,
                "locked(Task.objects.using(using).suspended().filter(waits_for__in=list(keys)), ids, wait=False)",
                "locked(Task.objects.using(using).pending(), ids, wait=False)",
            ),
        ),
        (BATCHES + "test_a_wake_that_comes_late_leaves_a_backoff_alone",),
    ),
    Mutant(
        "who begins to wait does not look again",
        (Edit(WAKE, "for batch in ended if batch), *begun]", "for batch in ended if batch)]"),),
        (RACES + "test_a_signal_that_comes_while_a_task_is_about_to_wait_is_not_missed",),
    ),
    Mutant(
        "members are pruned before anybody has asked for their results",
        (Edit("taskqueue/retention/prune.py", " | still_needed(past, using)", ""),),
        (BATCHES + "test_members_are_kept_while_somebody_may_ask_for_their_results",),
    ),
    Mutant(
        "a task that expires leaves its batch running",
        (Edit("taskqueue/recording.py", "cancel_below(ended, order", "print(ended, order"),),
        (MEMBERS + "test_a_task_that_expires_while_it_waits_takes_its_members_along",),
    ),
    Mutant(
        "results that are gone are counted as none",
        (Edit("taskqueue/workflows/results.py", "if stored < count:", "if stored < 0:"),),
        (MEMBERS + "test_a_resumed_task_whose_members_were_pruned_says_so_instead_of_counting_none",),
    ),
    Mutant(
        "the sweep only goes round",
        (Edit(WAKE, "keys = recent_keys(window, using)", "keys: list[str] = []"),),
        (SWEEP + "test_a_batch_that_ended_lately_is_found_wherever_the_round_has_come_to",),
    ),
)
