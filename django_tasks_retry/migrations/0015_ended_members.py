"""Which members of a batch have failed, which ended lately, and which signals came: for who waits for them.

Indexes only, which older workers keep up like all others. A task that is no member of a batch enters neither.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0014_lane_breakers")]

    operations = [
        migrations.AddIndex(
            model_name="signal",
            index=models.Index(fields=["ts"], name="dtr_signals"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("batch__isnull", False), ("status__in", ["FAILED", "CANCELLED"])),
                fields=["batch", "id"],
                name="dtr_failed_members",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("batch__isnull", False), ("finished_at__isnull", False)),
                fields=["finished_at"],
                name="dtr_ended_members",
            ),
        ),
    ]
