"""Bounds of what a row can hold: no reader dies of a year 20000 or of an infinite number."""

import django.db.models.lookups
from django.db import migrations, models


class AddCheck(migrations.AddConstraint):
    """Without a look at the rows that are there, under a lock that is short. The next migration looks at them."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        elif self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.execute(f"{self.constraint.create_sql(model, schema_editor)} NOT VALID", params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("django_tasks_retry", "0002_postgresql"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="task",
            name="dtr_running_has_lease",
        ),
        migrations.RemoveConstraint(
            model_name="task",
            name="dtr_lease_is_whole",
        ),
        migrations.RemoveConstraint(
            model_name="task",
            name="dtr_max_attempts_positive",
        ),
        migrations.RemoveConstraint(
            model_name="task",
            name="dtr_interval_not_negative",
        ),
        migrations.RemoveConstraint(
            model_name="task",
            name="dtr_timeout_positive",
        ),
        migrations.RemoveConstraint(
            model_name="task",
            name="dtr_texts_are_bounded",
        ),
        AddCheck(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "RUNNING"), ("lock_expires_at__isnull", False), ("locked_by__isnull", False)),
                    models.Q(
                        models.Q(("status", "RUNNING"), _negated=True),
                        ("lock_expires_at__isnull", True),
                        ("locked_by__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="dtr_running_has_lease",
            ),
        ),
        AddCheck(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.GreaterThanOrEqual(models.F("created_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("created_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("eta"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("eta"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("slot"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("slot"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("updated_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("updated_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("started_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("started_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(
                        models.F("last_attempt_at"), models.Value("1900-01-01")
                    ),
                    django.db.models.lookups.LessThan(models.F("last_attempt_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(
                        models.F("lock_expires_at"), models.Value("1900-01-01")
                    ),
                    django.db.models.lookups.LessThan(models.F("lock_expires_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("finished_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("finished_at"), models.Value("9100-01-01")),
                ),
                name="dtr_times_in_range",
            ),
        ),
        AddCheck(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("max_attempts__range", (1, 1000000)),
                    ("timeout__gt", 0),
                    ("timeout__lte", 1000000000.0),
                    models.Q(("interval", 0), ("interval__range", (0.001, 1000000000.0)), _connector="OR"),
                ),
                name="dtr_numbers_in_range",
            ),
        ),
        AddCheck(
            model_name="taskresult",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.GreaterThanOrEqual(
                        models.F("last_attempt_at"), models.Value("1900-01-01")
                    ),
                    django.db.models.lookups.LessThan(models.F("last_attempt_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("finished_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("finished_at"), models.Value("9100-01-01")),
                ),
                name="dtr_result_times_in_range",
            ),
        ),
    ]
