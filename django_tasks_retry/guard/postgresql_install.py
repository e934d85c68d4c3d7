"""Install the guard on PostgreSQL, seal its triggers, and find those that are missing or changed."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..clock import FUNCTION, create_clock, known_clocks
from . import sql_enqueue
from .abilities import ALL, Abilities, abilities_of_tables
from .conditions import PARTITIONED, TASK
from .postgresql import ARCHIVED, BEFORE_THE_END, CONTRACT_ROWS, KNOWN, ONCE_TRUNCATED, contract_functions
from .postgresql_roles import ROLE_ROWS, role_functions

ROWS = ROLE_ROWS | CONTRACT_ROWS  # name of a trigger → its table, when it fires, and its function
CHILDREN = """
SELECT parent.relname, child.relname, child.relispartition
FROM pg_inherits AS i
JOIN pg_class AS parent ON parent.oid = i.inhparent
JOIN pg_class AS child ON child.oid = i.inhrelid
WHERE parent.relnamespace = quote_ident(current_schema())::regnamespace AND parent.relname = ANY (%s)
    AND parent.relkind IN ('r', 'p')
"""
# By what a trigger does, not by how the server prints it: that changes with search_path, with its version, and once it
# was dumped and restored, by which brackets, quotes and casts it writes. Without backslashes, which not every session
# reads alike.
SEALS = """
SELECT c.relname, t.tgname, %s || ':' || md5(concat_ws(
        '|', t.tgtype, t.tgoldtable, t.tgnewtable, t.tgdeferrable, t.tginitdeferred,
        (SELECT string_agg(a.attname, ',' ORDER BY a.attname)
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (t.tgattr::int2[])),
        regexp_replace(
            substring(pg_get_triggerdef(t.oid) FROM ' WHEN [(](.*)[)] EXECUTE '),
            '::[a-z "]+([[][]])?|[()"[:space:]]', '', 'g'
        ),
        p.proname, p.prosrc, p.provolatile, p.proconfig, p.prosecdef, l.lanname
    )), obj_description(t.oid, 'pg_trigger')
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_proc p ON p.oid = t.tgfoid
JOIN pg_language l ON l.oid = p.prolang
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
    AND (NOT t.tgisinternal OR t.tgparentid <> 0) AND t.tgenabled IN ('O', 'A')
"""
FUNCTIONS = """
SELECT p.oid::regprocedure::text
FROM pg_proc AS p
WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
    AND p.proname ~ '^(django_tasks_retry_enqueue|dtr_(task_is_sound|guard_[a-z_]+|[a-z_]+_[0-9a-f]{12}))$'
"""
CLOCK = """
SELECT p.prosrc
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname = %s AND p.pronargs = 0
    AND p.prorettype = 'timestamptz'::regtype AND l.lanname = 'sql' AND p.provolatile = 's'
    AND p.proconfig IS NULL AND NOT p.prosecdef
"""


BY_ROW = {
    "FROM moved AS ": "FROM (SELECT NEW.*) AS ",
    "FROM added AS ": "FROM (SELECT NEW.*) AS ",
    "FROM gone ": "FROM (SELECT OLD.*) AS gone ",
}
"""The table of a statement's rows → the one row."""
OF_STATEMENT = re.compile(r"REFERENCING (?:NEW|OLD) TABLE AS \w+ FOR EACH STATEMENT")


def rows_for(abilities: Abilities = ALL) -> dict[str, tuple[str, str, str]]:
    """Return the triggers that this server can have. Looking at row after row, they see whole statements, too."""
    rows = ROWS
    if not abilities.deferrable_triggers:
        rows = {name: row for name, row in rows.items() if row[1] != BEFORE_THE_END}
    if not abilities.transition_tables:
        rows = {
            name: (table, OF_STATEMENT.sub("FOR EACH ROW", when), function)
            for name, (table, when, function) in rows.items()
            if when != ONCE_TRUNCATED
        }
    return rows


def postgresql_functions(abilities: Abilities = ALL) -> list[str]:
    functions = [*contract_functions(), *role_functions(), sql_enqueue.CREATE]
    for rows, row in {} if abilities.transition_tables else BY_ROW.items():
        functions = [sql.replace(rows, row) for sql in functions]
    return functions


def postgresql_triggers(abilities: Abilities = ALL) -> dict[str, tuple[str, str]]:
    """Name → (table, definition)."""
    return {
        name: (table, f"CREATE {kind_of(when)} {name} {when} EXECUTE FUNCTION {{schema}}.{function}()")
        for name, (table, when, function) in rows_for(abilities).items()
    }


def triggers_of(parent: str) -> dict[str, str]:
    """Return the triggers that each partition of this table, or each table of finished tasks, has: name → definition.

    Triggers for each row come from the parent by themselves, and leave with its own.
    """
    if parent == TASK:
        return definitions(ARCHIVED)
    rows = {name: (when, function) for name, (table, when, function) in ROWS.items() if table == parent}
    return definitions({name: row for name, row in rows.items() if "FOR EACH STATEMENT" in row[0]})


def definitions(rows: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {
        name: f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {{schema}}.{function}()"
        for name, (when, function) in rows.items()
    }


def kind_of(when: str) -> str:
    return "CONSTRAINT TRIGGER" if "DEFERRABLE" in when else "TRIGGER"


def guard_version(abilities: Abilities = ALL) -> str:
    """Changes whenever the guard's text does, so that an old guard is recognised."""
    triggers = [sql for _, sql in postgresql_triggers(abilities).values()]
    triggers += definitions(ARCHIVED | KNOWN).values()
    text = "\n".join([*postgresql_functions(abilities), *triggers])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def install_on_postgresql(connection: BaseDatabaseWrapper) -> None:
    abilities = abilities_of_tables(connection.alias)
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema()), current_setting('search_path')")
        schema, search_path = cursor.fetchone()
        children = read_children(cursor) if abilities.inheritance else []
        # Whoever may create operators in a schema of the path must not lend them to the conditions.
        cursor.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        create(cursor, schema, abilities)
        for parent, child in children:
            create_triggers(cursor, schema, child, triggers_of(parent))
        if TASK in dict(children):
            create_triggers(cursor, schema, TASK, definitions(KNOWN))
        cursor.execute("SELECT set_config('search_path', %s, true)", [search_path])
        seal(cursor, schema, abilities=abilities)


def guard_parent(cursor: Any, table: str) -> None:
    """For a table that takes the place of another one. In a transaction."""
    guard_table(cursor, table, {name: sql for name, (its, sql) in postgresql_triggers().items() if its == table})


def guard_known_ids(cursor: Any) -> None:
    """Guard the ids of the table of tasks, once some tasks are elsewhere. In a transaction."""
    guard_table(cursor, TASK, definitions(KNOWN))


def guard_child(cursor: Any, parent: str, child: str) -> None:
    """For a new partition, or a new table of finished tasks. In a transaction."""
    guard_table(cursor, child, triggers_of(parent))


def guard_table(cursor: Any, table: str, triggers: Mapping[str, str]) -> None:
    cursor.execute("SELECT quote_ident(current_schema()), current_setting('search_path')")
    schema, search_path = cursor.fetchone()
    cursor.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    create_triggers(cursor, schema, table, triggers)
    cursor.execute("SELECT set_config('search_path', %s, true)", [search_path])


def seal(cursor: Any, schema: str, tables: Collection[str] = (), abilities: Abilities = ALL) -> None:
    """Write on each trigger what it must be; on those of some tables, or on all."""
    for table, name, text, comment in postgresql_seals(cursor, abilities):
        if name in {*ROWS, *ARCHIVED, *KNOWN} and text != comment and (not tables or table in tables):
            cursor.execute(f"COMMENT ON TRIGGER {name} ON {schema}.\"{table}\" IS '{text}'")


def remove_from_postgresql(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
        for name, (table, _) in postgresql_triggers().items():
            if table in there:
                cursor.execute(f'DROP TRIGGER IF EXISTS {name} ON "{table}"')


def remove_functions(connection: BaseDatabaseWrapper) -> None:
    """Drop the functions of triggers and of kept statements. Their tables are gone."""
    with connection.cursor() as cursor:
        cursor.execute(FUNCTIONS)
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP FUNCTION {name}")


def create(cursor: Any, schema: str, abilities: Abilities) -> None:
    cursor.execute(create_clock(f"{schema}."))
    for sql in postgresql_functions(abilities):
        cursor.execute(sql.format(schema=schema))
    for name, (table, sql) in postgresql_triggers(abilities).items():
        create_triggers(cursor, schema, table, {name: sql})


def create_triggers(cursor: Any, schema: str, table: str, triggers: Mapping[str, str]) -> None:
    for name, sql in triggers.items():
        qualified = f'{schema}."{table}"'
        cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {qualified}")
        cursor.execute(sql.format(schema=schema, table=qualified))


def missing_on_postgresql(connection: BaseDatabaseWrapper) -> set[str]:
    abilities = abilities_of_tables(connection.alias)
    with connection.cursor() as cursor:
        sealed = {
            (table, name) for table, name, seal, comment in postgresql_seals(cursor, abilities) if seal == comment
        }
        clock = set() if clock_is_whole(cursor) else {FUNCTION}
        children = read_children(cursor) if abilities.inheritance else []
    absent = {name for name, (table, *_) in rows_for(abilities).items() if (table, name) not in sealed}
    return clock | absent | {f"{name} on {child}" for child, name in required(children) - sealed}


def required(children: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Child and trigger, those for each row included."""
    of_table = {parent: [name for name, (table, *_) in ROWS.items() if table == parent] for parent, _ in children}
    needed = {
        (child, name) for parent, child in children for name in (ARCHIVED if parent == TASK else of_table[parent])
    }
    return needed | ({(TASK, name) for name in KNOWN} if TASK in dict(children) else set())


def postgresql_seals(cursor: Any, abilities: Abilities = ALL) -> list[tuple[str, str, str, str | None]]:
    """Return table and name of each enabled trigger, the seal it should bear, and its comment, which holds the seal."""
    cursor.execute(SEALS, [guard_version(abilities)])
    return list(cursor.fetchall())


def clock_is_whole(cursor: Any) -> bool:
    """Return whether the queue's clock is there and tells the server's time, or what this process has shifted it to."""
    cursor.execute(CLOCK, [FUNCTION])
    found = cursor.fetchone()
    return found is not None and found[0] in known_clocks()


def read_children(cursor: Any) -> list[tuple[str, str]]:
    """Parent and child: partitions of results, events and steps; tables of finished tasks."""
    cursor.execute(CHILDREN, [[TASK, *PARTITIONED]])
    return [(parent, child) for parent, child, _ in cursor.fetchall()]
