"""Counters that are never pruned, and histograms of waits and run times.

New columns have a default of the database's own: workers of the version before go on adding during a deploy.
"""

from django.db import migrations, models

BUCKETS = ["10ms", "50ms", "250ms", "1s", "5s", "30s", "5m", "1h", "more"]
HISTOGRAMS = [f"{what}_{bucket}" for what in ("ran", "waited") for bucket in BUCKETS]


def count():
    return models.BigIntegerField(db_default=0, default=0)


def seconds(name):
    return models.FloatField(db_default=0, default=0, verbose_name=name)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0006_schedules")]

    operations = [
        migrations.AddField("taskstat", "wait_seconds", seconds("seconds waited")),
        *(migrations.AddField("taskstat", name, count()) for name in HISTOGRAMS),
        migrations.CreateModel(
            name="TaskTotal",
            fields=[
                ("wait_seconds", seconds("seconds waited")),
                *((name, count()) for name in HISTOGRAMS),
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", models.CharField(max_length=64, verbose_name="queue")),
                ("func_path", models.CharField(max_length=255, verbose_name="task")),
                *((name, count()) for name in ("completed", "retried", "failed")),
                ("seconds", seconds("seconds spent")),
            ],
            options={
                "verbose_name": "task total",
                "verbose_name_plural": "task totals",
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("queue", "func_path"), name="dtr_one_total")],
            },
        ),
    ]
