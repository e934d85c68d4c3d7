"""What a worker runs on, and the page of functions. With a default in the database: older workers go on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0008_worker_threads")]

    operations = [
        migrations.AddField(
            "worker",
            "release",
            models.CharField(db_default="", default="", max_length=100, verbose_name="release"),
        ),
        migrations.AddField(
            "worker",
            "versions",
            models.JSONField(help_text="Of Python and the installed packages.", null=True, verbose_name="versions"),
        ),
        migrations.CreateModel(
            name="TaskFunction",
            fields=[],
            options={
                "verbose_name": "function",
                "verbose_name_plural": "functions",
                "default_permissions": (),
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("django_tasks_retry.task",),
        ),
    ]
