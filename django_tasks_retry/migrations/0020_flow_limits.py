"""Rows about a lane, a queue or a function are flow limits. The table keeps its name, so releases run side by side."""

from functools import partial

from django.apps import apps as installed
from django.db import migrations

OLD, NEW = "view_lanestate", "view_flowlimit"


def rename_permission(apps, schema_editor, old, new):
    """Let users who may see the page of lanes still see it, if permissions are in this database."""
    if not installed.is_installed("django.contrib.auth"):
        return
    permission, connection = installed.get_model("auth", "Permission"), schema_editor.connection
    if permission._meta.db_table in connection.introspection.table_names():
        ours = permission.objects.using(connection.alias).filter(content_type__app_label="django_tasks_retry")
        ours.filter(codename=old).update(codename=new)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0019_misfire_grace")]

    operations = [
        migrations.AlterModelTable("lanestate", "django_tasks_retry_lanestate"),
        migrations.RenameModel("LaneState", "FlowLimit"),
        migrations.RunPython(
            partial(rename_permission, old=OLD, new=NEW), partial(rename_permission, old=NEW, new=OLD)
        ),
    ]
