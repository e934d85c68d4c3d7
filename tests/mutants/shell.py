"""Bugs of the command line, of the audit and of the comparison."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

CHANGES = "tests/cli/test_changes.py::"
RUN = "tests/cli/test_run.py::"
VERIFY = "tests/verify/test_verify.py::"
CHANGED = "tests/analysis/test_what_changed.py::"

SHELL = (
    Mutant(
        "many tasks are changed without a yes",
        (
            Edit("cli/changing.py", "    if answered is None:\n", "    if False:\n"),
            Edit("cli/changing.py", "    if not answered:\n", "    if answered is False:\n"),
        ),
        (CHANGES + "TestMany::test_they_need_a_reason_and_a_yes",),
    ),
    Mutant(
        "the first digits of an id mean all tasks that begin so",
        (Edit("cli/changing.py", "query.ids[:] = [whole(context, *id_range) for id_range in query.ids]", "pass"),),
        (CHANGES + "TestMany::test_nobody_means_many_by_a_few_digits",),
    ),
    Mutant(
        "what was enqueued meanwhile is changed too",
        (Edit("cli/changing.py", "condition=self.condition, until=self.until)", "condition=self.condition)"),),
        (CHANGES + "TestMany::test_none_is_changed_that_came_while_others_were",),
    ),
    Mutant(
        "a retry takes what was retried before",
        (Edit("cli/changing.py", "    if not again:\n", "    if False:\n"),),
        (CHANGES + "TestRetry::test_what_was_retried_before_is_left_out_unless_it_is_meant",),
    ),
    Mutant(
        "a change from the shell has no author",
        (Edit("cli/changing.py", "by=actor(), reason", "by=None, reason"),),
        (CHANGES + "test_every_change_is_kept_with_its_author_and_reason",),
    ),
    Mutant(
        "a claim of one task keeps another",
        (Edit("taskqueue/consumer/claim.py", "[task.func_path], only=task.pk)", "[task.func_path])"),),
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
        (Edit("verify/rules.py", "if spent > life.row.max_attempts:", "if spent > life.row.max_attempts + 1:"),),
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
