"""Planted bugs of a history in partitions."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

DROP, GUARD, EXPORT = (f"tests/partitions/test_{name}.py::" for name in ("drop", "guard", "export"))
PG = ("postgresql",)

PARTITIONS = (
    Mutant(
        "a dropped period takes the events of unfinished tasks along",
        (Edit("taskqueue/partitions/retention.py", "            carry_over(cursor, table, partition)\n", ""),),
        (DROP + "test_an_unfinished_task_of_its_time_keeps_its_whole_history",),
        on=PG,
    ),
    Mutant(
        "a period is dropped while somebody waits for a member",
        (Edit("taskqueue/partitions/retention.py", " and not has_needed_members(partition, using)", ""),),
        (DROP + "test_a_member_that_somebody_still_waits_for_keeps_its_period",),
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
        (Edit("taskqueue/partitions/retention.py", "if export.rows and not", "if False and not"),),
        (EXPORT + "test_nothing_is_dropped_where_it_cannot_be_written",),
        on=PG,
    ),
)
