"""Lanes: limits, rates and shares by key. Tasks without a lane keep their index; tasks with one have their own."""

import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models

# Claims from a lane with a rate rewrite its row: with room on its page, no index is touched.
ROOM = "ALTER TABLE django_tasks_retry_lanestate SET (fillfactor = 50)"


def leave_room(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(ROOM, params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("django_tasks_retry", "0009_releases"),
    ]

    operations = [
        migrations.CreateModel(
            name="LaneState",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[("lane", "Lane"), ("queue", "Queue"), ("function", "Function")],
                        default="lane",
                        max_length=8,
                        verbose_name="kind",
                    ),
                ),
                ("name", models.CharField(max_length=255, verbose_name="name")),
                ("running", models.PositiveIntegerField(null=True, verbose_name="running at once")),
                ("starts", models.PositiveIntegerField(null=True, verbose_name="starts")),
                (
                    "per",
                    models.FloatField(
                        help_text="Seconds in which so many may start.", null=True, verbose_name="window"
                    ),
                ),
                ("weight", models.FloatField(null=True, verbose_name="weight")),
                ("decided_by", models.CharField(default="", max_length=160, verbose_name="decided by")),
                ("decided_for", models.CharField(default="", max_length=200, verbose_name="reason")),
                ("paused_at", models.DateTimeField(null=True, verbose_name="paused at")),
                ("paused_by", models.CharField(default="", max_length=160, verbose_name="paused by")),
                ("reason", models.CharField(default="", max_length=200, verbose_name="reason for the pause")),
                ("probe_at", models.DateTimeField(null=True, verbose_name="probe at")),
                ("probing_since", models.DateTimeField(null=True, verbose_name="probing since")),
                ("probe_from", models.JSONField(null=True, verbose_name="outcomes before the probe")),
                ("counts_from", models.DateTimeField(null=True, verbose_name="failures count from")),
                ("recent", models.JSONField(default=list, verbose_name="recent starts")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
            ],
            options={
                "verbose_name": "lane",
                "verbose_name_plural": "lanes",
                "permissions": [("control_lane", "Can pause and limit lanes")],
                "default_permissions": ("view",),
            },
        ),
        migrations.RemoveIndex(
            model_name="task",
            name="dtr_lanes",
        ),
        migrations.AddField(
            model_name="task",
            name="lane",
            field=models.CharField(
                db_default="",
                default="",
                help_text="Whose limits and share it is subject to; empty for none.",
                max_length=100,
                verbose_name="lane",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status", "PENDING"), ("lane", "")),
                fields=["queue", "priority", "eta", "id"],
                name="dtr_lanes",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status", "PENDING"), ("lane__gt", "")),
                fields=["queue", "priority", "lane", "eta", "id"],
                name="dtr_keyed",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(
                    ("status", "PENDING"),
                    django.db.models.lookups.GreaterThan(django.db.models.functions.text.Length(models.F("lane")), 0),
                ),
                fields=["queue", "priority", "eta", "id"],
                name="dtr_keyed_due",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status", "RUNNING"), ("lane__gt", "")), fields=["lane"], name="dtr_lane_leases"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status", "PENDING"), ("lane__gt", ""), ("attempts__gt", 0)),
                fields=["lane"],
                name="dtr_lane_begun",
            ),
        ),
        migrations.AddConstraint(
            model_name="lanestate",
            constraint=models.UniqueConstraint(fields=("kind", "name"), name="dtr_one_lane"),
        ),
        migrations.RunPython(leave_room, migrations.RunPython.noop),
    ]
