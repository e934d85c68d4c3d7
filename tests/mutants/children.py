"""Bugs of a child and of who looks after it: code of a task in the wrong thread, leases nobody cares for, leaks."""

from __future__ import annotations

from tests.mutants.mutant import PG, SQLITE, Edit, Mutant

LOOKED_AFTER = "tests/worker/test_looked_after.py::"
PROCESSES = "tests/worker/test_ordinary_processes.py::"
EXIT = "tests/worker/test_one_exit.py::"

CHILDREN = (
    Mutant(
        "reports are made by the thread that records them",
        (
            Edit(
                "worker/child/pipeline.py",
                "        attempt.report = conclude(attempt, outcome)\n",
                "        attempt.report = outcome\n",
            ),
            Edit(
                "worker/child/outbox.py",
                "[attempt.report for attempt in batch if attempt.report]",
                "[__import__('django_tasks_retry.worker.child.attempt', fromlist=['x']).conclude("
                "attempt, attempt.report) for attempt in batch if attempt.report]",
            ),
        ),
        ("tests/worker/test_own_thread.py::test_results_and_exceptions_are_looked_at_in_the_thread_of_their_task",),
    ),
    Mutant(
        "renewal is earned by being in the table",
        (
            Edit(
                "worker/supervisor/leases.py",
                "return not entry.revoked and now - entry.claimed <= START_SECONDS",
                "return True",
            ),
        ),
        (LOOKED_AFTER + "TestRenewalIsEarned::test_a_claimed_attempt_must_begin",),
    ),
    Mutant(
        "what was given back is claimed ahead again",
        (Edit("worker/child/timeouts.py", "            self.budget.prefetch.note_given_back(now)\n", ""),),
        (LOOKED_AFTER + "test_claiming_ahead_of_long_tasks_and_giving_back_is_bounded",),
    ),
    Mutant(
        "SystemExit ends the event loop",
        (
            Edit(
                "worker/child/executors.py",
                '            except BaseException:\n                log_exception(logger, "a coroutine raised',
                '            except ZeroDivisionError:\n                log_exception(logger, "a coroutine raised',
            ),
        ),
        (LOOKED_AFTER + "test_an_event_loop_that_is_ended_holds_up_no_coroutine",),
    ),
    Mutant(
        "nobody watches a child's main thread",
        (Edit("worker/supervisor/leases.py", "        if late > HANG_SECONDS:\n", "        if False:\n"),),
        (LOOKED_AFTER + "test_a_child_whose_main_thread_hangs_is_replaced",),
    ),
    Mutant(
        "a log that nobody reads is waited for",
        (Edit("worker/logs.py", "            if not self.takes_more():\n", "            if False:\n"),),
        (LOOKED_AFTER + "test_a_log_that_nobody_reads_holds_up_nothing",),
    ),
    Mutant(
        "processes that a task forks are deaf to signals",
        (Edit("worker/child/process.py", "after_in_child=become_ordinary", "after_in_child=unblock_signals"),),
        (PROCESSES + "test_processes_that_a_task_forks_heed_signals",),
    ),
    Mutant(
        "a session is given on as it is",
        (Edit("worker/child/connections.py", "session.pgconn.send_query(self.statement)", "pass"),),
        (PROCESSES + "test_what_a_task_leaves_in_its_session_ends_with_it_seen_by_django_or_not",),
        on=PG,
    ),
    Mutant(
        "what a supervisor records leaves by no exit",
        (
            Edit(
                "worker/supervisor/orphans.py",
                "            if receipt.accepted:\n",
                "            if False:\n",
            ),
        ),
        (EXIT + "test_so_they_do_where_the_process_is_killed",),
    ),
    Mutant(
        "what a child has counted dies with it",
        (
            Edit(
                "worker/supervisor/supervisor.py",
                "            self.read_stats(child)\n            child.close()",
                "            child.close()",
            ),
            Edit(
                "worker/supervisor/supervisor.py",
                "        for child in self.pool.children:\n            self.read_stats(child)\n",
                "",
            ),
        ),
        (EXIT + "test_what_a_child_has_counted_is_not_lost_when_it_dies",),
    ),
    Mutant(
        "pauses between tries do not grow",
        (Edit("worker/shared/database.py", "        self.failures += 1\n", "        self.failures = 1\n"),),
        ("tests/worker/test_database_calls.py::test_pauses_between_tries_grow_until_a_call_is_answered",),
    ),
    Mutant(
        "a locked file is an outage",
        (Edit("worker/shared/database.py", "self.note_busy() if is_busy(error) else ", ""),),
        ("tests/worker/test_database_calls.py::test_a_database_that_others_keep_locked_is_no_outage",),
        on=SQLITE,
    ),
    Mutant(
        "SQLite's lock is asked for in one turn",
        (Edit("taskqueue/engines/sqlite.py", "not is_busy(error) or time", "True or time"),),
        ("tests/worker/test_database_calls.py::test_a_lock_is_waited_for_in_turns_which_the_caller_does_not_see",),
        on=SQLITE,
    ),
)
