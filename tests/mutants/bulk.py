"""Bugs about many calls that are enqueued at once."""

from __future__ import annotations

from tests.mutants.mutant import PG, Edit, Mutant

TESTS = "tests/taskqueue/test_bulk.py::"
DEADLINE = "tests/taskqueue/test_enqueue_deadline.py::"

BULK = (
    Mutant(
        "bulk: arguments that Python holds for equal are stored as the first of them",
        (
            Edit(
                "taskqueue/engines/postgresql_rows.py",
                "        columns[name] = [dump(value) if value else EMPTY[type(value)] for value in columns[name]]\n",
                "        equal = columns[name].count(columns[name][0]) == len(tasks)\n"
                "        texts = [dump(value) if value else EMPTY[type(value)] for value in columns[name]]\n"
                "        columns[name] = texts[:1] * len(tasks) if equal else texts\n",
            ),
        ),
        (TESTS + "test_each_call_is_stored_as_it_was_asked_whatever_stands_beside_it",),
        on=PG,
    ),
    Mutant(
        "bulk: a long list is not one transaction",
        (
            Edit(
                "taskqueue/enqueue/enqueue.py",
                "as deadline, transaction.atomic(using=using):\n        stored",
                "as deadline, transaction.atomic(using=using, savepoint=False):\n        stored",
            ),
        ),
        (TESTS + "test_a_long_list_with_a_bad_call_at_its_end_stores_nothing_and_leaves_its_caller_the_transaction",),
    ),
    Mutant(
        "bulk: a long list forgets unique keys",
        (Edit("taskqueue/enqueue/enqueue.py", "if left or not is_plain(chunk):", "if left:"),),
        (TESTS + "test_in_a_long_list_a_key_that_is_held_yields_its_holder",),
    ),
    Mutant(
        "bulk: client and server take turns",
        (Edit("taskqueue/engines/postgresql_rows.py", "if not Pipeline.is_supported():", "if True:"),),
        (TESTS + "test_the_next_chunk_is_checked_while_the_server_writes_the_last_one",),
        on=PG,
    ),
    Mutant(
        "bulk: arguments are written twice to be measured",
        (Edit("taskqueue/enqueue/checks.py", "    if not budget.surely_holds():\n", "    if budget:\n"),),
        (TESTS + "test_a_call_of_a_bulk_is_walked_once",),
        on=PG,
    ),
    Mutant(
        "enqueue: a call connects again though its time is over",
        (
            Edit(
                "taskqueue/enqueue/deadline.py",
                "        if self.has_passed:\n            raise Op",
                "        if False:\n            raise Op",
            ),
        ),
        (DEADLINE + "test_a_server_that_falls_silent_ends_the_call_and_the_task_may_exist[a stream-postgresql]",),
        on=PG,
    ),
    Mutant(
        "enqueue: a call that may have been stored is said not to exist",
        (Edit("taskqueue/enqueue/deadline.py", "may_exist=is_connected", "may_exist=False"),),
        (DEADLINE + "test_a_server_that_falls_silent_ends_the_call_and_the_task_may_exist[one-postgresql]",),
        on=PG,
    ),
    Mutant(
        "enqueue: the time in which the project makes the next chunk counts",
        (Edit("taskqueue/enqueue/deadline.py", "            self.shut_at = math.inf\n", ""),),
        (DEADLINE + "test_slow_chunks_of_the_project_do_not_count",),
        on=PG,
    ),
)
