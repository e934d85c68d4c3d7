"""Until when a task may start, after which other one, and whether alone. Other tasks enter no index for it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0010_lanes")]

    operations = [
        migrations.AddField(
            "task",
            "expires_at",
            models.DateTimeField(
                help_text="Cancelled where its first attempt has not begun by then.",
                null=True,
                verbose_name="expires at",
            ),
        ),
        migrations.AddField(
            "task",
            "follows",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="followers",
                to="django_tasks_retry.task",
            ),
        ),
        migrations.AddField(
            "task",
            "crashes",
            models.PositiveSmallIntegerField(
                help_text="How many of its last attempts in a row died with their process.",
                null=True,
                verbose_name="crashes",
            ),
        ),
        migrations.AddIndex(
            "task",
            models.Index(
                condition=models.Q(("crashes__gte", 2), ("finished_at__isnull", True), ("locked_by__isnull", True)),
                fields=["eta"],
                name="dtr_suspects",
            ),
        ),
        migrations.AddIndex(
            "task",
            models.Index(
                condition=models.Q(
                    ("attempts", models.F("refunds")),
                    ("expires_at__isnull", False),
                    ("finished_at__isnull", True),
                    ("locked_by__isnull", True),
                ),
                fields=["expires_at"],
                name="dtr_expiring",
            ),
        ),
    ]
