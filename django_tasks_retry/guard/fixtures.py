"""`loaddata`: a fixture tells of lives that were lived elsewhere, so its rows are let in as they are.

Only new rows, only in a transaction, and only for whoever owns the tables: the triggers are off for the one row, under
a lock that keeps every other writer out until the transaction ends.
"""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from ..errors import IllegalMove
from .sqlite import install_on_sqlite, remove_from_sqlite


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
    let_pass(sender, connection)


def close_after_fixture(sender: type[Model], using: str, *, raw: bool, **_: Any) -> None:
    """Receiver of `post_save`."""
    if raw:
        guard_again(sender, connections[using])


def let_pass(model: type[Model], connection: BaseDatabaseWrapper) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {model._meta.db_table} DISABLE TRIGGER USER")
    else:
        remove_from_sqlite(connection)


def guard_again(model: type[Model], connection: BaseDatabaseWrapper) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {model._meta.db_table} ENABLE TRIGGER USER")
    else:
        install_on_sqlite(connection)
