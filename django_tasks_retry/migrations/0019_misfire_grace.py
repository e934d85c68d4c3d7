"""`Schedule.late` is called `misfire_grace`. Its column and the check of it stay as they are."""

from django.db import migrations, models

CHECK = "dtr_schedule_late_in_range"


def in_range(name):
    bounds = models.Q((f"{name}__gte", 0), (f"{name}__lte", 1000000000.0))
    return models.CheckConstraint(condition=models.Q((f"{name}__isnull", True), bounds, _connector="OR"), name=CHECK)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0018_lane_bounds")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("schedule", CHECK),
                migrations.RenameField("schedule", "late", "misfire_grace"),
                migrations.AlterField(
                    "schedule",
                    "misfire_grace",
                    models.FloatField(
                        blank=True,
                        db_column="late",
                        help_text="Seconds after which a slot that could not be enqueued is given up. Empty: never.",
                        null=True,
                        verbose_name="late",
                    ),
                ),
                migrations.AddConstraint("schedule", in_range("misfire_grace")),
            ]
        )
    ]
