"""A crontab: lines whose command names a registered task, or a management command that a task is called like."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from .. import registry
from ..rules.names import short_name
from ..rules.schedules.timing import NAMES
from .found import Found

ZONES = ("CRON_TZ", "TZ")


def read(text: str) -> Iterator[Found]:
    timezone: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name, is_setting, value = line.partition("=")
        if is_setting and " " not in name.strip() and name.strip().isidentifier():
            timezone = value.strip().strip("\"'") if name.strip() in ZONES else timezone
            continue
        yield found(number, words, {"timezone": timezone})


def found(number: int, words: list[str], asked: dict[str, Any]) -> Found:
    size = 1 if words[0].startswith("@") else 5
    cron, command = " ".join(words[:size]), " ".join(words[size:])
    place = f"line {number}"
    if size == 1 and cron not in NAMES:
        return Found(place, problem=f"{cron} has no counterpart.")
    task, rest = task_of(command)
    if task is None:
        return Found(place, problem=f"{command!r} names no registered task. Write one that does its work.")
    if rest:
        return Found(
            place, problem=f"{' '.join(rest)!r} are options of a command. Make {task} by hand, with arguments."
        )
    return Found(f"{task} ({place})"[:128], task, {**asked, "cron": cron})


def task_of(command: str) -> tuple[str | None, list[str]]:
    """The task that a command names, and the words behind it up to where its output goes."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return None, []
    by_name: dict[str, list[str]] = {}
    for path in registry.known_paths():
        by_name.setdefault(short_name(path), []).append(path)
    for n, word in enumerate(words):
        is_command = n > 0 and words[n - 1].endswith("manage.py")
        paths = [word] if registry.find(word) else by_name.get(word, []) if is_command else []
        if len(paths) == 1:
            return paths[0], [rest for rest in words[n + 1 :] if not rest.startswith((">", "2>", "/dev/null", "&"))]
    return None, []
