"""Bugs about rows, values and locks that are not as one expects them."""

from __future__ import annotations

from tests.mutants.mutant import PG, UNNAMED, Edit, Mutant

ROWS = "tests/taskqueue/test_unreadable_rows.py::"
VALUES = "tests/rules/test_bounded.py::"
LOCKS = "tests/races/test_foreign_locks.py::"
BACKLOGS = "tests/plans/test_foreign_backlog.py::"

UNREADABLE = (
    Mutant(
        "one unreadable row takes its batch along",
        (
            Edit(
                "taskqueue/lease.py",
                "        except Exception as error:  # noqa: BLE001 - see above\n",
                "        except AssertionError as error:\n",
            ),
        ),
        (ROWS + "test_a_row_that_cannot_be_read_fails_alone_and_its_neighbours_run",),
    ),
    Mutant(
        "what the driver cannot read is an error of the claim",
        (Edit("taskqueue/database.py", 'getattr(driven, "pgresult", None) is None', "True"),),
        (
            ROWS + "test_a_row_that_cannot_be_read_fails_alone_and_its_neighbours_run",
            ROWS + "test_an_unreadable_task_is_recovered_beside_others",
        ),
        on=PG,
    ),
    Mutant(
        "an unreadable row is left to its lease",
        (
            Edit(
                "taskqueue/claim/claim.py",
                "    if claimed.unreadable:\n",
                "    if not claimed:\n",
            ),
        ),
        (ROWS + "test_a_row_that_cannot_be_read_fails_alone_and_its_neighbours_run",),
    ),
    Mutant(
        "the shape of a call is not looked at",
        (Edit("taskqueue/lease.py", "    check_call(lease)\n", ""),),
        (ROWS + "test_a_row_that_cannot_be_read_fails_alone_and_its_neighbours_run",),
    ),
    Mutant(
        "a supervisor dies of what a row holds",
        (
            Edit(
                "taskqueue/lease.py",
                "    except Exception:  # noqa: BLE001 - a row is data: nobody may die of reading it\n",
                "    except AssertionError:\n",
            ),
        ),
        (ROWS + "test_a_supervisor_releases_an_unreadable_task_without_its_payload",),
    ),
    Mutant(
        "a backoff of an unknown form ends the report",
        (Edit("taskqueue/report.py", "    except InvalidPolicy:\n", "    except AssertionError:\n"),),
        (ROWS + "test_a_backoff_of_a_form_that_this_version_does_not_know_is_the_default",),
    ),
)

BOUNDED = (
    Mutant(
        "the size of a result is looked at when it is made",
        (Edit("rules/payload.py", "        if self.left < 0:\n", "        if self.left < -(2**60):\n"),),
        (VALUES + "test_what_is_too_long_is_refused", VALUES + "test_reading_stops_at_the_limit"),
        on=UNNAMED,
    ),
    Mutant(
        "a number is asked for its own size",
        (Edit("rules/payload.py", "int.bit_length(number)", "number.bit_length()"),),
        (VALUES + "test_a_subclass_counts_by_its_plain_value_whatever_its_methods_do",),
        on=UNNAMED,
    ),
    Mutant(
        "what a mapping raises goes through",
        (Edit("rules/payload.py", "    except Exception as error:\n", "    except AssertionError as error:\n"),),
        (VALUES + "test_what_a_values_own_code_raises_makes_it_unfit_and_names_the_place",),
        on=UNNAMED,
    ),
    Mutant(
        "an exception's class is asked for its name",
        (Edit("rules/failure.py", "storable(name_of(kind)[:200])", "storable(kind.__name__[:200])"),),
        (VALUES + "test_an_exception_that_tells_nothing_of_itself_is_captured_by_the_name_of_its_class",),
        on=UNNAMED,
    ),
    Mutant(
        "a Snooze is trusted to have a delay",
        (
            Edit(
                "rules/policy.py",
                "    except (AttributeError, TypeError, ValueError):\n",
                "    except AssertionError:\n",
            ),
        ),
        (VALUES + "test_a_snooze_that_forgot_its_delay_is_a_failure_that_says_so",),
    ),
)

FOREIGN_LOCKS = (
    Mutant(
        "reports and cancellations wait for whoever locks a row",
        (
            Edit("taskqueue/sql/finish_repeating.sql", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
            Edit("taskqueue/sql/cancel.sql", "FOR NO KEY UPDATE OF t SKIP LOCKED", "FOR NO KEY UPDATE OF t"),
        ),
        (
            LOCKS + "test_a_report_about_a_locked_row_is_busy_and_the_others_are_recorded",
            LOCKS + "test_an_operator_cancels_the_others_and_is_told_of_the_locked_one",
        ),
        on=PG,
    ),
    Mutant(
        "the renewal of all leases waits for whoever locks a row",
        (
            Edit(
                "taskqueue/sql/renew_workers.sql",
                "    FOR NO KEY UPDATE SKIP LOCKED\n",
                "    FOR NO KEY UPDATE\n",
            ),
        ),
        (LOCKS + "test_a_renewal_passes_a_locked_row_by_and_knows_that_it_is_still_held",),
        on=PG,
    ),
    Mutant(
        "a report about a locked row is lost",
        (Edit("taskqueue/lease.py", "return None if task.is_live else", "return"),),
        (LOCKS + "test_a_report_about_a_locked_row_is_busy_and_the_others_are_recorded",),
        on=PG,
    ),
    Mutant(
        "a reference to a task keeps it from being recorded",
        (Edit("taskqueue/sql/finish_repeating.sql", "FOR NO KEY UPDATE SKIP", "FOR UPDATE SKIP"),),
        (LOCKS + "test_an_open_transaction_that_refers_to_a_task_is_no_hindrance",),
        on=PG,
    ),
    Mutant(
        "pruning waits for whoever locks a row",
        (Edit("taskqueue/sql/prune.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"),),
        (LOCKS + "test_pruning_passes_a_locked_task_by_and_finds_it_the_next_time",),
        on=PG,
    ),
    Mutant(
        "operators wait for as long as a row is locked",
        (Edit("taskqueue/timeouts.py", "skip_locked=not wait", "skip_locked=False"),),
        (LOCKS + "test_an_operator_reschedules_the_others",),
        on=PG,
    ),
)

BACKLOG = (
    Mutant(
        "what was read in vain is read at every claim",
        (
            Edit(
                "taskqueue/claim/cursor.py",
                "                each.skip_due()\n",
                "                each.due_at += 0\n",
            ),
        ),
        (BACKLOGS + "test_claims_read_what_is_not_for_them_no_more_than_once_in_a_while",),
        on=UNNAMED,
    ),
    Mutant(
        "every look forgets the floors",
        (Edit("taskqueue/claim/cursor.py", "            self.keep_floors(due)\n", "            pass\n"),),
        (
            BACKLOGS + "test_claims_read_what_is_not_for_them_no_more_than_once_in_a_while",
            BACKLOGS + "test_a_full_claim_keeps_its_place_behind_the_backlog_through_the_next_looks",
        ),
        on=UNNAMED,
    ),
    Mutant(
        "what sorts below a kept floor is never found",
        (Edit("taskqueue/claim/cursor.py", "began >= self.keep_floors_until", "not self.ranges"),),
        (BACKLOGS + "test_what_sorts_below_is_found_when_the_rest_is_over",),
    ),
)
