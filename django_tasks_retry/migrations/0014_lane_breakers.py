"""How attempts of lanes with a circuit breaker ended; and an index over what one has paused."""

from django.db import migrations, models

import django_tasks_retry.utc


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0013_worker_listening")]

    operations = [
        migrations.CreateModel(
            name="LaneStat",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", django_tasks_retry.utc.InstantField(verbose_name="minute")),
                ("lane", models.CharField(max_length=100, verbose_name="lane")),
                ("completed", models.PositiveIntegerField(default=0, verbose_name="completed")),
                ("failed", models.PositiveIntegerField(default=0, verbose_name="failed")),
            ],
            options={
                "verbose_name": "lane statistic",
                "verbose_name_plural": "lane statistics",
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(name="dtr_one_lane_stat", fields=["minute", "lane"])],
            },
        ),
        migrations.AddIndex(
            "lanestate",
            models.Index(
                name="dtr_tripped",
                fields=["kind", "name"],
                condition=models.Q(probe_at__isnull=False) | models.Q(probing_since__isnull=False),
            ),
        ),
    ]
