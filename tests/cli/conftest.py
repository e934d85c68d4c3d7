from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.core.management import CommandError, call_command

from django_tasks_retry import registry


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def record(self) -> dict[str, Any]:
        [record] = self.records
        return record


def tasks_command(*words: Any) -> Answer:
    """`manage.py tasks …` in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        call_command("tasks", *map(str, words), stdout=out, stderr=err)
    except SystemExit as end:
        code = int(end.code or 0)
    except CommandError as error:
        code = 2
        err.write(str(error))
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture
def cli(database: str) -> Callable[..., Answer]:
    registry.discover()
    return tasks_command
