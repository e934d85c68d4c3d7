"""Who hears wake-ups. With a default in the database: older workers go on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0012_workflows")]

    operations = [
        migrations.AddField(
            "worker",
            "listening",
            models.BooleanField(db_default=False, default=False, verbose_name="hears wake-ups"),
        ),
    ]
