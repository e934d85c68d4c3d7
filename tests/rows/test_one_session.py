"""Settings that a database, a role or a project gives its sessions cost no task anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from django_tasks_retry import guard
from tests.admin.conftest import operator  # noqa: F401 - a fixture
from tests.rows.innocents import Innocents

SETTINGS = {
    "postgresql": (
        "intervalstyle = 'sql_standard'", "transform_null_equals = on", "standard_conforming_strings = off",
        "bytea_output = 'escape'", "extra_float_digits = -15", "quote_all_identifiers = on", "row_security = off",
        "enable_seqscan = off", "plan_cache_mode = force_generic_plan", "jit_above_cost = 0", "work_mem = '64kB'",
        "join_collapse_limit = 1", "geqo_threshold = 2", "lock_timeout = 200", "client_min_messages = debug1",
        "parallel_setup_cost = 0",
    ),
    "sqlite": (
        "reverse_unordered_selects = 1", "case_sensitive_like = 1", "recursive_triggers = 1", "automatic_index = 0",
        "cell_size_check = 1", "secure_delete = 1", "cache_size = 1", "legacy_alter_table = 1",
    ),
}  # fmt: skip
"""Values that Django itself can live with, though few would choose them. All at once."""


@pytest.fixture
def odd_session(database: str) -> Iterator[str]:
    """The transaction of the test takes PostgreSQL's settings back."""
    connection, before = connections[database], []
    with connection.cursor() as cursor:
        for setting in SETTINGS[connection.vendor]:
            if connection.vendor == "sqlite":
                name = setting.split()[0]
                cursor.execute(f"PRAGMA {name}")
                before += [f"{name} = {(cursor.fetchone() or (0,))[0]}"]
            cursor.execute(f"{'SET LOCAL' if connection.vendor == 'postgresql' else 'PRAGMA'} {setting}")
        yield database
        for setting in before:
            cursor.execute(f"PRAGMA {setting}")


def test_no_setting_of_a_session_stops_a_neighbour(odd_session, operator):  # noqa: F811
    assert not guard.missing(odd_session)
    found = Innocents(odd_session, operator).failures()
    assert not found, "\n".join(found)
