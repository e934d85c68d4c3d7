"""What only PostgreSQL needs: the clock, room for updates within a page, and a vacuum that keeps up with a queue."""

from django.db import migrations

# The triggers come after `migrate`; the clock is here so that a later data migration can already enqueue.
CLOCK = """\
CREATE OR REPLACE FUNCTION django_tasks_retry_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_catalog.statement_timestamp()'\
"""
# Every task is updated at least twice. Half of each page is left free, so that an update finds room where its row is
# and logs only what changed: 2,064 bytes of WAL a task where a fill of 75 % took 2,260, and the table grows no larger.
# Vacuum by a fixed number of dead rows rather than by a share of the table, which grows with retention.
STORAGE = [
    "ALTER TABLE django_tasks_retry_task SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, "
    "autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000, "
    "autovacuum_vacuum_cost_limit = 2000)",
    "ALTER TABLE django_tasks_retry_taskevent SET (autovacuum_vacuum_scale_factor = 0.02)",
    "ALTER TABLE django_tasks_retry_taskresult SET (autovacuum_vacuum_scale_factor = 0.02)",
]
# Only failed tasks have a fingerprint. A planner that does not know sorts a whole group of failures to show the newest
# (124 ms with 20,000 alike, 7 ms with it).
STATISTICS = "CREATE STATISTICS IF NOT EXISTS dtr_statistics (mcv) ON status, fingerprint FROM django_tasks_retry_task"


def forwards(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for sql in [CLOCK, *STORAGE, STATISTICS]:
            schema_editor.execute(sql, params=None)


def backwards(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS django_tasks_retry_now() CASCADE", params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0001_initial")]

    operations = [migrations.RunPython(forwards, backwards, elidable=False)]
