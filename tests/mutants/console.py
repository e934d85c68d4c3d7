"""Bugs of the console: what it tells to whom, what it lets be asked of the database, and what breaks it."""

from __future__ import annotations

from tests.mutants.mutant import PG, SQLITE, UNNAMED, Edit, Mutant

LIMITS = "tests/admin/test_limits.py::"
FUZZ = "tests/admin/test_fuzz.py::"
REDACTION = "tests/admin/test_redaction.py::"
SELECTION = "tests/admin/test_search.py::"
UNREADABLE = "tests/admin/test_unreadable.py::"
GROUP = "tests/admin/test_failure_group.py::"
OVERVIEW = "tests/admin/test_overview.py::"

CONSOLE = (
    Mutant(
        "a search looks at messages that its user may not see",
        (
            Edit(
                "selection/matching.py",
                'if can_see_payload else ""\n    return f"{group',
                'if True else ""\n    return f"{group',
            ),
        ),
        (LIMITS + "TestSearch::test_who_may_not_see_messages_learns_nothing_of_them",),
    ),
    Mutant(
        "a search looks at secrets that are hidden from everybody",
        (Edit("selection/matching.py", "redact_text(group.message[:MAX_MESSAGE]) if", "group.message if"),),
        (LIMITS + "TestSearch::test_nobody_learns_what_is_hidden_from_all",),
    ),
    Mutant(
        "a search looks into arguments that its user may not see",
        (Edit("selection/matching.py", "or (query.has_payload and not can_see_payload)", ""),),
        (SELECTION + "TestArguments::test_who_may_not_see_them_cannot_search_in_them",),
    ),
    Mutant(
        "a search in arguments finds secrets that are hidden from everybody",
        (Edit("selection/payload.py", "leaves(name, redact_value(name, value, None))", "leaves(name, value)"),),
        (SELECTION + "TestArguments::test_nobody_finds_what_is_hidden_from_all",),
    ),
    Mutant(
        "any column can be asked for in the address of the list",
        (Edit("admin/tasks.py", "if name not in filters.PARAMETERS:", "if False:"),),
        (LIMITS + "TestSearch::test_no_column_can_be_asked_for_in_the_address",),
    ),
    Mutant(
        "each word of a search asks for all failures again",
        (
            Edit(
                "selection/matching.py",
                "    if query.errors:\n",
                "    for _each in query.errors:\n",
            ),
        ),
        (LIMITS + "TestSearch::test_its_cost_does_not_grow_with_the_number_of_words",),
    ),
    Mutant(
        "pages ask without a time limit",
        (Edit("admin/base.py", "nullcontext() if in_batches else", "nullcontext() if True else"),),
        (LIMITS + "TestTime::test_everything_that_a_request_asks_is_within_the_limit",),
    ),
    Mutant(
        "the reason of a snooze is told to everybody",
        (Edit("display/events.py", "if can_see_payload and data.get(key)", "if data.get(key)"),),
        (LIMITS + "TestReasons::test_they_are_not_told_without_the_permission",),
    ),
    Mutant(
        "a command to paste is not quoted",
        (Edit("display/problems.py", "shell_word(one_line(queue, 64))", "one_line(queue, 64)"),),
        (LIMITS + "test_a_command_to_paste_is_one_command_whatever_a_queue_is_called",),
    ),
    Mutant(
        "a second retry does not ask",
        (Edit("admin/task.py", 'if retries and "again" not in request.POST:', "if False:"),),
        (LIMITS + "TestASecondRetry::test_it_asks_first_and_says_what_came_of_the_first",),
    ),
    Mutant(
        "a character that no row can hold reaches the database",
        (Edit("admin/base.py", '"\\x00" not in text', "True"),),
        (FUZZ + "test_no_text_in_any_place_breaks_any_address",),
        on=PG,
    ),
    Mutant(
        "a retry is refused without saying that the backend is gone",
        (Edit("admin/task.py", "task.backend not in configured_backends()", "not task.backend"),),
        (FUZZ + "TestABackendThatIsGone::test_a_retry_is_refused_with_words",),
    ),
    Mutant(
        "a quoted secret ends at its first escaped quote",
        (Edit("rules/redact.py", "return slashes <= depth", "return True"),),
        (REDACTION + "test_a_secret_is_hidden_in_every_form",),
        on=UNNAMED,
    ),
    Mutant(
        "a value is cut before its secrets are hidden",
        (Edit("display/events.py", "printable(redact_text(traceback))", "redact_text(printable(traceback))"),),
        (REDACTION + "test_a_value_is_cut_only_after_its_secrets_are_hidden",),
        on=UNNAMED,
    ),
    Mutant(
        "one row that cannot be read takes the whole list with it",
        (
            Edit(
                "admin/tasks.py",
                "read_rows(self.result_list, LIST_COLUMNS, ANNOTATIONS)",
                "list(self.result_list)",
            ),
        ),
        (UNREADABLE + "test_it_is_shown_cancelled_made_due_and_left_out_of_a_retry",),
    ),
    Mutant(
        "cancelling reads what it does not need",
        (Edit("taskqueue/engines/sqlite.py", ".unfinished().only(*CANCEL_COLUMNS)", ".unfinished()"),),
        (UNREADABLE + "test_it_is_shown_cancelled_made_due_and_left_out_of_a_retry",),
        on=SQLITE,
    ),
    Mutant(
        "every batch of a spread begins at its beginning",
        (Edit("admin/parts/selection.py", " + (self.done + self.skipped) * step", ""),),
        (GROUP + "test_a_spread_goes_on_from_batch_to_batch",),
    ),
    Mutant(
        "the search over groups looks at messages that its user may not see",
        (Edit("admin/failures.py", "visible_text(group, can_see_payload=can_see_payload)", "group.message"),),
        (GROUP + "test_a_search_does_not_tell_what_may_not_be_seen",),
    ),
    Mutant(
        "only the oldest task of a lane is asked for its function",
        (
            Edit(
                "taskqueue/sql/depths.sql",
                "            LIMIT %(cap)s\n        ) AS first",
                "            LIMIT 1\n        ) AS first",
            ),
        ),
        (OVERVIEW + "test_every_unknown_function_is_named",),
    ),
)
