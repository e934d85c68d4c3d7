"""Which test shows what becomes of a fault. The tests of this folder carry the fault's number in their own names.

`file::test`, beginning at tests/. What does not apply stands below with its reason.
"""

from __future__ import annotations

DEATHS, TROUBLE, EXITS = "worker/test_deaths.py", "worker/test_trouble.py", "worker/test_bad_exits.py"
SHUTDOWN, LIMITS, REPORTS = "worker/test_shutdown.py", "worker/test_limits.py", "races/test_reports.py"
ANY_EXIT = f"{EXITS}::test_after_every_bad_exit_the_next_task_runs_and_the_books_are_right"
BAD_INPUT, JSON, FAULTS = "test_bad_input.py", "test_canonical_json.py", "test_taskqueue_faults.py"

SHOWN = {
    "F01 worker killed": [
        f"{DEATHS}::test_the_task_of_a_killed_child_is_run_again_at_once",
        f"{DEATHS}::test_tasks_of_a_killed_worker_are_run_again_when_their_leases_end",
        "faults/test_each_statement.py::test_at_any_statement_nothing_is_lost_or_finished_twice",
    ],
    "F02 out of memory": [
        f"{LIMITS}::test_a_process_that_outgrows_its_memory_is_replaced_and_finishes_first",
        f"{DEATHS}::test_the_task_of_a_killed_child_is_run_again_at_once",
    ],
    "F03 frozen past the lease": [
        f"{DEATHS}::test_a_worker_frozen_past_its_lease_finishes_nothing",
        "model/test_zombies.py::test_a_worker_that_slept_past_its_lease_cannot_report",
    ],
    "F04 interpreter held": [
        "worker/test_timeouts.py::test_a_function_that_does_not_yield_costs_its_process_not_its_neighbours"
    ],
    "F05 exits and interrupts raised": [ANY_EXIT],
    "F06 hard exits": [ANY_EXIT],
    "F07 errors that cannot be told": [
        "test_rules_payload.py::test_capturing_never_fails_and_is_bounded",
        "test_rules_payload.py::test_a_hostile_exception_is_recorded_like_any_other",
    ],
    "F08 endless task": [
        "worker/test_timeouts.py::test_a_soft_timeout_is_raised_inside_the_function",
        "worker/test_timeouts.py::test_a_function_that_does_not_yield_costs_its_process_not_its_neighbours",
    ],
    "F09 leaks": [f"{LIMITS}::test_a_process_that_outgrows_its_memory_is_replaced_and_finishes_first"],
    "F10 output closed or full": [
        "worker/test_output.py::test_a_worker_without_standard_streams_works",
        "worker/test_output.py::test_a_worker_whose_output_cannot_be_written_works",
    ],
    "F11 asked to stop": [
        f"{SHUTDOWN}::test_a_running_task_finishes_before_the_worker_stops",
        f"{SHUTDOWN}::test_a_stuck_task_is_handed_back_after_the_grace",
        "faults/test_each_statement.py::test_at_any_statement_nothing_is_lost_or_finished_twice",
    ],
    "F12 told to stop at once": [
        "faults/test_each_statement.py::test_at_any_statement_nothing_is_lost_or_finished_twice"
    ],
    "F13 hang-up": [f"{SHUTDOWN}::test_sighup_replaces_children_and_lets_their_tasks_finish"],
    "F14 fork with an open connection": ["faults/test_processes.py::test_f14_no_two_processes_share_a_connection"],
    "F15 worker id used again": [
        "model/test_zombies.py::test_a_worker_cannot_report_about_its_own_next_attempt_with_an_old_lease"
    ],
    "F16 event loop blocked": [
        "worker/test_timeouts.py::test_a_function_that_does_not_yield_costs_its_process_not_its_neighbours",
    ],
    "F17 poison": [
        f"{DEATHS}::test_a_task_that_kills_its_process_fails_and_holds_up_nobody",
        "faults/test_processes.py::test_f17_crashes_in_a_row_do_not_put_off_the_next_start_for_ever",
    ],
    "F20 clock skew": ["faults/test_clocks.py::test_f20_workers_an_hour_ahead_and_an_hour_behind_share_a_queue"],
    "F21 the server's clock jumps": ["faults/test_clocks.py::test_f21_a_jump_of_the_servers_clock_loses_nothing"],
    "F22 drift": ["test_taskqueue_repeat.py::test_five_occurrences_without_drift_though_attempts_fail_and_start_late"],
    "F23 two schedulers": [f"{REPORTS}::test_two_reports_of_one_repeating_task_make_one_next_occurrence"],
    "F25 thundering herd": ["model/test_promises.py::test_tasks_that_fail_together_do_not_come_back_together"],
    "F30 request cut": [f"{TROUBLE}::test_each_statement_may_lose_its_request_or_its_reply"],
    "F31 reply cut": [
        f"{TROUBLE}::test_each_statement_may_lose_its_request_or_its_reply",
        f"{TROUBLE}::test_an_atomic_task_whose_commit_is_cut_writes_once",
        f"{TROUBLE}::test_cut_at_any_statement_nothing_is_lost_or_finished_twice",
    ],
    "F32 ghost claim": [f"{TROUBLE}::test_each_statement_may_lose_its_request_or_its_reply"],
    "F33 server restarts": [
        f"{TROUBLE}::test_tasks_go_on_while_the_server_is_away_and_their_outcomes_are_kept",
        f"{TROUBLE}::test_no_task_is_lost_or_finished_twice_while_backends_are_killed",
    ],
    "F34 failover": ["faults/test_failover.py::test_f34_no_acknowledged_task_is_lost_in_a_synchronous_failover"],
    "F35 read-only node": [
        f"{TROUBLE}::test_a_read_only_node_is_waited_out",
        f"{FAULTS}::test_a_server_that_only_reads",
    ],
    "F36 error codes": [f"{FAULTS}::test_each_code_has_its_remedy", f"{FAULTS}::test_a_deadlock"],
    "F37 black hole": [f"{TROUBLE}::test_a_network_that_swallows_everything_is_waited_out"],
    "F38 row locked by the vanished": [
        "faults/test_locks.py::test_f38_a_row_that_a_vanished_client_keeps_locked_holds_up_no_other",
        "test_taskqueue_statements.py::test_a_verb_is_one_statement_on_postgresql",
    ],
    "F39 session state left by tasks": ["worker/test_hygiene.py::test_the_next_task_finds_a_fresh_connection"],
    "F40 pinned horizon": [
        "plans/test_horizon.py::test_claims_and_reports_touch_no_more_pages_after_thousands_of_tasks"
    ],
    "F41 stale statistics": ["plans/test_plans.py::test_a_report_finds_its_tasks_by_their_ids_alone"],
    "F42 wake-ups lost": ["worker/test_wakeup.py::test_without_wake_ups_a_task_is_found_by_polling"],
    "F43 PgBouncer": ["faults/test_f43_pgbouncer.py::test_f43_a_crowd_of_tasks_shares_a_few_connections"],
    "F44 no connection left": [f"{TROUBLE}::test_too_many_connections_are_waited_out"],
    "F45 statement timeout": ["faults/test_locks.py::test_f45_a_statement_that_takes_too_long_is_tried_again"],
    "F46 disk full": ["faults/test_disk.py::test_f46_a_full_disk_is_waited_out"],
    "F47 ids out of order": ["test_taskqueue_claim.py::test_a_task_that_sorts_before_the_last_one_taken_is_found"],
    "F48 rolled back enqueue": [
        "test_taskqueue_enqueue.py::test_a_task_is_rolled_back_with_the_data_of_its_caller",
        "test_taskqueue_enqueue.py::test_nobody_sees_a_task_before_its_commit",
    ],
    "F49 deadlock between batches": [f"{REPORTS}::test_reports_and_others_about_the_same_many_tasks_never_deadlock"],
    "F50 row deleted": ["test_guard_refusals.py::test_an_unfinished_row_deleted"],
    "F51 tables changed under load": [
        "faults/test_locks.py::test_f51_tables_are_changed_under_load_and_no_attempt_is_lost"
    ],
    "F52 SQLite locked": [
        "races/test_claims.py::test_eight_claimers_get_each_of_two_thousand_tasks_exactly_once",
        f"{FAULTS}::test_a_locked_file_of_sqlite",
    ],
    "F60 NUL, surrogates, NaN": [
        f"{BAD_INPUT}::test_an_argument_that_is_not_json_is_named",
        f"{JSON}::test_a_result_that_cannot_be_stored_fails_the_attempt",
        "model/test_promises.py::test_an_error_text_that_no_database_holds_is_stored_escaped",
    ],
    "F61 data changed by jsonb": [f"{JSON}::test_a_round_trip_gives_the_same_value"],
    "F62 nested too deep": [ANY_EXIT, f"{BAD_INPUT}::test_an_argument_that_is_not_json_is_named"],
    "F63 too large": [
        f"{BAD_INPUT}::test_a_payload_over_64_kib",
        "test_rules_payload.py::test_what_was_cut_of_50_mb_is_told",
    ],
    "F64 function missing": [
        f"{EXITS}::test_a_function_that_this_worker_does_not_know_is_left_for_others",
        "model/test_promises.py::test_a_task_of_an_unknown_function_is_left_for_a_worker_that_knows_it",
    ],
    "F65 arguments that do not fit": ["test_taskqueue_verdicts.py::test_arguments_that_do_not_fit_are_final"],
    "F66 odd exceptions": ["test_rules_payload.py::test_a_group_shows_its_members"],
}

DOES_NOT_APPLY = {
    "F24 daylight saving": "tasks repeat by intervals; there is no wall-clock schedule",
}
