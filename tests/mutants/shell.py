"""Bugs of the command line, of the audit and of the comparison."""

from __future__ import annotations

from tests.mutants.mutant import PG, Edit, Mutant

CHANGES = "tests/cli/test_changes.py::"
RUN = "tests/cli/test_execute.py::"
LISTED = "tests/cli/test_views.py::TestList::"
LANES = "tests/lanes/test_control.py::"
PARTITIONS = "tests/partitions/test_cli.py::"
VERIFY = "tests/verify/test_verify.py::"
CHANGED = "tests/analysis/test_what_changed.py::"

SHELL = (
    Mutant(
        "many tasks are changed without a yes",
        (
            Edit("cli/subcommand.py", "        if answered is None:\n", "        if False:\n"),
            Edit("cli/subcommand.py", "        if not answered:\n", "        if answered is False:\n"),
        ),
        (CHANGES + "TestMany::test_they_need_a_reason_and_a_yes",),
    ),
    Mutant(
        "the first digits of an id mean all tasks that begin so",
        (Edit("cli/changes.py", "query.ids[:] = [whole(context, *id_range) for id_range in query.ids]", "pass"),),
        (CHANGES + "TestMany::test_nobody_means_many_by_a_few_digits",),
    ),
    Mutant(
        "what was enqueued meanwhile is changed too",
        (Edit("cli/changes.py", "condition=self.condition, until=self.until)", "condition=self.condition)"),),
        (CHANGES + "TestMany::test_none_is_changed_that_came_while_others_were",),
    ),
    Mutant(
        "a retry takes what was retried before",
        (Edit("cli/changes.py", "query.is_not_retried = not again", "query.is_not_retried = False"),),
        (CHANGES + "TestRetry::test_what_was_retried_before_is_left_out_unless_it_is_meant",),
    ),
    Mutant(
        "a change from the shell has no author",
        (Edit("cli/subcommand.py", '"by": actor()', '"by": None'),),
        (CHANGES + "test_every_change_is_kept_with_its_author_and_reason",),
    ),
    Mutant(
        "history is partitioned without a yes",
        (Edit("cli/history.py", "    if retention.read_layout(using) is None:\n", "    if False:\n"),),
        (PARTITIONS + "test_nothing_is_partitioned_or_undone_without_a_yes",),
        on=PG,
    ),
    Mutant(
        "a forgotten number removes a limit",
        (Edit("cli/queues.py", '    if bool(wishes) == context["clear"]:\n', "    if False:\n"),),
        (LANES + "test_the_shell_removes_a_limit_only_if_it_is_told_to",),
    ),
    Mutant(
        "the shell names who took a decision that was taken back",
        (Edit("cli/queues.py", 'lane.state.decided_by if lane.state.is_decided else ""', '"cli:"'),),
        (LANES + "test_after_a_decision_is_taken_back_the_shell_names_nobody_as_the_console_does",),
    ),
    Mutant(
        "a list asks for each task once more",
        (Edit("cli/records.py", "LIST_COLUMNS = (*PLAIN, ", "LIST_COLUMNS = (*PLAIN[:-3], "),),
        (LISTED + "test_more_tasks_take_no_more_queries",),
    ),
    Mutant(
        "a claim of one task keeps another",
        (Edit("taskqueue/claim/claim.py", "[task.func_path], only=task.pk)", "[task.func_path])"),),
        (RUN + "test_a_claim_of_one_task_takes_no_other",),
    ),
    Mutant(
        "a task in the foreground is not renewed",
        (Edit("worker/foreground.py", "                renew([self.lease])\n", "                pass\n"),),
        (RUN + "test_its_lease_is_kept_for_as_long_as_it_runs",),
    ),
    Mutant(
        "the audit believes what it read of a task that moved",
        (Edit("verify/audit.py", "range(TRIES if found else 0)", "range(0)"),),
        (VERIFY + "test_a_task_that_moves_while_it_is_read_is_read_again",),
    ),
    Mutant(
        "the audit does not look at results",
        (Edit("verify/rules.py", "wrong_row, wrong_result,", "wrong_row,"),),
        (VERIFY + "test_a_doctored_history_is_found_out",),
    ),
    Mutant(
        "the audit allows one attempt too many",
        (Edit("verify/rules.py", "if spent >= life.row.max_attempts:", "if spent > life.row.max_attempts:"),),
        (VERIFY + "test_a_doctored_history_is_found_out",),
    ),
    Mutant(
        "arguments are compared for everybody",
        (
            Edit(
                "analysis/what_changed.py",
                "failing_calls(tasks, fingerprint) if can_see_payload else []",
                "failing_calls(tasks, fingerprint)",
            ),
            Edit(
                "analysis/what_changed.py",
                "succeeding_calls(tasks, first.func_path) if can_see_payload else []",
                "succeeding_calls(tasks, first.func_path)",
            ),
        ),
        (CHANGED + "test_who_may_not_see_arguments_is_told_nothing_of_them",),
    ),
)
