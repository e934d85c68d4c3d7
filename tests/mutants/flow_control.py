"""Bugs about what may wait, for how long, and beside what."""

from __future__ import annotations

from tests.mutants.mutant import PG, SQLITE, Edit, Mutant

EXPIRY = "tests/taskqueue/test_expiry.py::"
IN_TIME = (
    "            AND (t.expires_at IS NULL OR t.expires_at > django_tasks_retry_now() OR (\n"
    "                t.attempts > t.refunds AND (t.deadline_at IS NULL OR t.deadline_at > django_tasks_retry_now())\n"
    "            ))\n"
)
MODES = "tests/taskqueue/test_unique_modes.py::"
BACKLOG = "tests/taskqueue/test_backlog.py::"
RECOVER = "tests/taskqueue/test_recover.py::"
CRIPPLES = "tests/worker/test_cripples.py::"
ISOLATION = "tests/worker/test_isolation.py::"
FLEET = "tests/worker/test_fleet.py::"
RACES = "tests/races/test_flow_control.py::"

FLOW_CONTROL = (
    Mutant(
        "an expired task is claimed",
        (
            Edit("taskqueue/sql/claim.sql", IN_TIME, ""),
            Edit("models/querysets.py", "self.filter(whom, in_time, Q(follows", "self.filter(whom, Q(follows"),
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
            Edit("taskqueue/sql/expire.sql", "        AND t.attempts = t.refunds\n", ""),
            Edit("taskqueue/sql/expired_sqlite.sql", "    AND attempts = refunds\n", ""),
        ),
        (EXPIRY + "test_a_task_that_failed_in_time_is_retried_however_late",),
    ),
    Mutant(
        "a task given back before it began no longer expires",
        (
            Edit("taskqueue/sql/claim.sql", "t.attempts > t.refunds AND (", "t.attempts > 0 AND ("),
            Edit("models/querysets.py", '|= Q(attempts__gt=F("refunds"))', "|= Q(attempts__gt=0)"),
        ),
        (EXPIRY + "test_a_task_that_was_given_back_before_it_began_expires",),
        guarded=True,
    ),
    Mutant(
        "the sweep takes what has yet to expire",
        (Edit("taskqueue/sql/expire.sql", "t.expires_at <= django_tasks_retry_now()", "t.expires_at IS NOT NULL"),),
        (EXPIRY + "test_the_sweep_takes_only_what_is_past_and_no_more_than_it_may",),
        on=PG,
    ),
    Mutant(
        "the sweep has no bound",
        (Edit("taskqueue/sql/expired_sqlite.sql", "LIMIT %(limit)s\n", ""),),
        (EXPIRY + "test_the_sweep_takes_only_what_is_past_and_no_more_than_it_may",),
        on=SQLITE,
    ),
    Mutant(
        "calls that resolve one key do not wait for each other",
        (Edit("taskqueue/enqueue/unique.py", "    engine.lock_key(task.queue, conflict.key)\n", ""),),
        (RACES + "test_a_call_waits_for_another_of_its_key_that_has_yet_to_commit",),
        on=PG,
    ),
    Mutant(
        "a server without advisory locks settles a key unlocked",
        (Edit("taskqueue/engines/postgresql_rows.py", "if settles and not", "if not settles and not"),),
        ("tests/guard/test_abilities.py::test_who_settles_a_key_of_a_plain_server_locks_its_holders",),
        on=PG,
    ),
    Mutant(
        "the next of a full lane is claimed by a commit of its own",
        (Edit("worker/child/claimer.py", "with transaction.atomic(using=self.claimer.database.using):", "if True:"),),
        (
            "tests/worker/test_lanes.py::"
            "test_the_next_of_a_full_lane_is_claimed_by_the_commit_that_records_the_one_before",
        ),
        on=PG,
    ),
    Mutant(
        "an answer to a claim that came with a record is not looked for",
        (Edit("worker/child/outbox.py", "                successors.forget()\n", "                pass\n"),),
        (FLEET + "test_an_end_is_recorded_though_the_claim_with_it_is_refused",),
    ),
    Mutant(
        "a claim that found a lane full is flushed",
        (Edit("taskqueue/claim/limiter.py", "if is_alone and not claimed.everything:", "if False:"),),
        (FLEET + "test_a_claim_from_a_full_lane_leaves_nothing_to_flush",),
        on=PG,
    ),
    Mutant(
        "a claim that finds a lane full takes SQLite's lock",
        (Edit("taskqueue/claim/limiter.py", "if is_alone and not self.engine.has_row_locks and", "if False and"),),
        (FLEET + "test_a_claim_from_a_full_lane_leaves_nothing_to_flush",),
        on=SQLITE,
    ),
    Mutant(
        "the one that follows does not wait for the one that runs",
        (
            Edit("taskqueue/sql/claim.sql", "t.follows_id IS NULL OR", "TRUE OR"),
            Edit("models/querysets.py", "in_time, Q(follows=None) | ~Exists(ahead)", "in_time"),
        ),
        (MODES + "test_again_runs_once_more_after_the_running_one_and_only_once",),
    ),
    Mutant(
        "the one that follows takes the running one's place when it fails",
        (
            Edit("taskqueue/sql/claim.sql", "h.finished_at IS NULL", "h.status = 'RUNNING'"),
            Edit(
                "models/querysets.py", 'OuterRef("follows"), finished_at=None', 'OuterRef("follows"), status="RUNNING"'
            ),
        ),
        (MODES + "test_a_running_one_that_fails_goes_back_under_its_key_and_the_other_waits_for_it",),
    ),
    Mutant(
        "a replacement leaves the old task waiting",
        (
            Edit(
                "taskqueue/enqueue/unique.py",
                "    if holders.waiting and not cancel_waiting(holders.waiting, task, engine):\n        return None\n",
                "",
            ),
            Edit(
                "taskqueue/enqueue/unique.py",
                "    return insert_after(task, holders.running, engine)\n\n\ndef run_again",
                "    return insert_after(task, holders.running or holders.waiting, engine)\n\n\ndef run_again",
            ),
        ),
        (MODES + "test_replace_cancels_the_one_that_waits_and_says_by_what",),
    ),
    Mutant(
        "a refused call takes the caller's transaction with it",
        (Edit("taskqueue/enqueue/insert.py", "savepoint=may_be_refused", "savepoint=False"),),
        (MODES + "test_raise_names_the_holder_and_leaves_the_callers_transaction_alone",),
    ),
    Mutant(
        "a debounce has no maximum",
        (Edit("taskqueue/enqueue/unique.py", "    if conflict.debounce_max is not None:\n", "    if False:\n"),),
        (MODES + "test_no_call_puts_it_off_beyond_the_maximum",),
    ),
    Mutant(
        "a debounce puts off what waits for its retry",
        (
            Edit(
                "taskqueue/enqueue/unique.py",
                "conflict.debounce is None or waiting.spent",
                "conflict.debounce is None",
            ),
        ),
        (MODES + "test_a_task_that_waits_for_its_retry_keeps_its_time",),
    ),
    Mutant(
        "each call of a burst writes a move",
        (Edit("taskqueue/enqueue/unique.py", "CLOSE_ENOUGH = 0.05", "CLOSE_ENOUGH = 0.0"),),
        (MODES + "test_a_burst_writes_a_few_moves_only",),
    ),
    Mutant(
        "a full queue takes one more",
        (Edit("taskqueue/enqueue/backlog.py", "if len(asked) > room:", "if len(asked) > room + 1:"),),
        (BACKLOG + "test_a_full_queue_raises_and_stores_nothing_and_the_transaction_goes_on",),
    ),
    Mutant(
        "a call that adds nothing is refused by a full queue",
        (Edit("taskqueue/enqueue/backlog.py", "        asked = without_held(asked, using)\n", "        pass\n"),),
        (BACKLOG + "test_a_call_that_adds_nothing_is_let_in",),
    ),
    Mutant(
        "what this process adds is not counted until the next look",
        (
            Edit(
                "taskqueue/enqueue/backlog.py",
                "    _counts[using, place] = Count(known.pending + len(asked), known.at)\n",
                "    _counts[using, place] = known\n",
            ),
        ),
        (BACKLOG + "test_a_large_count_is_remembered_with_what_was_added",),
    ),
    Mutant(
        "ordinary claims take what must run alone",
        (
            Edit("taskqueue/sql/claim.sql", "(t.crashes IS NULL OR t.crashes < 2)", "TRUE"),
            Edit(
                "models/querysets.py",
                "Q(crashes=None) | Q(crashes__lt=POISON_AFTER) if only is None",
                "Q() if only is None",
            ),
        ),
        (RECOVER + "test_after_two_crashes_in_a_row_ordinary_claims_leave_it_alone",),
    ),
    Mutant(
        "a suspicion is never cleared",
        (
            Edit(
                "taskqueue/sql/finish_repeating.sql",
                "THEN COALESCE(t.crashes, 0) + r.crash ELSE t.crashes END",
                "THEN t.crashes ELSE t.crashes END",
            ),
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                "(crash := self.report.crash) != 0",
                "(crash := self.report.crash)",
            ),
        ),
        (RECOVER + "test_an_attempt_that_ends_by_itself_clears_the_suspicion",),
    ),
    Mutant(
        "a lease that expired counts as a crash",
        (
            Edit("taskqueue/sql/recover.sql", "lost.has_budget AND %(crashed)s::bool", "lost.has_budget"),
            Edit("taskqueue/engines/sqlite.py", "        elif loss.crashed:\n", "        else:\n"),
        ),
        (RECOVER + "test_a_lease_that_merely_expired_is_no_crash_and_a_release_clears_nothing",),
    ),
    Mutant(
        "what killed a process of its own is tried again",
        (Edit("worker/supervisor/orphans.py", "if child.is_alone and death:", "if False:"),),
        (ISOLATION + "test_a_task_that_kills_its_process_and_then_one_of_its_own_fails_with_what_is_known",),
    ),
    Mutant(
        "what died beside others is never told apart",
        (Edit("worker/supervisor/orphans.py", ", actor=self.actor, is_suspect=True)", ", actor=self.actor)"),),
        (CRIPPLES + "test_tasks_whose_process_died_twice_run_alone_and_what_kills_that_too_ends",),
    ),
)
