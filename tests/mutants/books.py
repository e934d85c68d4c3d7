"""Bugs about what is written beside a move."""

from __future__ import annotations

from tests.mutants.mutant import MODEL, OPERATORS, PROMISES, SQLITE, Edit, Mutant

BOOKS = (
    Mutant(
        "the result is not written",
        (
            Edit(
                "taskqueue/sql/finish.sql",
                "FROM moved WHERE finished_at IS NOT NULL\n), told",
                "FROM moved WHERE FALSE\n), told",
            ),
            Edit(
                "taskqueue/finish_sqlite.py",
                "for move in moves if move.report.is_final]",
                "for move in moves if move.report.error]",
            ),
        ),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "a cancellation is told after its transaction",
        (
            Edit(
                "taskqueue/intervene.py",
                "            write_events([event(task, EventKind.CANCELLED",
                "        write_events([event(task, EventKind.CANCELLED",
            ),
            Edit(
                "taskqueue/intervene.py",
                '            announce({f"cancelled:{task.pk}"',
                '        announce({f"cancelled:{task.pk}"',
            ),
        ),
        (PROMISES + "test_a_move_whose_events_cannot_be_written_is_not_made",),
    ),
    Mutant(
        "a claim is told after its transaction",
        (
            Edit(
                "taskqueue/claim.py",
                "        write_events([event(lease, EventKind.RUNNING",
                "    write_events([event(lease, EventKind.RUNNING",
            ),
        ),
        (PROMISES + "test_a_move_whose_events_cannot_be_written_is_not_made",),
        on=SQLITE,
    ),
    Mutant(
        "requeued tasks are not told",
        (Edit("taskqueue/report.py", "events=(*events, (EventKind.REQUEUED, {})),", "events=events,"),),
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
        (Edit("taskqueue/prune.py", "        TaskEvent.objects.using(using).filter(task_id__in=ids).delete()\n", ""),),
        (OPERATORS + "test_pruning_beside_a_retry_loses_neither_the_new_task_nor_half_an_old_one",),
    ),
)
