"""The public API as a list: names, columns, settings, commands, metrics, events, checks.

`python docs/public_api.py` writes `docs/public_api.txt`. `tests/docs/test_public_api.py` fails if the code offers
anything else, so that no name changes without a decision and an entry in the changelog.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_suffix(".txt")
PACKAGE = "django_tasks_retry"
DIRECTIVE = re.compile(
    r"^\.\. (currentmodule|autofunction|autoclass|autoexception):: ([\w.]+)((?:\n   :.*)*)", re.MULTILINE
)
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]


def public_api() -> str:
    parts = {
        "Names": names(),
        "Columns": columns(),
        "Settings": settings(),
        "Commands": commands(),
        "Metrics": metrics(),
        "Events": events(),
        "Failure codes": failure_codes(),
        "System checks": checks(),
    }
    return "\n".join(
        f"{title}\n{'-' * len(title)}\n" + "".join(f"{line}\n" for line in parts[title]) for title in parts
    )


def names() -> Iterator[str]:
    """Yield what `docs/reference/api.rst` documents, with its parameters."""
    module = PACKAGE
    page = (ROOT / "docs" / "reference" / "api.rst").read_text(encoding="utf-8")
    for kind, name, options in DIRECTIVE.findall(page):
        if kind == "currentmodule":
            module = name
            continue
        path = name if name.startswith(PACKAGE) else f"{module}.{name}"
        owner, _, last = path.rpartition(".")
        found = getattr(importlib.import_module(owner), last)
        bases = f" ({found.__base__.__name__})" if kind == "autoexception" else ""
        yield f"{path}{bases or ('' if inspect.isclass(found) else parameters(found))}"
        for member in members(found, options):
            yield f"{path}.{member}"


def members(found: Any, options: str) -> Iterator[str]:
    """Yield the members that the page asks for; without a list, all public ones that are not inherited."""
    asked = re.search(r":members:(.*)", options)
    excluded = re.search(r":exclude-members:(.*)", options)
    hidden = {each.strip() for each in excluded[1].split(",")} if excluded else set()
    if asked:
        listed = [each.strip() for each in asked[1].split(",") if each.strip()]
        for name in listed or sorted(name for name in vars(found) if not name.startswith("_") and name not in hidden):
            value = inspect.getattr_static(found, name)
            value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            yield name + (parameters(value) if inspect.isfunction(value) else "")


def parameters(function: Any) -> str:
    """Return names and plain defaults: how annotations are shown differs between versions of Python."""
    shown = []
    for each in inspect.signature(function, follow_wrapped=False).parameters.values():
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        if each.kind == each.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        is_plain = isinstance(each.default, str | int | float | tuple | None)
        default = "" if each.default is each.empty else f"={each.default!r}" if is_plain else "=…"
        shown.append(f"{prefix}{each.name}{default}")
    return f"({', '.join(shown)})"


def columns() -> Iterator[str]:
    from django_tasks_retry import models

    for model in (models.Task, models.TaskEvent, models.TaskResult, models.Schedule):
        yield f"{model.__name__}: {', '.join(field.name for field in model._meta.concrete_fields)}"


def settings() -> Iterator[str]:
    from django_tasks_retry import conf

    yield from (f"{key} = {getattr(conf.DEFAULTS, name)!r}" for key, name in conf.KEYS.items())


def commands() -> Iterator[str]:
    from generate import name_of, runworker_options

    from django_tasks_retry.cli.subcommand import Exit, subcommands

    yield f"runworker: {', '.join(sorted(name_of(action) for action in runworker_options()))}"
    for command in subcommands().values():
        parser = argparse.ArgumentParser(add_help=False)
        command.add_arguments(parser)
        words = (name_of(action) if action.option_strings else action.dest.upper() for action in parser._actions)
        yield f"tasks {command.name}: {', '.join(words)}".rstrip(": ")
    yield f"exit codes: {', '.join(f'{int(code)} {code.name}' for code in Exit)}"


def metrics() -> Iterator[str]:
    """Yield each metric with its kind and labels."""
    from django_tasks_retry.metrics import metrics_of
    from tests.docs.test_prometheus import EVERYTHING

    for family in metrics_of(EVERYTHING):
        labels = {label for sample in family.samples for label in sample.labels}
        yield f"{family.name} ({family.kind}): {', '.join(sorted(labels))}".removesuffix(": ")


def events() -> Iterator[str]:
    from django_tasks_retry.rules.transitions import EventKind

    yield from (each.value for each in EventKind)
    page = (ROOT / "docs" / "reference" / "events.rst").read_text(encoding="utf-8")
    yield from sorted(set(re.findall(r"``((?:queue|worker|schedule|lane|history|tasks)\.\w+)``", page)))


def failure_codes() -> Iterator[str]:
    from django_tasks_retry.rules.failure import Code

    yield from (each.value for each in Code)


def checks() -> Iterator[str]:
    page = (ROOT / "docs" / "reference" / "checks.rst").read_text(encoding="utf-8")
    yield from re.findall(r"``(django_tasks_retry\.[EWI]\d+)``", page)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    import django

    django.setup()
    FILE.write_text(public_api(), encoding="utf-8")
