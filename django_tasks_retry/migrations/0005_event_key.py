"""Events of a task by one index instead of two, which also refuses what was told before."""

import django.db.models.deletion
from django.db import migrations, models

TABLE = "django_tasks_retry_taskevent"
KEY = (
    f"ALTER TABLE {TABLE} DROP CONSTRAINT {TABLE}_pkey, "
    "ADD CONSTRAINT dtr_event_once PRIMARY KEY (task_id, attempt, kind, ts)"
)
BY_ID = f"ALTER TABLE {TABLE} DROP CONSTRAINT dtr_event_once, ADD CONSTRAINT {TABLE}_pkey PRIMARY KEY (id)"
# Ids grow with the table, so a summary of each stretch of it is enough to find the newest.
FOLLOW = f"CREATE INDEX dtr_event_feed ON {TABLE} USING brin (id) WITH (autosummarize = on)"


class MakeKey(migrations.AddConstraint):
    """On PostgreSQL it takes the place of the primary key: one index less to keep for every event."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        self.run(super().database_forwards, [KEY, FOLLOW], app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        self.run(
            super().database_backwards, ["DROP INDEX dtr_event_feed", BY_ID], app_label, schema_editor, from_state,
            to_state,
        )  # fmt: skip

    def run(self, elsewhere, statements, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            elsewhere(app_label, schema_editor, from_state, to_state)
        elif self.allow_migrate_model(schema_editor.connection.alias, model):
            for statement in statements:
                schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("django_tasks_retry", "0004_validate_bounds"),
    ]

    operations = [
        MakeKey(
            model_name="taskevent",
            constraint=models.UniqueConstraint(fields=("task", "attempt", "kind", "ts"), name="dtr_event_once"),
        ),
        migrations.AlterField(
            model_name="taskevent",
            name="task",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="events",
                to="django_tasks_retry.task",
            ),
        ),
    ]
