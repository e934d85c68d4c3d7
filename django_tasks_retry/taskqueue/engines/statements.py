"""The SQL of `sql/<name>.sql`, with the parts that it leaves open."""

from __future__ import annotations

from importlib.resources import files
from string import Template

FOLDER = files("django_tasks_retry.taskqueue") / "sql"


def read_sql(name: str, **parts: str) -> str:
    """Called at import: a running worker needs no file that a leak could deny it, and sees none of a later version."""
    return Template((FOLDER / f"{name}.sql").read_text()).substitute(parts)
