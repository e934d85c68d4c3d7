"""Install the guard, and find missing parts of it."""

from collections.abc import Sequence
from pkgutil import iter_modules
from typing import Any

from django.conf import settings
from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from .. import migrations
from ..errors import GuardMissing, IllegalMove, NotMigrated
from ..models import Task
from .abilities import abilities_of_tables
from .conditions import RESULT, TASK, exists, guarded, unfinished
from .constraints import dropped, restore
from .postgresql_install import install_on_postgresql, missing_on_postgresql, remove_from_postgresql, remove_functions
from .sqlite import install_on_sqlite, missing_on_sqlite, remove_from_sqlite

# Results beside unfinished tasks, from a time without this guard. Their tasks could never end.
LEFT = exists(f"{TASK} AS t", f"t.id = {RESULT}.task_id AND {unfinished('t')}")
FORGET_STRAYS = f"DELETE FROM {RESULT} WHERE {LEFT}"  # noqa: S608 - names of our own


def install(using: str) -> None:
    """Install the guard if it is missing, disabled or of another version."""
    if not missing(using):
        return
    connection = connections[using]
    if dropped(connection):
        if connection.vendor == "sqlite":
            remove_from_sqlite(connection)
        restore(connection)
    with transaction.atomic(using=using):
        if connection.vendor == "sqlite":
            install_on_sqlite(connection)
        else:
            install_on_postgresql(connection)
        with connection.cursor() as cursor:
            cursor.execute(FORGET_STRAYS)


def missing(using: str) -> set[str]:
    """Return the names of triggers that are absent, disabled or of another version; of checks; and of the clock."""
    connection = connections[using]
    checks = {name for _, name in dropped(connection)}
    if connection.vendor == "sqlite":
        return checks | missing_on_sqlite(connection)
    return checks | missing_on_postgresql(connection)


def unenforced(using: str) -> list[str]:
    """Return the rules that this database cannot enforce by itself, and the queue's own code keeps."""
    return [] if connections[using].vendor == "sqlite" else abilities_of_tables(using).unenforced()


def ensure(using: str) -> None:
    """Refuse to go on without the tables, or without the guard."""
    if not has_tables(using):
        raise NotMigrated(using)
    absent = missing(using)
    if absent:
        raise GuardMissing(
            f"Database {using!r} does not enforce the task contract: {', '.join(sorted(absent))} missing, disabled or "
            "of another version. Run manage.py migrate, which installs the guard."
        )


def remove_before_migrate(using: str, plan: Sequence[tuple[Any, bool]] = (), **_: Any) -> None:
    """Receiver of `pre_migrate`: tables may be remade, or lose columns that triggers name. Reinstalled afterwards."""
    steps = [backwards for migration, backwards in plan if migration.app_label == Task._meta.app_label]
    connection = connections[using]
    if steps and connection.vendor == "sqlite":
        remove_from_sqlite(connection)
    elif any(steps) and connection.vendor == "postgresql":
        remove_from_postgresql(connection)


def install_after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`. Without our tables, functions are left of a guard that is gone."""
    connection = connections[using]
    if is_migrated(using):
        install(using)
    elif connection.vendor == "postgresql" and TASK not in connection.introspection.table_names():
        remove_functions(connection)


def is_migrated(using: str) -> bool:
    """Return whether our tables are there, and of this version: another app may be migrated alone, or ours back."""
    if not router.allow_migrate_model(using, Task) or connections[using].vendor not in {"sqlite", "postgresql"}:
        return False
    return has_tables(using) and has_columns(using) and not missing_migrations(using)


def missing_migrations(using: str) -> list[str]:
    """Return migrations that are not applied, which may add checks. Tables made without migrations lack none."""
    label = Task._meta.app_label
    applied = {name for app, name in MigrationRecorder(connections[using]).applied_migrations() if app == label}
    if not applied or label in settings.MIGRATION_MODULES:
        return []
    return sorted({module.name for module in iter_modules(migrations.__path__)} - applied)


def has_tables(using: str) -> bool:
    connection = connections[using]
    with connection.cursor() as cursor:
        return {model._meta.db_table for model in guarded()} <= set(connection.introspection.table_names(cursor))


def has_columns(using: str) -> bool:
    """Return whether no column is missing. If it was migrated back, the older version installs its own guard."""
    introspection = connections[using].introspection
    with connections[using].cursor() as cursor:
        for model in guarded():
            found = introspection.get_table_description(cursor, model._meta.db_table)
            if not {field.column for field in model._meta.concrete_fields} <= {column.name for column in found}:
                return False
    return True


def open_for_fixture(sender: type[Model], instance: Model, using: str, *, raw: bool, **_: Any) -> None:
    """Receiver of `pre_save`, which is raw for what a fixture holds."""
    if not raw:
        return
    connection = connections[using]
    if not connection.in_atomic_block:
        raise IllegalMove(f"A {sender.__name__} of a fixture is loaded in a transaction only, as loaddata does.")
    if sender._base_manager.using(using).filter(pk=instance.pk).exists():
        raise IllegalMove(
            f"{sender.__name__} {instance.pk} exists: a fixture adds tasks, it changes none. Load it into an empty "
            "database, or leave the app out: dumpdata --exclude django_tasks_retry."
        )
    switch_triggers(sender, connection, on=False)


def close_after_fixture(sender: type[Model], using: str, *, raw: bool, **_: Any) -> None:
    """Receiver of `post_save`."""
    if raw:
        switch_triggers(sender, connections[using], on=True)


def switch_triggers(model: type[Model], connection: BaseDatabaseWrapper, *, on: bool) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {model._meta.db_table} {'ENABLE' if on else 'DISABLE'} TRIGGER USER")
    else:
        (install_on_sqlite if on else remove_from_sqlite)(connection)
