"""The attacks that an independent reading made on the queue, and the tests in which each lives on.

`python -m tests.attacks` makes them all and prints whether each HELD; `python -m tests.attacks NAME …` makes some.
"""

from __future__ import annotations

ATTACKS: dict[str, tuple[str, ...]] = {
    # What a task does to its own process
    "event loop ended": ("worker/test_looked_after.py::test_an_event_loop_that_is_ended_holds_up_no_coroutine",),
    "coroutines cancelled before their start": (
        "worker/test_looked_after.py::test_coroutines_that_another_cancelled_before_their_first_step_run_later",
        "worker/test_looked_after.py::test_what_is_cancelled_before_it_starts_never_starts",
    ),
    "coroutines held by one that does not yield": (
        "worker/test_looked_after.py::test_coroutines_behind_one_that_does_not_yield_go_to_another_worker",
    ),
    "results without end": (
        "rules/test_bounded.py::test_reading_stops_at_the_limit",
        "rules/test_bounded.py::test_a_mapping_without_end_is_left_at_the_limit",
    ),
    "results and exceptions with code of their own": (
        "worker/test_own_thread.py::test_results_and_exceptions_are_looked_at_in_the_thread_of_their_task",
        "worker/test_own_thread.py::test_an_odd_end_is_that_tasks_failure_and_nobody_elses",
    ),
    "a crippled process": (
        "worker/test_cripples.py::test_a_task_that_cripples_its_process_costs_its_neighbours_no_attempt",
        "worker/test_cripples.py::test_a_culprit_that_comes_back_again_and_again_costs_its_neighbours_no_attempt",
        "worker/test_cripples.py::test_tasks_whose_process_died_twice_run_alone_and_what_kills_that_too_ends",
    ),
    "processes that a task forks": (
        "worker/test_ordinary_processes.py::test_processes_that_a_task_forks_heed_signals",
        "worker/test_ordinary_processes.py::test_a_process_forked_in_a_transaction_has_a_session_of_its_own",
        "worker/test_ordinary_processes.py::test_threads_of_the_import_are_made_anew_in_each_child_by_middleware",
    ),
    "a session left in another state": (
        "worker/test_hygiene.py::test_the_next_task_finds_a_fresh_connection",
        "worker/test_ordinary_processes.py::test_what_a_task_leaves_in_its_session_ends_with_it_seen_by_django_or_not",
        "attacks/test_attacks.py::test_each_task_finds_the_session_that_the_project_prepared",
    ),
    "hooks of a commit": (
        "worker/test_atomic.py::test_a_hook_that_fails_after_the_commit_is_told_and_the_completion_stands",
    ),
    # What surrounds a worker
    "no process can be forked": ("attacks/test_attacks.py::test_a_worker_that_cannot_fork_waits_until_it_can",),
    "orphans of tasks": ("attacks/test_attacks.py::test_a_worker_that_is_given_orphans_leaves_no_zombie",),
    "a log that nobody reads": ("worker/test_looked_after.py::test_a_log_that_nobody_reads_holds_up_nothing",),
    "lines forged in a log": ("attacks/test_attacks.py::test_a_message_forges_no_line_of_a_log",),
    "forged notifications": ("attacks/test_attacks.py::test_forged_notifications_change_nothing",),
    "a pool of one connection": ("taskqueue/test_enqueue_answers.py::test_the_wake_up_leaves_the_pool_to_the_project",),
    "rows that somebody keeps locked": (
        "races/test_foreign_locks.py::test_a_renewal_passes_a_locked_row_by_and_knows_that_it_is_still_held",
        "races/test_foreign_locks.py::test_a_report_about_a_locked_row_is_busy_and_the_others_are_recorded",
        "faults/test_locks.py::test_a_row_that_a_vanished_client_keeps_locked_holds_up_no_other",
    ),
    "a first host that swallows packets": (
        "worker/test_hosts.py::test_a_worker_starts_works_and_reconnects_though_its_first_host_answers_nothing",
    ),
    "a frozen server": (
        "taskqueue/test_enqueue_deadline.py::test_a_frozen_server_may_store_the_task_when_it_thaws",
        "taskqueue/test_enqueue_deadline.py::test_threads_have_their_own_deadlines",
    ),
    "time zones and summer time": (
        "taskqueue/test_time_zones.py::test_a_database_with_a_time_zone_of_its_own",
        "taskqueue/test_time_zones.py::test_a_task_is_due_when_it_is_enqueued",
        "taskqueue/test_time_zones.py::test_a_lease_lasts_as_long_as_on_any_other_day",
    ),
    "a host whose clock was ahead": ("rules/test_repeat.py::test_ids_come_back_from_the_future_when_the_clock_does",),
    "an enqueue at the end of its process": (
        "taskqueue/test_enqueue_answers.py::test_a_process_that_ends_enqueues_and_runs_its_hooks",
        "taskqueue/test_enqueue_answers.py::test_without_threads_what_is_stored_is_returned",
        "taskqueue/test_enqueue_answers.py::test_a_caller_may_manage_transactions_by_hand",
    ),
    "tasks of two databases in one call": (
        "taskqueue/test_enqueue_answers.py::test_tasks_of_two_databases_are_not_enqueued_together",
    ),
    "a backlog of other kinds": (
        "plans/test_foreign_backlog.py::test_claims_read_what_is_not_for_them_no_more_than_once_in_a_while",
    ),
    # One odd row
    "any value in any column": ("rows/test_one_row.py::test_no_value_of_a_column_stops_a_neighbour",),
    "a task that cannot be read": (
        "taskqueue/test_unreadable_rows.py::test_a_row_that_cannot_be_read_fails_alone_and_its_neighbours_run",
        "guard/test_payload.py::test_a_row_that_nobody_could_read_is_refused",
        "admin/test_unreadable.py::test_it_is_shown_cancelled_made_due_and_left_out_of_a_retry",
    ),
    "a lane that makes no sense": (
        "lanes/test_unsound_rows.py::test_neighbours_of_an_unsound_lane_start_and_the_log_names_it_once",
        "lanes/test_unsound_rows.py::test_the_database_refuses_an_unsound_row",
    ),
    "a schedule that makes no sense": (
        "schedules/test_unreadable.py::test_the_others_are_enqueued",
        "schedules/test_tick.py::test_a_row_that_makes_no_sense_is_left_alone_and_holds_up_no_other",
    ),
    "retries in a circle": (
        "workflows/test_odd_rows.py::test_members_that_are_retries_of_each_other_in_a_circle_are_pruned",
    ),
    "parents in a circle": ("admin/test_workflows.py::test_a_run_whose_parents_form_a_circle_shows_each_task_once",),
    "a task that waits for nonsense": (
        "workflows/test_odd_rows.py::test_a_task_that_waits_for_nonsense_is_named_once_and_the_others_are_woken",
    ),
    "a step that makes no sense": (
        "workflows/test_odd_rows.py::test_an_odd_step_keeps_no_other_task_from_being_cancelled_with_its_members",
    ),
    "a worker's row that makes no sense": (
        "taskqueue/test_odd_workers.py::test_the_others_are_counted_and_the_odd_one_is_named_once",
        "taskqueue/test_odd_workers.py::test_the_console_shows_the_others",
        "taskqueue/test_odd_workers.py::test_the_shell_lists_the_others",
    ),
    # The guard and the roles
    "stray results": (
        "guard/test_history.py::test_a_stray_result_stops_no_report",
        "guard/test_history.py::test_a_stray_result_stops_no_recovery",
    ),
    "illegal states": ("guard/test_refusals.py", "guard/test_deletion.py"),
    "operators of a session": ("guard/test_restore.py::test_operators_of_a_session_change_no_verdict",),
    "dump and restore": (
        "guard/test_restore.py::test_a_guard_that_was_printed_and_read_again_is_whole",
        "guard/test_restore.py::test_tasks_of_every_status_travel_in_a_fixture",
    ),
    "a clock that is gone or shifted": (
        "guard/test_restore.py::test_a_clock_that_is_gone_or_wrong_is_missed_and_put_right",
    ),
    "a dropped CHECK": ("guard/test_installation.py::test_each_dropped_check_is_missed_and_put_back",),
    "roles beyond their statements": ("guard/test_roles.py::test_each_role_may_do_its_statements_and_no_others",),
    "the way back": (
        "example/test_migrations.py::test_rows_of_every_kind_go_forth_and_back",
        "example/test_migrations.py::test_a_worker_of_this_version_goes_on_while_the_next_one_migrates",
    ),
    # The console and the shell
    "hidden data": (
        "admin/test_escaping.py::test_without_permission_no_payload_is_shown",
        "admin/test_search.py::TestArguments::test_who_may_not_see_them_cannot_search_in_them",
    ),
    "expensive requests": ("admin/test_limits.py::TestSearch::test_its_cost_does_not_grow_with_the_number_of_words",),
    "secrets": ("admin/test_redaction.py::test_a_secret_is_hidden_in_every_form", "contrib/test_doors.py"),
    "markup, permissions, commands to paste": (
        "admin/test_escaping.py::test_hostile_content_stays_text_on_every_page",
        "admin/test_permissions.py",
        "admin/test_limits.py::test_a_command_to_paste_is_one_command_whatever_a_queue_is_called",
    ),
    "nonsense in every address": ("admin/test_fuzz.py::test_no_text_in_any_place_breaks_any_address",),
    "a backend that is gone": ("admin/test_fuzz.py::TestABackendThatIsGone::test_its_tasks_are_shown_and_cancelled",),
    "many queues in the metrics": (
        "metrics/test_metrics.py::test_a_scrape_of_many_queues_is_bounded_in_lines",
        "metrics/test_metrics.py::test_a_database_that_takes_too_long_costs_what_it_did_not_answer",
    ),
    # Scale
    "an export before its period is over": (
        "partitions/test_export.py::test_a_file_written_before_the_end_of_its_period_does_not_count",
        "partitions/test_export.py::test_two_services_of_one_server_write_different_files",
    ),
    "a disk that fills under an export": (
        "partitions/test_export.py::test_on_a_full_disk_nothing_is_forgotten_and_no_half_line_stays",
    ),
    "failures that keep a period": (
        "partitions/test_carry.py::test_however_many_failed_their_period_goes_and_they_keep_their_history",
    ),
    "the first drain of what is limited": (
        "worker/test_drain.py::test_the_first_drain_of_what_is_limited_leaves_nothing",
    ),
    "ten thousand queues": ("attacks/test_attacks.py::test_a_drain_of_many_queues_leaves_nothing_and_counts_all",),
    "a division by the interval of others": (
        "plans/test_small_tables.py::test_a_repeating_task_goes_on_beside_tasks_of_schedules",
    ),
    "a cancelled workflow whose canceller died": ("workflows/test_cancel_sweep.py",),
    "breaches planted in a history": (
        "verify/test_on_top.py::test_a_broken_promise_of_what_stands_on_top_is_found_out",
        "verify/test_verify.py::test_a_doctored_history_is_found_out",
    ),
}
