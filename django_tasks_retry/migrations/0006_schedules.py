"""Schedules: rows that enqueue; tasks know theirs, and workers tell which stand in their code."""

import django.db.models.deletion
import django.db.models.lookups
from django.db import migrations, models

# ruff: noqa: E501


class Migration(migrations.Migration):
    dependencies = [
        ("django_tasks_retry", "0005_event_key"),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("name", models.CharField(max_length=128, primary_key=True, serialize=False, verbose_name="name")),
                ("func_path", models.CharField(max_length=255, verbose_name="task")),
                ("args", models.JSONField(blank=True, default=list, verbose_name="arguments")),
                ("kwargs", models.JSONField(blank=True, default=dict, verbose_name="keyword arguments")),
                ("backend", models.CharField(default="default", max_length=64, verbose_name="backend")),
                (
                    "queue",
                    models.CharField(
                        blank=True, help_text="Empty: the task's own.", max_length=64, null=True, verbose_name="queue"
                    ),
                ),
                (
                    "priority",
                    models.SmallIntegerField(
                        blank=True, help_text="Empty: the task's own.", null=True, verbose_name="priority"
                    ),
                ),
                (
                    "cron",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="Minute, hour, day, month, weekday: 30 8 * * mon-fri. Or a name: @hourly, @daily, @weekly.",
                        max_length=100,
                        verbose_name="cron expression",
                    ),
                ),
                (
                    "every",
                    models.FloatField(
                        blank=True,
                        help_text="Seconds between runs, instead of an expression.",
                        null=True,
                        verbose_name="every",
                    ),
                ),
                (
                    "timezone",
                    models.CharField(
                        help_text="In which the expression is read, such as Europe/Berlin.",
                        max_length=64,
                        verbose_name="time zone",
                    ),
                ),
                (
                    "overlap",
                    models.CharField(
                        choices=[("skip", "skip"), ("queue", "queue"), ("allow", "allow")],
                        default="skip",
                        help_text="While the previous run has not finished: skip the slot, queue it behind that run, or allow both.",
                        max_length=5,
                        verbose_name="overlap",
                    ),
                ),
                (
                    "late",
                    models.FloatField(
                        blank=True,
                        help_text="Seconds after which a slot that could not be enqueued is given up. Empty: never.",
                        null=True,
                        verbose_name="late",
                    ),
                ),
                ("starts_at", models.DateTimeField(blank=True, null=True, verbose_name="starts at")),
                ("ends_at", models.DateTimeField(blank=True, null=True, verbose_name="ends at")),
                (
                    "source",
                    models.CharField(
                        choices=[("code", "code"), ("settings", "settings"), ("database", "database")],
                        default="database",
                        editable=False,
                        max_length=8,
                        verbose_name="source",
                    ),
                ),
                ("paused_at", models.DateTimeField(editable=False, null=True, verbose_name="paused at")),
                ("paused_by", models.CharField(default="", editable=False, max_length=160, verbose_name="paused by")),
                ("reason", models.CharField(default="", editable=False, max_length=200, verbose_name="reason")),
                ("vanished_at", models.DateTimeField(editable=False, null=True, verbose_name="vanished at")),
                ("anchor", models.DateTimeField(editable=False, null=True, verbose_name="counts from")),
                ("next_at", models.DateTimeField(editable=False, null=True, verbose_name="next slot")),
                ("last_at", models.DateTimeField(editable=False, null=True, verbose_name="last slot")),
                (
                    "last_outcome",
                    models.CharField(
                        choices=[("enqueued", "enqueued"), ("skipped", "skipped"), ("missed", "missed")],
                        default="",
                        editable=False,
                        max_length=8,
                        verbose_name="last outcome",
                    ),
                ),
                ("updated_at", models.DateTimeField(editable=False, verbose_name="updated at")),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "permissions": [("pause_schedule", "Can pause schedule"), ("run_schedule", "Can run schedule now")],
            },
        ),
        migrations.AddField(
            model_name="operatorevent",
            name="data",
            field=models.JSONField(null=True, verbose_name="data"),
        ),
        migrations.AddField(
            model_name="worker",
            name="schedules",
            field=models.JSONField(
                help_text="Names of the schedules in its code.", null=True, verbose_name="schedules"
            ),
        ),
        migrations.AlterField(
            model_name="task",
            name="slot",
            field=models.DateTimeField(
                help_text="The instant a repeating or scheduled task was meant to run.", null=True, verbose_name="slot"
            ),
        ),
        migrations.AddIndex(
            model_name="operatorevent",
            index=models.Index(fields=["subject", "id"], name="dtr_decisions"),
        ),
        migrations.AddIndex(
            model_name="operatorevent",
            index=models.Index(fields=["kind", "id"], name="dtr_decision_kinds"),
        ),
        migrations.AddIndex(
            model_name="schedule",
            index=models.Index(
                condition=models.Q(
                    ("next_at__isnull", False), ("paused_at__isnull", True), ("vanished_at__isnull", True)
                ),
                fields=["next_at"],
                name="dtr_due_schedules",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("overlap__in", ["skip", "queue", "allow"])), name="dtr_schedule_overlap_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("source__in", ["code", "settings", "database"])), name="dtr_schedule_source_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cron", ""), ("every__gte", 1), ("every__lte", 1000000000.0)),
                    models.Q(models.Q(("cron", ""), _negated=True), ("every__isnull", True)),
                    _connector="OR",
                ),
                name="dtr_schedule_has_one_timing",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("late__isnull", True), models.Q(("late__gte", 0), ("late__lte", 1000000000.0)), _connector="OR"
                ),
                name="dtr_schedule_late_in_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.GreaterThanOrEqual(models.F("starts_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("starts_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("ends_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("ends_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("anchor"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("anchor"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("next_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("next_at"), models.Value("9100-01-01")),
                    django.db.models.lookups.GreaterThanOrEqual(models.F("last_at"), models.Value("1900-01-01")),
                    django.db.models.lookups.LessThan(models.F("last_at"), models.Value("9100-01-01")),
                ),
                name="dtr_schedule_times_in_range",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="schedule",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="runs",
                to="django_tasks_retry.schedule",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status__in", ["PENDING", "RUNNING"]), ("schedule__isnull", False)),
                fields=["schedule"],
                name="dtr_schedule_runs",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("status__in", ["PENDING", "RUNNING"]), ("interval__gt", 0)),
                fields=["func_path", "id"],
                name="dtr_series",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                condition=models.Q(("schedule__isnull", False)), fields=("schedule", "slot"), name="dtr_slots"
            ),
        ),
    ]
