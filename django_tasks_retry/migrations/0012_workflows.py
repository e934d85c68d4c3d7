"""What tasks remember, batches of tasks, and what tasks wait for. Nullable columns: older workers go on."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_tasks_retry", "0011_flow_control"),
    ]

    operations = [
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False, verbose_name="name")),
                ("payload", models.JSONField(null=True, verbose_name="payload")),
                ("ts", models.DateTimeField(verbose_name="time")),
                ("actor", models.CharField(max_length=160, verbose_name="actor")),
            ],
            options={
                "verbose_name": "signal",
                "verbose_name_plural": "signals",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=220, verbose_name="name")),
                ("kind", models.CharField(max_length=10, verbose_name="kind")),
                ("attempt", models.PositiveIntegerField(verbose_name="attempt")),
                ("actor", models.CharField(max_length=160, verbose_name="actor")),
                ("ts", models.DateTimeField(verbose_name="time")),
                ("result", models.JSONField(null=True, verbose_name="result")),
            ],
            options={
                "verbose_name": "step",
                "verbose_name_plural": "steps",
                "ordering": ["id"],
                "default_permissions": ("view",),
            },
        ),
        migrations.AddField(
            model_name="task",
            name="batch",
            field=models.UUIDField(help_text="What it is a member of, and ends with.", null=True, verbose_name="batch"),
        ),
        migrations.AddField(
            model_name="task",
            name="waits_for",
            field=models.CharField(
                help_text="A batch or a signal, which wakes it before its time.",
                max_length=255,
                null=True,
                verbose_name="waits for",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("batch__isnull", False)), fields=["batch", "id"], name="dtr_members"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status__in", ["PENDING", "RUNNING"]), ("batch__isnull", False)),
                fields=["batch", "id"],
                name="dtr_open_members",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status", "PENDING"), ("waits_for__isnull", False)),
                fields=["waits_for", "id"],
                name="dtr_waiting",
            ),
        ),
        migrations.AddField(
            model_name="step",
            name="task",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="steps",
                to="django_tasks_retry.task",
            ),
        ),
        migrations.AddConstraint(
            model_name="step",
            constraint=models.UniqueConstraint(fields=("task", "name"), name="dtr_step_once"),
        ),
    ]
