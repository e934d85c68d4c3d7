"""Bounds of what a lane's row can hold. The table is small: rows that break them are mended under the same lock."""

from django.db import migrations, models
from django.db.models import F, Q, Value
from django.db.models.functions import Now
from django.db.models.lookups import GreaterThanOrEqual, LessThan

KINDS = ["lane", "queue", "function"]
NUMBERS = {"running": (1, 1000000), "starts": (1, 1000000), "per": (0.1, 2678400.0), "weight": (0.001, 1000.0)}
TIMES = ("created_at", "paused_at", "probe_at", "probing_since", "counts_from")
PAUSE = {"paused_at": None, "probe_at": None, "probing_since": None}


def in_range(*columns):
    bounds = Q()
    for column in columns:
        bounds &= Q(GreaterThanOrEqual(F(column), Value("1900-01-01"))) & Q(LessThan(F(column), Value("9100-01-01")))
    return bounds


def between(*columns):
    bounds = Q()
    for column in columns:
        least, most = NUMBERS[column]
        bounds &= Q(**{f"{column}__isnull": True}) | Q(**{f"{column}__gte": least, f"{column}__lte": most})
    return bounds


def reset(apps, schema_editor):
    """Take back decisions that no release accepts, so that `migrate` cannot fail because of them."""
    rows = apps.get_model("django_tasks_retry", "LaneState").objects.using(schema_editor.connection.alias)
    rows.exclude(kind__in=KINDS).delete()
    rows.filter(kind="queue").exclude(**PAUSE).update(**PAUSE)
    for column in NUMBERS:
        rows.exclude(between(column)).update(**{column: None})
    for column in TIMES:
        sound = Now() if column == "created_at" else None
        rows.filter(~in_range(column), **{f"{column}__isnull": False}).update(**{column: sound})


def check(name, condition):
    return migrations.AddConstraint("lanestate", models.CheckConstraint(condition=condition, name=f"dtr_lane_{name}"))


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0017_validate_short_checks")]

    operations = [
        migrations.RunPython(reset, migrations.RunPython.noop, elidable=True),
        check("kind_known", Q(kind__in=KINDS)),
        check("counts_in_range", between("running", "starts")),
        check("window_in_range", between("per")),
        check("weight_in_range", between("weight")),
        check("times_in_range", in_range(*TIMES)),
        check("queue_not_paused", ~Q(kind="queue") | Q(**PAUSE)),
    ]
