"""Planted bugs of a history in partitions."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

DROP, CARRY, GUARD, EXPORT = (f"tests/partitions/test_{name}.py::" for name in ("drop", "carry", "guard", "export"))
PG = ("postgresql",)

PARTITIONS = (
    Mutant(
        "a dropped period takes the events of unfinished tasks along",
        (
            Edit(
                "taskqueue/retention/drop.py",
                "if copy is None:\n                carry.carry_over",
                "if False:\n                carry.carry_over",
            ),
        ),
        (DROP + "test_an_unfinished_task_of_its_time_keeps_its_whole_history",),
        on=PG,
    ),
    Mutant(
        "a period is dropped while somebody waits for a member",
        (
            Edit(
                "taskqueue/retention/drop.py",
                "if needed_member(partition, using):\n        return",
                "if False:\n        return",
            ),
        ),
        (DROP + "test_a_member_that_somebody_still_waits_for_keeps_its_period",),
        on=PG,
    ),
    Mutant(
        "a copied history lacks what happened while it was copied",
        (Edit("taskqueue/retention/drop.py", "            carry.catch_up(cursor, copy)\n", "            pass\n"),),
        (CARRY + "test_tasks_that_move_while_their_history_is_copied_lose_nothing",),
        on=PG,
    ),
    Mutant(
        "history takes in rows that stand nowhere",
        (Edit("guard/postgresql.py", 'AND {IS_SAME_ROW}"', 'OR TRUE"'),),
        (GUARD + "test_a_task_does_not_change_on_its_way",),
        on=PG,
    ),
    Mutant(
        "a period is dropped before it is exported",
        (Edit("taskqueue/retention/drop.py", "if export.rows and not", "if False and not"),),
        (EXPORT + "test_nothing_is_dropped_where_it_cannot_be_written",),
        on=PG,
    ),
)
