"""The faults, and `python -m tests.faults.coverage`: which tests show what becomes of each.

A test's id carries the names of the faults that it shows (marker.py). test_coverage.py says that none is forgotten.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.faults.marker import faults_of

ROOT = Path(__file__).parents[2]

FAULTS = (
    "worker_killed",
    "out_of_memory",
    "frozen_past_the_lease",
    "interpreter_held",  # a task keeps the GIL
    "exits_and_interrupts_raised",
    "hard_exits",  # os._exit(), segfault, abort
    "unprintable_errors",  # too deep, too large, or no text at all
    "endless_task",
    "leaks",  # threads and open files that tasks leave behind
    "output_closed_or_full",
    "asked_to_stop",
    "told_to_stop_at_once",
    "hang_up",
    "fork_with_an_open_connection",
    "worker_id_used_again",
    "event_loop_blocked",
    "poison",  # a task crashes its process each time
    "clock_skew",
    "server_clock_jumps",
    "drifting_occurrences",
    "two_schedulers",
    "schedules_in_daylight_saving",
    "thundering_herd",
    "request_cut",  # the connection breaks before the server has the statement
    "reply_cut",  # the connection breaks after the statement, before its reply
    "ghost_claim",  # a claim is committed and its reply is lost
    "server_restarts",
    "failover",
    "read_only_node",
    "error_codes",  # the server reports an error that may pass
    "black_hole",  # packets vanish and no connection breaks
    "row_locked_by_vanished_client",
    "rows_beside_locked",  # of workers, queues, lanes, statistics; or the table of events
    "session_state_left_by_tasks",
    "pinned_horizon",  # an old transaction keeps vacuum from dead rows
    "stale_statistics",  # the planner's
    "wake_ups_lost",
    "pgbouncer",
    "no_connection_left",
    "statement_timeout",
    "disk_full",
    "ids_out_of_order",
    "enqueue_rolled_back",
    "deadlock_between_batches",
    "row_deleted",
    "tables_changed_under_load",
    "database_file_locked",  # SQLite has one lock for the whole file
    "nul_surrogates_nan",
    "data_changed_by_jsonb",
    "nested_too_deep",
    "too_large",
    "function_missing",
    "arguments_that_do_not_fit",
    "odd_exceptions",  # groups, circles of causes, exceptions that cannot be pickled
    "row_that_cannot_be_read",
    "backoff_of_an_unknown_form",
    "supervisor_meets_an_unreadable_row",
    "operator_meets_an_unreadable_row",
    "result_without_end",
    "values_with_code_of_their_own",
    "half_made_retry_signals",  # without their delay or reason
    "report_about_a_locked_row",
    "renewal_of_a_locked_row",
    "operator_meets_a_locked_row",
    "key_locked_by_a_reference",
    "backlog_of_other_kinds",  # tasks that this worker does not serve
    "clocks_go_back",  # at the end of daylight saving time
    "clocks_go_forward",  # at the start of daylight saving time
    "database_in_another_time_zone",
    "result_that_contradicts_its_task",
    "stray_result_beside_a_batch",
    "event_without_its_move",
    "history_rewritten",
    "session_with_its_own_operators",
    "dump_and_restore",
    "clock_gone_or_shifted",  # the database function that tells the queue's time
    "deleted_replaced_truncated",
    "fixtures",
    "rows_that_nobody_could_read",
    "enqueued_while_the_process_ends",
    "no_thread_available",
    "transactions_managed_by_hand",
    "tasks_of_two_databases_at_once",
    "pool_of_one_connection",
    "hook_fails_after_the_commit",
    "two_backends_two_retentions",
    "decorators_that_change_arguments",
    "host_clock_far_ahead",
    "heartbeat_from_the_future",
    "tasks_module_not_importable",
    "mistyped_and_foreign_names",  # of queues and backends
    "telemetry_of_the_last_moments",
    "state_kept_by_a_connection_wrapper",
    "threads_started_before_the_fork",
    "series_retried_twice",
    "task_code_in_a_serving_thread",  # results and exceptions run code where others are served
    "signals_and_sockets_in_forked_processes",
    "sessions_used_behind_djangos_back",
    "child_with_data_to_flush",
    "event_loop_ended_or_cancelled",
    "cancelled_before_the_start",
    "log_that_nobody_reads",
    "main_thread_hangs",
    "claims_ahead_of_long_tasks",
    "first_host_swallows_packets",
    "console_asked_for_hidden_data",
    "reasons_that_quote_secrets",
    "expensive_console_requests",
    "console_fed_with_nonsense",
    "backend_gone_from_the_settings",
    "secrets_in_texts",
    "console_meets_an_unreadable_row",
    "names_in_commands_to_paste",
    "failures_named_by_a_hash",  # and a number, and by no word
    "retries_all_due_at_once",
    "past_failures_shown_as_future",
    "run_now_in_a_paused_queue",
    "failures_grouped_too_widely",  # past the word that tells them apart
    "unknown_functions_hide_each_other",
    "all_workers_gone",
    "threads_full_coroutines_not",
    "numbers_that_disagree",
    "history_where_django_has_none",
    "no_task_known",
    "task_that_workers_will_not_find",
    "no_backend_in_the_settings",
    "not_migrated",
    "duplicate_log_lines_and_mails",
    "enqueued_with_unfit_arguments",
    "middleware_fails",
    "middleware_hangs",
    "counters_across_prune_and_restart",  # and a write that fails halfway
    "metrics_without_permission",
    "attempt_logs_that_quote_secrets",
    "endless_or_unstorable_attempt_logs",
    "failure_reported_twice",
    "unserved_queue_or_incomplete_schema",
    "search_for_hidden_arguments",  # somebody searches for arguments that they may not see
    "arguments_beyond_the_search",  # the match is older than the search looked
    "change_without_author_or_reason",
    "enqueue_during_a_bulk_change",  # tasks are enqueued while a selection of many is being changed
    "foreground_task_outlasts_its_lease",
    "history_doctored_by_a_superuser",
    "arguments_leaked_by_similar_failures",  # what failures have in common shows hidden arguments
    "many_workers_tick_one_slot",
    "tick_cut_at_any_statement",  # or crashed, or killed
    "ten_thousand_schedules_due_at_once",
    "senseless_schedule_row",
    "schedule_changes_in_rolling_deploy",  # it comes and goes as old and new workers take turns
    "no_worker_for_many_slots",
    "wrong_worker_clock_at_a_slot",
    "last_places_of_a_lane",  # many claimers want them
    "last_starts_of_a_window",  # many claimers want them
    "expired_lease_in_a_limited_lane",  # nobody has taken the task back yet
    "lane_paused_while_remembered_open",  # a claimer has not heard of the pause
    "claimed_as_it_expires",
    "million_tasks_expired_at_once",
    "many_calls_settle_one_key",  # a unique key
    "unique_call_or_sweep_cut",  # at any statement; the sweep is of expired tasks
    "task_kills_every_process",  # that runs it, also one of its own
    "neighbours_that_kill_their_process",
    "lone_tasks_that_cannot_run",  # tasks that must run alone cannot be claimed, or no worker here knows them
    "workflow_cut_at_any_statement",  # of step, gather, wake and signal
    "step_recorded_without_a_lease",
    "death_between_last_member_and_wake",
    "last_members_end_together",  # the last two of a batch, at one instant
    "signal_as_a_wait_begins",
    "task_graphs_of_any_shape",
    "workflow_cancel_killed",  # at any of its statements
    "lone_task_wakes_a_fleet",
    "woken_workers_without_room",
    "every_worker_prunes_the_same_tasks",
    "queue_for_each_tenant",
    "released_task_loses_its_place",
    "no_partition_for_the_present_period",
    "partition_change_interrupted",
    "history_partitioned_under_load",  # tasks are enqueued and finished meanwhile
    "history_read_while_dropped",
    "dropped_history_not_exported",  # the export of a period fails before its drop
    "trigger_off_on_one_partition",
    "task_needed_after_its_period",
    "report_after_move_to_history",
)
DOES_NOT_APPLY: dict[str, str] = {}
ON_POSTGRESQL_ALONE = {
    "lone_task_wakes_a_fleet": "SQLite has no wake-ups",
    "fork_with_an_open_connection": "a file has no connections",
    "clock_skew": "SQLite's clock is the host's, for all workers the same",
    "server_clock_jumps": "SQLite has no server",
    **dict.fromkeys(
        [
            "request_cut",
            "reply_cut",
            "ghost_claim",
            "server_restarts",
            "failover",
            "read_only_node",
            "black_hole",
            "wake_ups_lost",
            "pgbouncer",
            "no_connection_left",
        ],
        "SQLite has no server",
    ),
    "pool_of_one_connection": "pools are PostgreSQL's",
    "error_codes": "codes of PostgreSQL; SQLite's one trouble is database_file_locked",
    "rows_beside_locked": "SQLite locks the file, not the row: database_file_locked",
    "row_locked_by_vanished_client": "SQLite locks the file, not the row: database_file_locked",
    "pinned_horizon": "SQLite has no vacuum horizon",
    "stale_statistics": "SQLite's planner is told by hand: tests/plans/test_sqlite.py",
    "statement_timeout": "SQLite has no statement timeout",
    "disk_full": "shown where the server goes down with its disk",
    "deadlock_between_batches": "SQLite lets one writer in at a time",
    "tables_changed_under_load": "SQLite remakes tables under a lock on the file",
    **dict.fromkeys(
        [
            "report_about_a_locked_row",
            "renewal_of_a_locked_row",
            "operator_meets_a_locked_row",
            "key_locked_by_a_reference",
        ],
        "SQLite locks the file, not the row: database_file_locked",
    ),
    "session_with_its_own_operators": "SQLite has no search_path",
    "dump_and_restore": "SQLite is restored by a copy of the file",
    "sessions_used_behind_djangos_back": "a session on SQLite is closed after each use",
    "first_host_swallows_packets": "SQLite has no server",
    **dict.fromkeys(
        [
            "no_partition_for_the_present_period",
            "partition_change_interrupted",
            "history_partitioned_under_load",
            "history_read_while_dropped",
            "dropped_history_not_exported",
            "trigger_off_on_one_partition",
            "task_needed_after_its_period",
            "report_after_move_to_history",
        ],
        "SQLite has no partitions",
    ),
    "wrong_worker_clock_at_a_slot": "on SQLite the host's clock is the queue's",
}


def shown() -> dict[str, list[str]]:
    """Return the tests of each fault, as pytest names them."""
    return by_fault(collected())


def collected() -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "fault", "-p", "no:cacheprovider"]
    # A folder of its own: a run removes the one it is told of.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_SQLITE"))}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def by_fault(named: Iterable[str]) -> dict[str, list[str]]:
    tests = defaultdict(list)
    for test in named:
        for fault in faults_of(test.partition("::")[2]):
            tests[fault].append(test)
    return dict(tests)


def main() -> None:
    tests = shown()
    for fault in FAULTS:
        sys.stdout.write(f"{fault}\n" + "".join(f"    {test}\n" for test in tests[fault]))
    sys.stdout.writelines(f"{fault} does not apply: {reason}\n" for fault, reason in DOES_NOT_APPLY.items())


if __name__ == "__main__":
    main()
