"""Bugs about what is written beside a move."""

from __future__ import annotations

from tests.mutants.mutant import MODEL, OPERATORS, PROMISES, SQLITE, Edit, Mutant

BOOKS = (
    Mutant(
        "the result is not written",
        (
            Edit(
                "taskqueue/sql/finish_repeating.sql",
                "FROM moved WHERE finished_at IS NOT NULL\n), events",
                "FROM moved WHERE FALSE\n), events",
            ),
            Edit("taskqueue/sql/complete.sql", "FROM moved\n), events", "FROM moved WHERE FALSE\n), events"),
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                "for each in accepted if each.report.is_final]",
                "for each in accepted if each.report.error]",
            ),
        ),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "a cancellation is told after its transaction",
        (
            Edit(
                "taskqueue/engines/sqlite.py",
                "            write_events([e for move, task in moves",
                "        write_events([e for move, task in moves",
            ),
            Edit(
                "taskqueue/timeouts.py",
                "with transaction.atomic(using=using):\n        done",
                "if True:\n        done",
            ),
        ),
        (PROMISES + "test_a_move_whose_events_cannot_be_written_is_not_made",),
        on=SQLITE,
    ),
    Mutant(
        "a claim is told after its transaction",
        (
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                "            write_rows(events, self.using)\n        return taken",
                "        write_rows(events, self.using)\n        return taken",
            ),
        ),
        (PROMISES + "test_a_move_whose_events_cannot_be_written_is_not_made",),
        on=SQLITE,
    ),
    Mutant(
        "requeued tasks are not told",
        (
            Edit(
                "taskqueue/report.py",
                "zip(self.move.events, self.data, strict=True)",
                "zip(self.move.events[:1], self.data)",
            ),
        ),
        (MODEL,),
    ),
    Mutant(
        "NUL and surrogates are not escaped",
        (
            Edit(
                "rules/payload.py",
                'return UNSTORABLE.sub(lambda bad: f"\\\\u{ord(bad.group()):04x}", text)',
                "return text",
            ),
        ),
        (PROMISES + "test_an_error_text_that_no_database_holds_is_stored_escaped",),
    ),
    Mutant(
        "prune leaves events behind",
        (
            Edit(
                "taskqueue/retention/prune.py",
                "        TaskEvent.objects.using(using).filter(task_id__in=ids).delete()\n",
                "",
            ),
        ),
        (OPERATORS + "test_pruning_beside_a_retry_loses_neither_the_new_task_nor_half_an_old_one",),
    ),
)
