"""The SQL of `sql/<name>.sql`, with the parts that it leaves open."""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template

FOLDER = files("django_tasks_retry.taskqueue") / "sql"
HEADING = re.compile(r"(-- [\w ]+).*\n(?:--.*\n)*")


def read_sql(name: str, **parts: str) -> str:
    """Called at import: a running worker needs no file that a leak could deny it, and sees none of a later version."""
    return read_template(name).substitute(parts)


def read_template(name: str) -> Template:
    """The same for a statement whose parts are known only when it is run."""
    return Template(named((FOLDER / f"{name}.sql").read_text()))


def named(text: str) -> str:
    """The first word first, by which tools name a statement; then its own name, for whoever reads the server's list."""
    heading = HEADING.match(text)
    if heading is None:
        return text
    word, rest = text[heading.end() :].split(maxsplit=1)
    return f"{word} {heading[1]}\n{rest}"


def heading_of(sql: str) -> str:
    """The line that tells its name."""
    return sql.partition(" ")[2].partition("\n")[0]
