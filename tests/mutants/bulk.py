"""Bugs about many calls that are enqueued at once."""

from __future__ import annotations

from tests.mutants.mutant import PG, Edit, Mutant

TESTS = "tests/taskqueue/test_bulk.py::"

BULK = (
    Mutant(
        "bulk: arguments that Python holds for equal are stored as the first of them",
        (
            Edit(
                "taskqueue/engines/postgresql_insert.py",
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
                "taskqueue/producer/bulk.py",
                "    with transaction.atomic(using=using):\n",
                "    with transaction.atomic(using=using, savepoint=False):\n",
            ),
        ),
        (TESTS + "test_a_long_list_with_a_bad_call_at_its_end_stores_nothing_and_leaves_its_caller_the_transaction",),
    ),
    Mutant(
        "bulk: a long list forgets unique keys",
        (Edit("taskqueue/producer/bulk.py", "if left or not is_plain(chunk):", "if left:"),),
        (TESTS + "test_in_a_long_list_a_key_that_is_held_yields_its_holder",),
    ),
    Mutant(
        "bulk: client and server take turns",
        (Edit("taskqueue/engines/postgresql_producer.py", "if not Pipeline.is_supported():", "if True:"),),
        (TESTS + "test_the_next_chunk_is_checked_while_the_server_writes_the_last_one",),
        on=PG,
    ),
    Mutant(
        "bulk: arguments are written twice to be measured",
        (Edit("taskqueue/producer/enqueue.py", "    if not budget.surely_holds():\n", "    if budget:\n"),),
        (TESTS + "test_a_call_of_a_bulk_is_walked_once",),
        on=PG,
    ),
)
