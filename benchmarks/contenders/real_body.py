"""The body of a real task, for contenders with Django: a SELECT by the ORM, a wait of 5 ms and an UPDATE."""

from __future__ import annotations

import time

from django.db import connection, models

ROWS = 1000
WAIT_SECONDS = 0.005


class Row(models.Model):  # noqa: DJ008
    number = models.IntegerField(default=0)

    class Meta:
        app_label = "real"
        db_table = "real_row"


def run(number: int) -> None:
    row = Row.objects.get(pk=number % ROWS + 1)
    time.sleep(WAIT_SECONDS)
    row.number += 1
    row.save(update_fields=["number"])


def create() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Row)
    Row.objects.bulk_create(Row() for _ in range(ROWS))
