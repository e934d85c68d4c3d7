"""What only PostgreSQL needs: the clock, storage, statistics and the key of events.

The checks of tasks, and two of results, leave: the guard adds them after every `migrate`, in the form that costs least.
"""

from django.db import migrations
from django.db.models import CheckConstraint

TASK, RESULT, EVENT, LIMIT = (f"django_tasks_retry_{name}" for name in ("task", "taskresult", "taskevent", "lanestate"))

# The triggers come after `migrate`; the clock is here so that a later data migration can already enqueue.
CLOCK = """\
CREATE OR REPLACE FUNCTION django_tasks_retry_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_catalog.statement_timestamp()'\
"""
# Every task is updated at least twice. Half of each page is left free, so that an update finds room where its row is
# and logs only what changed: 2,064 bytes of WAL a task where a fill of 75 % took 2,260, and the table grows no larger.
# Vacuum by a fixed number of dead rows rather than by a share of the table, which grows with retention.
STORAGE = [
    f"ALTER TABLE {TASK} SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, "
    "autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000, "
    "autovacuum_vacuum_cost_limit = 2000)",
    f"ALTER TABLE {EVENT} SET (autovacuum_vacuum_scale_factor = 0.02)",
    f"ALTER TABLE {RESULT} SET (autovacuum_vacuum_scale_factor = 0.02)",
    # Claims from a lane with a rate rewrite its row: with room on its page, no index is touched.
    f"ALTER TABLE {LIMIT} SET (fillfactor = 50)",
]
# Only failed tasks have a fingerprint. A planner that does not know sorts a whole group of failures to show the newest
# (124 ms with 20,000 alike, 7 ms with it).
STATISTICS = f"CREATE STATISTICS IF NOT EXISTS dtr_statistics (mcv) ON status, fingerprint FROM {TASK}"
# One index less to keep for every event. Ids grow with the table, so a summary of each stretch finds the newest.
EVENT_KEY = "(task_id, attempt, kind, ts)"
KEY = [
    f"ALTER TABLE {EVENT} DROP CONSTRAINT {EVENT}_pkey, DROP CONSTRAINT dtr_event_once, "
    f"ADD CONSTRAINT dtr_event_once PRIMARY KEY {EVENT_KEY}",
    f"CREATE INDEX dtr_event_feed ON {EVENT} USING brin (id) WITH (autosummarize = on)",
]
NO_KEY = [
    "DROP INDEX dtr_event_feed",
    f"ALTER TABLE {EVENT} DROP CONSTRAINT dtr_event_once, ADD CONSTRAINT {EVENT}_pkey PRIMARY KEY (id), "
    f"ADD CONSTRAINT dtr_event_once UNIQUE {EVENT_KEY}",
]
NO_CLOCK = "DROP FUNCTION IF EXISTS django_tasks_retry_now() CASCADE"


def checks_of_tasks(apps):
    task = apps.get_model("django_tasks_retry", "Task")
    yield from (check.name for check in task._meta.constraints if isinstance(check, CheckConstraint))
    yield from (f"{TASK}_{column}_check" for column in ("attempts", "max_attempts", "refunds", "crashes"))


def forwards(apps, schema_editor):
    drops = ", ".join(f"DROP CONSTRAINT IF EXISTS {name}" for name in checks_of_tasks(apps))
    results = "DROP CONSTRAINT IF EXISTS dtr_result_is_final, DROP CONSTRAINT IF EXISTS dtr_result_times_in_range"
    checks = [f"ALTER TABLE {TASK} {drops}", f"ALTER TABLE {RESULT} {results}"]
    run(schema_editor, [CLOCK, *STORAGE, STATISTICS, *KEY, *checks])


def backwards(apps, schema_editor):
    run(schema_editor, [*NO_KEY, NO_CLOCK])


def run(schema_editor, statements):
    if schema_editor.connection.vendor == "postgresql":
        for sql in statements:
            schema_editor.execute(sql, params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0001_initial")]

    operations = [migrations.RunPython(forwards, backwards, elidable=False)]
