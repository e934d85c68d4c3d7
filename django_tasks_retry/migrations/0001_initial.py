"""The tables, as `makemigrations` writes them, columns in the order of the models. What is PostgreSQL's comes next."""

from django.core.serializers.json import DjangoJSONEncoder
from django.db import migrations, models
from django.db.models import (
    BigAutoField,
    CharField,
    CheckConstraint,
    DateTimeField,
    F,
    FloatField,
    Index,
    JSONField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    SmallIntegerField,
    UniqueConstraint,
    UUIDField,
    Value,
)
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan

# fmt: off

CRON = "Minute, hour, day, month, weekday: 30 8 * * mon-fri. Or a name: @hourly, @daily, @weekly."
OVERLAP = "While the previous run has not finished: skip the slot, queue it behind that run, or allow both."
STATUSES = [
    ("PENDING", "Pending"), ("RUNNING", "Running"), ("SUCCESS", "Success"), ("FAILED", "Failed"),
    ("CANCELLED", "Cancelled"),
]
PENDING, RUNNING, SUCCESS, FAILED = (Q(status=status) for status, _ in STATUSES[:4])
FINISHED, UNFINISHED = Q(status__in=["SUCCESS", "FAILED", "CANCELLED"]), Q(status__in=["PENDING", "RUNNING"])
MEMBER = Q(batch__isnull=False)
BUCKETS = ("10ms", "50ms", "250ms", "1s", "5s", "30s", "5m", "1h", "more")
HISTOGRAMS = [
    (f"{measure}_{bucket}", models.BigIntegerField(db_default=0, default=0))
    for measure in ("ran", "waited") for bucket in BUCKETS
]


def check(name, condition):
    return CheckConstraint(name=f"dtr_{name}", condition=condition)


def index(name, fields, condition):
    return Index(name=f"dtr_{name}", fields=fields, condition=condition)


def in_range(*columns):
    bounds = Q()
    for column in columns:
        bounds &= Q(GreaterThanOrEqual(F(column), Value("1900-01-01"))) & Q(LessThan(F(column), Value("9100-01-01")))
    return bounds


def between(column, least, most):
    return Q(**{f"{column}__isnull": True}) | Q(**{f"{column}__gte": least, f"{column}__lte": most})


def reference(model, related_name, **options):
    """A reference without a constraint and an index of its own: no write has to look at the other table."""
    return models.ForeignKey(
        f"django_tasks_retry.{model}", models.DO_NOTHING, db_constraint=False, db_index=False,
        related_name=related_name, **options,
    )


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("name", CharField(max_length=64, primary_key=True, serialize=False, verbose_name="name")),
                ("paused_at", DateTimeField(null=True, verbose_name="paused at")),
                ("paused_by", CharField(default="", max_length=160, verbose_name="paused by")),
                ("reason", CharField(default="", max_length=200, verbose_name="reason")),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": [("pause_queue", "Can pause queue")],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", CharField(max_length=128, primary_key=True, serialize=False, verbose_name="worker")),
                ("host", CharField(max_length=255, verbose_name="host")),
                ("pid", PositiveIntegerField(verbose_name="process")),
                ("version", CharField(max_length=32, verbose_name="version")),
                ("release", CharField(db_default="", default="", max_length=100, verbose_name="release")),
                ("versions", JSONField(
                    help_text="Of Python and the installed packages.", null=True, verbose_name="versions",
                )),
                ("backend", CharField(default="default", max_length=64, verbose_name="backend")),
                ("queues", JSONField(
                    default=list, help_text="Patterns of the queues it serves.", verbose_name="queues",
                )),
                ("exclude", JSONField(default=list, verbose_name="excluded queues")),
                ("tasks", JSONField(default=list, help_text="Paths of the functions it knows.", verbose_name="tasks")),
                ("schedules", JSONField(
                    help_text="Names of the schedules in its code.", null=True, verbose_name="schedules",
                )),
                ("processes", PositiveIntegerField(verbose_name="processes")),
                ("slots", PositiveIntegerField(verbose_name="slots")),
                ("threads", PositiveIntegerField(db_default=0, default=0, verbose_name="threads")),
                ("running", PositiveIntegerField(default=0, verbose_name="running")),
                ("listening", models.BooleanField(db_default=False, default=False, verbose_name="hears wake-ups")),
                ("started_at", DateTimeField(verbose_name="started at")),
                ("heartbeat_at", DateTimeField(verbose_name="heartbeat at")),
                ("stopped_at", DateTimeField(null=True, verbose_name="stopped at")),
                ("stop_asked_at", DateTimeField(null=True, verbose_name="stop asked at")),
                ("stop_asked_by", CharField(default="", max_length=160, verbose_name="stop asked by")),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "permissions": [("control_worker", "Can control worker")],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="OperatorEvent",
            fields=[
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("kind", CharField(max_length=24, verbose_name="kind")),
                ("subject", CharField(max_length=128, verbose_name="subject")),
                ("ts", DateTimeField(verbose_name="time")),
                ("actor", CharField(max_length=160, verbose_name="actor")),
                ("reason", CharField(default="", max_length=200, verbose_name="reason")),
                ("data", JSONField(null=True, verbose_name="data")),
            ],
            options={
                "verbose_name": "operator event",
                "verbose_name_plural": "operator events",
                "default_permissions": (),
                "indexes": [
                    Index(name="dtr_decisions", fields=["subject", "id"]),
                    Index(name="dtr_decision_kinds", fields=["kind", "id"]),
                ],
            },
        ),
        migrations.CreateModel(
            name="FlowLimit",
            fields=[
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("kind", CharField(
                    choices=[("lane", "Lane"), ("queue", "Queue"), ("function", "Function")], default="lane",
                    max_length=8, verbose_name="kind",
                )),
                ("name", CharField(max_length=255, verbose_name="name")),
                ("running", PositiveIntegerField(null=True, verbose_name="running at once")),
                ("starts", PositiveIntegerField(null=True, verbose_name="starts")),
                ("per", FloatField(help_text="Seconds in which so many may start.", null=True, verbose_name="window")),
                ("weight", FloatField(null=True, verbose_name="weight")),
                ("decided_by", CharField(default="", max_length=160, verbose_name="decided by")),
                ("decided_for", CharField(default="", max_length=200, verbose_name="reason")),
                ("paused_at", DateTimeField(null=True, verbose_name="paused at")),
                ("paused_by", CharField(default="", max_length=160, verbose_name="paused by")),
                ("reason", CharField(default="", max_length=200, verbose_name="reason for the pause")),
                ("probe_at", DateTimeField(null=True, verbose_name="probe at")),
                ("probing_since", DateTimeField(null=True, verbose_name="probing since")),
                ("probe_from", JSONField(null=True, verbose_name="outcomes before the probe")),
                ("counts_from", DateTimeField(null=True, verbose_name="failures count from")),
                ("recent", JSONField(default=list, verbose_name="recent starts")),
                ("created_at", DateTimeField(verbose_name="created at")),
            ],
            options={
                "verbose_name": "lane",
                "verbose_name_plural": "lanes",
                "db_table": "django_tasks_retry_lanestate",
                "permissions": [("control_lane", "Can pause and limit lanes")],
                "default_permissions": ("view",),
                "indexes": [
                    Index(
                        name="dtr_tripped", fields=["kind", "name"],
                        condition=Q(probe_at__isnull=False) | Q(probing_since__isnull=False),
                    ),
                ],
                "constraints": [
                    UniqueConstraint(name="dtr_one_lane", fields=["kind", "name"]),
                    check("lane_kind_known", Q(kind__in=["lane", "queue", "function"])),
                    check("lane_counts_in_range", between("running", 1, 1_000_000) & between("starts", 1, 1_000_000)),
                    check("lane_window_in_range", between("per", 0.1, 2_678_400.0)),
                    check("lane_weight_in_range", between("weight", 0.001, 1000.0)),
                    check(
                        "lane_times_in_range",
                        in_range("created_at", "paused_at", "probe_at", "probing_since", "counts_from"),
                    ),
                    check(
                        "lane_queue_not_paused", ~Q(kind="queue") | Q(paused_at=None, probe_at=None, probing_since=None)
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LaneStat",
            fields=[
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("minute", DateTimeField(verbose_name="minute")),
                ("lane", CharField(max_length=100, verbose_name="lane")),
                ("completed", PositiveIntegerField(default=0, verbose_name="completed")),
                ("failed", PositiveIntegerField(default=0, verbose_name="failed")),
            ],
            options={
                "verbose_name": "lane statistic",
                "verbose_name_plural": "lane statistics",
                "default_permissions": (),
                "constraints": [UniqueConstraint(name="dtr_one_lane_stat", fields=["minute", "lane"])],
            },
        ),
        migrations.CreateModel(
            name="BacklogStat",
            fields=[
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("minute", DateTimeField(verbose_name="minute")),
                ("queue", CharField(default="", max_length=64, verbose_name="queue")),
                ("due", PositiveIntegerField(default=0, verbose_name="due")),
                ("oldest", FloatField(default=0, verbose_name="seconds waited")),
            ],
            options={
                "verbose_name": "backlog statistic",
                "verbose_name_plural": "backlog statistics",
                "default_permissions": (),
                "constraints": [UniqueConstraint(name="dtr_one_backlog", fields=["queue", "minute"])],
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("name", CharField(max_length=128, primary_key=True, serialize=False, verbose_name="name")),
                ("func_path", CharField(max_length=255, verbose_name="task")),
                ("args", JSONField(blank=True, default=list, verbose_name="arguments")),
                ("kwargs", JSONField(blank=True, default=dict, verbose_name="keyword arguments")),
                ("backend", CharField(default="default", max_length=64, verbose_name="backend")),
                ("queue", CharField(
                    blank=True, help_text="Empty: the task's own.", max_length=64, null=True, verbose_name="queue",
                )),
                ("priority", SmallIntegerField(
                    blank=True, help_text="Empty: the task's own.", null=True, verbose_name="priority",
                )),
                ("cron", CharField(
                    blank=True, default="",
                    help_text=CRON,
                    max_length=100, verbose_name="cron expression",
                )),
                ("every", FloatField(
                    blank=True, help_text="Seconds between runs, instead of an expression.", null=True,
                    verbose_name="every",
                )),
                ("timezone", CharField(
                    help_text="In which the expression is read, such as Europe/Berlin.", max_length=64,
                    verbose_name="time zone",
                )),
                ("overlap", CharField(
                    choices=[("skip", "skip"), ("queue", "queue"), ("allow", "allow")], default="skip",
                    help_text=OVERLAP,
                    max_length=5, verbose_name="overlap",
                )),
                ("misfire_grace", FloatField(
                    blank=True, db_column="late",
                    help_text="Seconds after which a slot that could not be enqueued is given up. Empty: never.",
                    null=True, verbose_name="late",
                )),
                ("starts_at", DateTimeField(blank=True, null=True, verbose_name="starts at")),
                ("ends_at", DateTimeField(blank=True, null=True, verbose_name="ends at")),
                ("source", CharField(
                    choices=[("code", "code"), ("settings", "settings"), ("database", "database")], default="database",
                    editable=False, max_length=8, verbose_name="source",
                )),
                ("paused_at", DateTimeField(editable=False, null=True, verbose_name="paused at")),
                ("paused_by", CharField(default="", editable=False, max_length=160, verbose_name="paused by")),
                ("reason", CharField(default="", editable=False, max_length=200, verbose_name="reason")),
                ("vanished_at", DateTimeField(editable=False, null=True, verbose_name="vanished at")),
                ("anchor", DateTimeField(editable=False, null=True, verbose_name="counts from")),
                ("next_at", DateTimeField(editable=False, null=True, verbose_name="next slot")),
                ("last_at", DateTimeField(editable=False, null=True, verbose_name="last slot")),
                ("last_outcome", CharField(
                    choices=[("enqueued", "enqueued"), ("skipped", "skipped"), ("missed", "missed")], default="",
                    editable=False, max_length=8, verbose_name="last outcome",
                )),
                ("updated_at", DateTimeField(editable=False, verbose_name="updated at")),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "permissions": [("pause_schedule", "Can pause schedule"), ("run_schedule", "Can run schedule now")],
                "indexes": [
                    Index(
                        name="dtr_due_schedules", fields=["next_at"],
                        condition=Q(paused_at__isnull=True, vanished_at__isnull=True, next_at__isnull=False),
                    ),
                ],
                "constraints": [
                    check("schedule_overlap_known", Q(overlap__in=["skip", "queue", "allow"])),
                    check("schedule_source_known", Q(source__in=["code", "settings", "database"])),
                    check(
                        "schedule_has_one_timing",
                        (Q(cron="") & Q(every__gte=1, every__lte=1e9)) | (~Q(cron="") & Q(every__isnull=True)),
                    ),
                    check("schedule_late_in_range", between("misfire_grace", 0, 1e9)),
                    check("schedule_times_in_range", in_range("starts_at", "ends_at", "anchor", "next_at", "last_at")),
                ],
            },
        ),
        migrations.CreateModel(
            name="Shard",
            fields=[
                ("number", PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("name", CharField(max_length=64, verbose_name="name")),
                ("is_draining", models.BooleanField(default=False, verbose_name="takes no new work")),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="ShardBucket",
            fields=[
                ("bucket", PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("owner", PositiveSmallIntegerField(verbose_name="owner")),
                ("version", PositiveIntegerField(default=0, verbose_name="version")),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("name", CharField(max_length=200, primary_key=True, serialize=False, verbose_name="name")),
                ("payload", JSONField(null=True, verbose_name="payload")),
                ("ts", DateTimeField(verbose_name="time")),
                ("actor", CharField(max_length=160, verbose_name="actor")),
            ],
            options={
                "verbose_name": "signal",
                "verbose_name_plural": "signals",
                "default_permissions": ("view",),
                "indexes": [Index(name="dtr_signals", fields=["ts"])],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", UUIDField(editable=False, primary_key=True, serialize=False)),
                ("run_id", UUIDField(verbose_name="run")),
                ("retry_of", reference("task", "retries", null=True)),
                ("parent", reference("task", "children", null=True)),
                ("schedule", reference("schedule", "runs", null=True)),
                ("batch", UUIDField(
                    help_text="What it is a member of, and ends with.", null=True, verbose_name="batch",
                )),
                ("func_path", CharField(max_length=255, verbose_name="task")),
                ("args", JSONField(default=list, verbose_name="arguments")),
                ("kwargs", JSONField(default=dict, verbose_name="keyword arguments")),
                ("unique_key", CharField(max_length=200, null=True, verbose_name="unique key")),
                ("metadata", JSONField(default=dict, verbose_name="metadata")),
                ("lane", CharField(
                    db_default="", default="", help_text="Whose limits and share it is subject to; empty for none.",
                    max_length=100, verbose_name="lane",
                )),
                ("backend", CharField(default="default", max_length=64, verbose_name="backend")),
                ("max_attempts", PositiveIntegerField(verbose_name="budget")),
                ("backoff", JSONField(null=True, verbose_name="backoff")),
                ("timeout", FloatField(help_text="Seconds an attempt may take.", verbose_name="timeout")),
                ("interval", FloatField(
                    default=0, help_text="Seconds between repetitions; 0 for none.", verbose_name="interval",
                )),
                ("slot", DateTimeField(
                    help_text="The instant a repeating or scheduled task was meant to run.", null=True,
                    verbose_name="slot",
                )),
                ("created_at", DateTimeField(verbose_name="created at")),
                ("expires_at", DateTimeField(
                    help_text="Cancelled if its first attempt has not begun by then.", null=True,
                    verbose_name="expires at",
                )),
                ("unique_until", DateTimeField(
                    help_text="Its key is taken until then, also after it has succeeded.", null=True,
                    verbose_name="unique until",
                )),
                ("deadline_at", DateTimeField(
                    help_text="Cancelled if it has not finished by then.", null=True, verbose_name="deadline",
                )),
                ("follows", reference("task", "followers", null=True)),
                ("on_failure", JSONField(
                    help_text="The call that is enqueued if it fails for good.", null=True, verbose_name="on failure",
                )),
                ("queue", CharField(max_length=64, verbose_name="queue")),
                ("priority", SmallIntegerField(default=0, verbose_name="priority")),
                ("eta", DateTimeField(verbose_name="not before")),
                ("refunds", PositiveIntegerField(default=0, verbose_name="refunds")),
                ("status", CharField(choices=STATUSES, default="PENDING", max_length=9, verbose_name="status")),
                ("attempts", PositiveIntegerField(default=0, verbose_name="attempts")),
                ("started_at", DateTimeField(null=True, verbose_name="started at")),
                ("last_attempt_at", DateTimeField(null=True, verbose_name="last attempt at")),
                ("locked_by", CharField(max_length=128, null=True, verbose_name="locked by")),
                ("lock_expires_at", DateTimeField(null=True, verbose_name="lock expires at")),
                ("moved_by", CharField(
                    help_text="Who made the last move; workers state their lease.", max_length=160, null=True,
                    verbose_name="moved by",
                )),
                ("updated_at", DateTimeField(verbose_name="updated at")),
                ("finished_at", DateTimeField(null=True, verbose_name="finished at")),
                ("last_error", JSONField(null=True, verbose_name="last error")),
                ("fingerprint", CharField(
                    help_text="Alike for failures that are alike; of the last one.", max_length=16, null=True,
                    verbose_name="fingerprint",
                )),
                ("progress", JSONField(null=True, verbose_name="progress")),
                ("waits_for", CharField(
                    help_text="A batch or a signal, which wakes it before its time.", max_length=255, null=True,
                    verbose_name="waits for",
                )),
                ("crashes", models.PositiveSmallIntegerField(
                    help_text="How many of its last attempts in a row died with their process.", null=True,
                    verbose_name="crashes",
                )),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "permissions": [
                    ("retry_task", "Can retry task"),
                    ("cancel_task", "Can cancel task"),
                    ("view_task_payload", "Can view arguments, results and tracebacks"),
                    ("enqueue_task", "Can enqueue tasks and edit the arguments of retries"),
                    ("send_signal", "Can send signals to waiting tasks"),
                    ("propose_task", "Can propose retries and cancellations to people"),
                ],
                "default_permissions": ("view", "delete"),
                "indexes": [
                    index("lanes", ["queue", "priority", "lane", "eta", "id"], PENDING),
                    index(
                        "keyed_due", ["queue", "priority", "eta", "id"],
                        PENDING & Q(GreaterThan(Length(F("lane")), 0)),
                    ),
                    index("begun", ["lane", "status"], Q(lane__gt="", attempts__gt=0, finished_at__isnull=True)),
                    index("leases", ["locked_by"], RUNNING),
                    index("failed", ["status", "id"], FAILED | (PENDING & Q(attempts__gt=0))),
                    index(
                        "failures", ["status", "fingerprint", "finished_at", "id"], Q(fingerprint__isnull=False)
                    ),
                    index(
                        "series", ["schedule", "func_path", "id"],
                        Q(finished_at__isnull=True) & (Q(schedule__isnull=False) | Q(interval__gt=0)),
                    ),
                    index(
                        "expiring", ["expires_at"],
                        Q(
                            expires_at__isnull=False, finished_at__isnull=True, locked_by__isnull=True,
                            attempts=F("refunds"),
                        ),
                    ),
                    index("deadlines", ["deadline_at"], Q(deadline_at__isnull=False, finished_at__isnull=True)),
                    index("throttled", ["queue", "unique_key"], Q(unique_until__isnull=False)),
                    index("runs", ["run_id", "id"], ~Q(run_id=F("id"))),
                    index("retries", ["retry_of"], Q(retry_of__isnull=False)),
                    index("members", ["batch", "id"], MEMBER),
                    index("ends", ["finished_at", "batch", "id"], MEMBER),
                    index(
                        "failed_members", ["batch", "id"], Q(status__in=["FAILED", "CANCELLED"], batch__isnull=False)
                    ),
                    index(
                        "waiting", ["waits_for", "id"],
                        Q(finished_at__isnull=True, locked_by__isnull=True)
                        & (Q(waits_for__isnull=False) | Q(crashes__gte=2)),
                    ),
                ],
                "constraints": [
                    check("status_known", Q(status__in=[status for status, _ in STATUSES])),
                    check(
                        "running_has_lease",
                        (RUNNING & Q(locked_by__isnull=False, lock_expires_at__isnull=False))
                        | (~RUNNING & Q(locked_by__isnull=True, lock_expires_at__isnull=True)),
                    ),
                    check(
                        "finished_has_time",
                        (FINISHED & Q(finished_at__isnull=False)) | (~FINISHED & ~Q(finished_at__isnull=False)),
                    ),
                    check("attempts_within_budget", Q(attempts__lte=F("max_attempts") + F("refunds"))),
                    check("pending_has_budget", ~PENDING | Q(attempts__lt=F("max_attempts") + F("refunds"))),
                    check("running_spent_an_attempt", Q(attempts__gte=1) | ~(RUNNING | SUCCESS)),
                    check("refunds_within_attempts", Q(refunds__gte=0) & Q(refunds__lte=F("attempts"))),
                    check("priority_in_range", Q(priority__gte=-100) & Q(priority__lte=100)),
                    check("repeating_has_slot", Q(interval=0) | Q(slot__isnull=False)),
                    check(
                        "times_in_range",
                        in_range(
                            "created_at", "eta", "slot", "updated_at", "started_at", "last_attempt_at",
                            "lock_expires_at", "finished_at",
                        ),
                    ),
                    check(
                        "numbers_in_range",
                        Q(max_attempts__range=(1, 1_000_000)) & Q(timeout__gt=0, timeout__lte=1e9)
                        & (Q(interval=0) | Q(interval__range=(0.001, 1e9))),
                    ),
                    UniqueConstraint(
                        name="dtr_unique_key", fields=["queue", "unique_key"],
                        condition=UNFINISHED & Q(unique_key__isnull=False),
                    ),
                    UniqueConstraint(
                        name="dtr_slots", fields=["schedule", "slot"], condition=Q(schedule__isnull=False)
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskEvent",
            fields=[
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("task", reference("task", "events")),
                ("kind", CharField(max_length=20, verbose_name="kind")),
                ("ts", DateTimeField(verbose_name="time")),
                ("attempt", PositiveIntegerField(verbose_name="attempt")),
                ("actor", CharField(max_length=160, verbose_name="actor")),
                ("data", JSONField(default=dict, encoder=DjangoJSONEncoder, verbose_name="data")),
            ],
            options={
                "verbose_name": "task event",
                "verbose_name_plural": "task events",
                "ordering": ["id"],
                "default_permissions": ("view",),
                "constraints": [UniqueConstraint(name="dtr_event_once", fields=["task", "attempt", "kind", "ts"])],
            },
        ),
        migrations.CreateModel(
            name="TaskResult",
            fields=[
                ("task", models.OneToOneField(
                    db_constraint=False, on_delete=models.DO_NOTHING, primary_key=True, related_name="outcome",
                    serialize=False, to="django_tasks_retry.task",
                )),
                ("status", CharField(choices=STATUSES, max_length=9, verbose_name="status")),
                ("result", JSONField(null=True, verbose_name="result")),
                ("error", JSONField(null=True, verbose_name="error")),
                ("attempts", PositiveIntegerField(verbose_name="attempts")),
                ("last_attempt_at", DateTimeField(null=True, verbose_name="last attempt at")),
                ("finished_at", DateTimeField(verbose_name="finished at")),
            ],
            options={
                "verbose_name": "task result",
                "verbose_name_plural": "task results",
                "default_permissions": ("view",),
                "constraints": [
                    check("result_is_final", FINISHED),
                    check("result_without_error", ~SUCCESS | Q(error__isnull=True)),
                    check("result_times_in_range", in_range("last_attempt_at", "finished_at")),
                ],
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("task", reference("task", "steps")),
                ("name", CharField(max_length=220, verbose_name="name")),
                ("kind", CharField(max_length=10, verbose_name="kind")),
                ("attempt", PositiveIntegerField(verbose_name="attempt")),
                ("actor", CharField(max_length=160, verbose_name="actor")),
                ("ts", DateTimeField(verbose_name="time")),
                ("result", JSONField(null=True, verbose_name="result")),
            ],
            options={
                "verbose_name": "step",
                "verbose_name_plural": "steps",
                "ordering": ["id"],
                "default_permissions": ("view",),
                "constraints": [UniqueConstraint(name="dtr_step_once", fields=["task", "name"])],
            },
        ),
        migrations.CreateModel(
            name="TaskStat",
            fields=[
                ("wait_seconds", FloatField(db_default=0, default=0, verbose_name="seconds waited")),
                *HISTOGRAMS,
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("minute", DateTimeField(verbose_name="minute")),
                ("queue", CharField(max_length=64, verbose_name="queue")),
                ("func_path", CharField(max_length=255, verbose_name="task")),
                ("completed", PositiveIntegerField(default=0, verbose_name="completed")),
                ("retried", PositiveIntegerField(default=0, verbose_name="failed, to be tried again")),
                ("failed", PositiveIntegerField(default=0, verbose_name="failed for good")),
                ("seconds", FloatField(default=0, verbose_name="seconds spent")),
            ],
            options={
                "verbose_name": "task statistic",
                "verbose_name_plural": "task statistics",
                "default_permissions": (),
                "constraints": [UniqueConstraint(name="dtr_one_stat", fields=["minute", "queue", "func_path"])],
            },
        ),
        migrations.CreateModel(
            name="TaskTotal",
            fields=[
                ("wait_seconds", FloatField(db_default=0, default=0, verbose_name="seconds waited")),
                *HISTOGRAMS,
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("queue", CharField(max_length=64, verbose_name="queue")),
                ("func_path", CharField(max_length=255, verbose_name="task")),
                ("completed", models.BigIntegerField(db_default=0, default=0)),
                ("retried", models.BigIntegerField(db_default=0, default=0)),
                ("failed", models.BigIntegerField(db_default=0, default=0)),
                ("seconds", FloatField(db_default=0, default=0, verbose_name="seconds spent")),
            ],
            options={
                "verbose_name": "task total",
                "verbose_name_plural": "task totals",
                "default_permissions": (),
                "constraints": [UniqueConstraint(name="dtr_one_total", fields=["queue", "func_path"])],
            },
        ),
        migrations.CreateModel(
            name="Overview",
            fields=[
            ],
            options={
                "verbose_name": "overview",
                "verbose_name_plural": "overview",
                "proxy": True,
                "default_permissions": (),
            },
            bases=("django_tasks_retry.task",),
        ),
        migrations.CreateModel(
            name="FailureGroup",
            fields=[
            ],
            options={
                "verbose_name": "failure",
                "verbose_name_plural": "failures",
                "proxy": True,
                "default_permissions": (),
            },
            bases=("django_tasks_retry.task",),
        ),
        migrations.CreateModel(
            name="TaskFunction",
            fields=[
            ],
            options={
                "verbose_name": "function",
                "verbose_name_plural": "functions",
                "proxy": True,
                "default_permissions": (),
            },
            bases=("django_tasks_retry.task",),
        ),
    ]
