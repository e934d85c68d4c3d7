"""Bugs in the guard itself, and in how instants are kept."""

from __future__ import annotations

from tests.mutants.mutant import PG, SQLITE, Edit, Mutant

HISTORY = "tests/guard/test_history.py::"
DELETION = "tests/guard/test_deletion.py::"
INSTALL = "guard/postgresql_install.py"
RESTORE = "tests/guard/test_restore.py::"
PAYLOAD = "tests/guard/test_payload.py::"
ZONES = "tests/taskqueue/test_time_zones.py::"

INSTANTS = (
    Mutant(
        "times come back as the session tells them",
        (Edit("utc.py", "else as_instant(moment)\n\n\nclass", "else moment\n\n\nclass"),),
        (ZONES + "test_what_one_zone_stored_another_reads",),
        on=PG,
    ),
    Mutant(
        "SQLite keeps times in the zone of its connection",
        (
            Edit(
                "utc.py",
                "return sqlite_text(moment) if",
                "return connection.ops.adapt_datetimefield_value(moment) if",
            ),
        ),
        (ZONES + "test_a_database_with_a_time_zone_of_its_own",),
        on=SQLITE,
    ),
    Mutant(
        "a naive time loses its fold",
        (Edit("utc.py", "timezone.make_aware(moment, ", "timezone.make_aware(moment.replace(fold=0), "),),
        (ZONES + "test_a_naive_eta_in_the_hour_that_comes_twice_says_by_its_fold_which",),
    ),
)

GUARD = (
    Mutant(
        "a result need not agree with its task",
        (
            Edit(
                "guard/conditions.py",
                'return f"{task}.id = {result}.task_id AND {same_end}"',
                'return f"{task}.id = {result}.task_id"',
            ),
        ),
        (HISTORY + "test_an_end_that_contradicts_its_result",),
    ),
    Mutant(
        "a result may come before an end that its task cannot come to",
        (
            Edit(
                "guard/conditions.py",
                'return f"{task}.id = {result}.task_id AND {task}.attempts = {result}.attempts AND {end}"',
                'return f"{task}.id = {result}.task_id"',
            ),
        ),
        (HISTORY + "test_a_result_that_no_move_of_its_task_can_come_to",),
    ),
    Mutant(
        "a result may be left behind",
        (Edit("guard/postgresql.py", "WHEN (NEW.finished_at IS DISTINCT FROM {THIS_STATEMENT})", "WHEN (FALSE)"),),
        (HISTORY + "test_a_result_that_is_left_beside_an_unfinished_task_is_refused_with_the_transaction",),
        on=PG,
    ),
    Mutant(
        "a stray result stops its batch",
        (
            Edit("taskqueue/engines/postgresql.py", "        self.fetch(\"clear_strays\")\n", ""),
            Edit("guard/sqlite.py", 'stray = exists(RESULT, "task_id = NEW.task_id")', 'stray = "FALSE"'),
        ),
        (HISTORY + "test_a_stray_result_stops_no_recovery",),
    ),
    Mutant(
        "events are told again",
        (Edit("guard/conditions.py", "{earlier}.id <> {event}.id AND", "FALSE AND"),),
        (HISTORY + "test_an_event_that_was_told_before",),
    ),
    Mutant(
        "events tell of any moment",
        (Edit("guard/conditions.py", " AND {event}.ts = {task}.updated_at", ""),),
        (HISTORY + "test_an_event_after_the_final_one",),
    ),
    Mutant(
        "a renewal need not be stated",
        (Edit("guard/conditions.py", "NEW.moved_by <> OLD.moved_by AND ", ""),),
        (HISTORY + "test_a_running_row_changed_by_whoever_states_no_lease",),
    ),
    Mutant(
        "a renewal rewrites what it likes",
        (Edit("guard/conditions.py", "for column in HISTORY if column not in move.writes]", "for column in ()]"),),
        (HISTORY + "test_a_renewal_that_rewrites_the_history",),
    ),
    Mutant(
        "a new task brings its history",
        (Edit("guard/conditions.py", 'f"NEW.{column} IS NULL" for column in HISTORY', '"TRUE" for column in HISTORY'),),
        (HISTORY + "test_a_new_task_with_a_history",),
    ),
    Mutant(
        "operators are looked up by name",
        (Edit("guard/postgresql.py", r'OPERATOR.sub(r" OPERATOR(pg_catalog.\1) ", sql)', "sql"),),
        (RESTORE + "test_operators_of_a_session_change_no_verdict",),
        on=PG,
    ),
    Mutant(
        "conditions are read by the installer's search_path",
        (
            Edit(
                INSTALL,
                '        cursor.execute("SET LOCAL search_path = pg_catalog, pg_temp")\n        create(',
                "        create(",
            ),
        ),
        (RESTORE + "test_a_guard_that_is_installed_beside_foreign_operators_does_not_take_them",),
        on=PG,
    ),
    Mutant(
        "seals compare print",
        (
            Edit(
                "guard/conditions.py",
                """" OR ".join(f"{operand} = '{value}'" for value in values)""",
                """f"{operand} IN (" + ", ".join(f"'{value}'" for value in values) + ")\"""",
            ),
            Edit(INSTALL, """'::[a-z "]+([[][]])?|[()"[:space:]]'""", "'no such text'"),
        ),
        (RESTORE + "test_a_guard_that_was_printed_and_read_again_is_whole",),
        on=PG,
    ),
    Mutant(
        "nobody looks at the clock",
        (Edit(INSTALL, "clock = set() if clock_is_whole(cursor) else {FUNCTION}", "clock = set()"),),
        (RESTORE + "test_a_clock_that_is_gone_or_wrong_is_missed_and_put_right",),
        on=PG,
    ),
    Mutant(
        "a table is truncated by itself",
        (Edit("guard/postgresql.py", "refuse_if(left, ", 'refuse_if("FALSE", '),),
        (DELETION + "test_some_of_the_tables_are_not_truncated",),
        on=PG,
    ),
    Mutant(
        "any deletion passes for a flush",
        (Edit("guard/sqlite.py", "    return frame is not None\n", "    return True\n"),),
        (DELETION + "test_an_unfinished_task_is_not_deleted_by_a_queryset",),
        on=SQLITE,
    ),
    Mutant(
        "rows are replaced",
        (Edit("guard/sqlite.py", "f\"{exists(TASK, 'id = NEW.id')} OR {taken} OR", 'f"{taken} OR'),),
        (DELETION + "test_a_row_is_not_replaced",),
        on=SQLITE,
    ),
    Mutant(
        "a fixture rewrites tasks",
        (Edit("guard/installation.py", "filter(pk=instance.pk).exists()", "none().exists()"),),
        (RESTORE + "test_a_fixture_changes_no_task_that_exists",),
    ),
    Mutant(
        "shapes are not looked at",
        (Edit("guard/conditions.py", '{"args": "array", "kwargs": "object", ', '{"kwargs": "object", '),),
        (PAYLOAD + "test_a_row_that_nobody_could_read_is_refused",),
    ),
    Mutant(
        "a series goes on beyond what can be stored",
        (
            Edit("taskqueue/sql/finish_repeating.sql", " AND s.slot < '9000-01-01'", ""),
            Edit("taskqueue/engines/sqlite_leases.py", "if task.eta.year < LAST_YEAR", "if True"),
        ),
        (PAYLOAD + "test_a_series_ends_with_the_times_that_can_be_stored",),
    ),
)  # fmt: skip
