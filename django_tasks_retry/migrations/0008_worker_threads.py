"""How many of a worker's slots are threads. With a default in the database: workers of the release before go on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0007_counters")]

    operations = [
        migrations.AddField(
            "worker", "threads", models.PositiveIntegerField(db_default=0, default=0, verbose_name="threads")
        )
    ]
