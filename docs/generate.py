"""Make the parts of the documentation that the code already knows: `python docs/generate.py`.

`tests/docs/test_docs.py` fails if the files in `docs/generated/`, or the README, differ from what this makes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "generated"
sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).parent / "benchmarks" / "figures.json"
RUN = FIGURES.with_name("run.json")
NEIGHBOURS = Path(__file__).parent / "neighbours.json"
CLIENTS = Path(__file__).parent / "clients.json"
RUN_TEXT = """\
Measured on {date}, on {machine}, by ``{command}``. Settings of the server: {settings}. Versions: {versions}. A
figure of an earlier run has its date. A star marks runs in which others used a tenth of the machine or more.

"""
CHART = ".. image:: /benchmarks/chart.svg\n   :alt: Tasks a second, two processes.\n\n"
WORDS = "Rates by processes and threads, the cost of a claim by queues."
CURVES = f".. image:: /benchmarks/curves.svg\n   :alt: {WORDS}\n\n"

OPTIONS = {
    "DATABASE": "Alias of ``DATABASES`` that holds the tasks. ``None`` asks the database routers.",
    "CONSOLE_DATABASE": "Alias of ``DATABASES`` from which lists, charts and metrics are read: a replica. ``None`` "
    "reads the primary.",
    "LEASE": "Seconds that a claim holds without being renewed. Workers renew four times as often. "
    "After the loss of a whole machine its tasks run again after this time.",
    "MAX_ATTEMPTS": "Attempts that a task may spend, the first included. A task's own policy takes precedence.",
    "RETRY_BASE": "Seconds before the second attempt.",
    "RETRY_FACTOR": "By how much the delay grows from one attempt to the next.",
    "RETRY_CAP": "The longest delay, before jitter.",
    "RETRY_JITTER": "Share by which each delay is spread, up and down, so that tasks that failed together are not "
    "retried together.",
    "SHARDS": "Aliases of ``DATABASES`` over which tasks are spread, in an order that never changes; see "
    ":doc:`/howto/shards`.",
    "ENQUEUE_TIMEOUT": "Seconds that ``enqueue()`` may wait for PostgreSQL outside ``atomic()`` before it raises "
    "``EnqueueTimeout``; see :ref:`enqueue-timeout`. ``None`` waits as long as the driver does.",
    "TIMEOUT": "Seconds an attempt may take. A task's own policy takes precedence.",
    "TIMEOUT_GRACE": "Seconds that a function may take to yield to ``TaskTimeout`` before its process is replaced.",
    "MAX_ARGS_SIZE": "Bytes of a call's arguments as JSON. Larger ones are refused at enqueue.",
    "MAX_RESULT_SIZE": "Bytes of a return value as JSON. A larger one fails the attempt.",
    "PAYLOAD_KEYS": "Fernet keys that encrypt arguments and results: the first encrypts, all decrypt. Needs the extra "
    "``encryption``; see :doc:`/howto/payloads`.",
    "PAYLOAD_STORAGE": "An alias of ``STORAGES`` that keeps large arguments and results as files; see "
    ":doc:`/howto/payloads`.",
    "OFFLOAD_SIZE": "Bytes of JSON up to which they stay in their row.",
    "KEEP_SUCCESS": "Seconds that successful tasks are kept. ``None`` keeps them forever.",
    "KEEP_FAILED": "Seconds that failed tasks are kept.",
    "KEEP_CANCELLED": "Seconds that cancelled tasks are kept.",
    "ATTEMPT_LOG_LINES": "How many of the last lines that an attempt logged are kept with its ``task.failed`` event, "
    "in 16 KiB at the most. 0 keeps none.",
    "EXPORT_TO": "The absolute path of a folder, or an alias of ``STORAGES``. Tasks are written there before they are "
    "pruned, or are not pruned; see :ref:`export-history`.",
    "RELEASE": "The project's release, as operators know it: a tag or a commit. Workers register with it, and the "
    "console compares it when a task that worked begins to fail.",
    "DEPLOY_GUARD": "``'report'`` or ``'pause'`` functions that fail significantly more under a new ``RELEASE``; see "
    ":ref:`deploy-guard`.",
    "ADMIN_EMAIL_INTERVAL": "Seconds between two mails to ``ADMINS`` about the same failure, from one process. "
    "``None`` mails each failed task.",
    "ALERTS": "Mail addresses and URLs of webhooks that are told of new failures, failing functions, stuck queues and "
    "missed schedules; see :ref:`alerts`.",
    "TASK_MODULES": "Modules with tasks that workers import beside the ``tasks`` module of each installed app.",
    "METRICS_TOKEN": "A token of 16 characters or more. Requests with ``Authorization: Bearer …`` and this token may "
    "read the :doc:`metrics <../howto/prometheus>`.",
    "METRICS_PERMISSION": "A permission, such as ``django_tasks_retry.view_task``, with which a user may read them.",
    "LANES": "Limits of lanes by patterns of their names, and of whole queues and functions: see "
    ":doc:`/howto/flow-control`.",
    "OBJECTIVES": "By queue: the time within which its attempts should start once they are due; see :ref:`objectives`.",
    "OBJECTIVE_SHARE": "The share of attempts that should start in time.",
    "PRIORITY_AGING": "Seconds after which a task that waits counts as one priority higher, and again after as many. "
    "``None``: priorities are strict.",
    "BACKLOG": "How many tasks may be pending, by queue, lane or pattern; see :doc:`/howto/backlog`.",
    "SCHEDULES": "Schedules by their names, each a dictionary with a ``task`` and a ``cron`` or ``every``.",
    "API_TOKEN_AGE": "Seconds for which a token of the :doc:`JSON API </howto/agents>` is valid. ``None``: there is "
    "no API.",
    "MIDDLEWARE": "Paths of :doc:`middleware <../howto/middleware>` classes, the outermost first.",
}

FLAGS = {
    "--shards": "Shards of ``OPTIONS['SHARDS']`` to serve, each by a supervisor of its own. Default: all.",
    "--queues": "Queues to serve, by name or pattern. Default: all.",
    "--exclude": "Queues not to serve. Takes precedence over ``--queues``.",
    "--backend": "The alias in ``TASKS``.",
    "--processes": "Number of child processes.",
    "--threads": "Plain functions that run at once, per process.",
    "--async-slots": "Coroutines that run at once, per process.",
    "--max-connections": "The most connections to the database. Starts fewer threads if they would not fit.",
    "--drain": "Stop when nothing is due that this worker may run. Tasks that wait for a later eta do not count.",
    "--once": "Run at most one task, then stop.",
    "--max-tasks": "Stop after this many attempts.",
    "--max-time": "Stop after this time.",
    "--max-memory": "Replace a child process that has grown past this.",
    "--grace": "How long running tasks may continue at shutdown before they are released.",
    "--poll": "How often the worker polls for work without a wake-up, for all its processes.",
    "--no-listen": "Poll only. For a pooler in transaction mode.",
    "--reload": "Restart when code changes. On by default with ``DEBUG``, unless the run has an end.",
    "--no-reload": "Do not restart when code changes.",
    "--heartbeat-file": "A file touched every second by the supervisor's main loop. "
    "Probe it with ``python -m django_tasks_retry.healthcheck``.",
    "--log-format": "``text`` or ``json``, to standard error. Default: text, unless the project configured the logger.",
    "--name": "A label for this worker. Default: the host's name.",
}


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """A list-table of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [headings, *rows]:
        lines += [f"   {'*' if n == 0 else ' '} - {cell}".rstrip() for n, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    return f"``{value}``"


def settings_table() -> str:
    from django_tasks_retry.conf import DEFAULTS, QueueOptions

    known = [(field.name.upper(), str(field.type), getattr(DEFAULTS, field.name)) for field in fields(QueueOptions)]
    rows = [(literal(key), literal(kind), shown(default), OPTIONS[key]) for key, kind, default in known]
    return table(("Key", "Type", "Default", "Meaning"), rows, "22 16 18 44")


def shown(default: Any) -> str:
    """Retention reads better in days."""
    days = f" ({default / 86400:g} days)" if isinstance(default, float) and default >= 86400 else ""
    return f"{literal(default if default != '' else repr(default))}{days}"


def moves_table() -> str:
    from django_tasks_retry.rules.transitions import MOVES

    rows = [
        (
            literal(move.source) if move.source else "(new)",
            move.name,
            literal(move.target),
            move.who.value,
            ", ".join(literal(kind) for kind in move.events) or "none",
            counted(move),
            move.note,
        )
        for move in MOVES
    ]
    return table(("From", "Move", "To", "Who may", "Events, in order", "Counts", "Notes"), rows)


def counted(move: Any) -> str:
    parts = [f"attempts + {move.attempts}"] * bool(move.attempts) + [f"refunds + {move.refunds}"] * bool(move.refunds)
    return ", ".join(parts) or "unchanged"


def runworker_table() -> str:
    rows = [
        (", ".join(literal(text) for text in action.option_strings), default_of(action), FLAGS[name_of(action)])
        for action in runworker_options()
    ]
    return table(("Option", "Default", "Meaning"), rows, "26 16 58")


def runworker_options() -> list[argparse.Action]:
    """Without what Django gives to every command."""
    from django.core.management.base import BaseCommand

    from django_tasks_retry.management.commands.runworker import Command

    common = {name_of(action) for action in BaseCommand().create_parser("manage.py", "runworker")._actions}
    ours = Command().create_parser("manage.py", "runworker")._actions
    return [action for action in ours if name_of(action) not in common]


def name_of(action: argparse.Action) -> str:
    return next((text for text in action.option_strings if text.startswith("--")), action.dest)


def default_of(action: argparse.Action) -> str:
    if action.nargs == 0 or action.default in (None, "", ()):
        return ""
    value = ",".join(action.default) if isinstance(action.default, tuple) else action.default
    return literal(f"{value:g} s" if isinstance(value, float) else value)


def tasks_reference() -> str:
    """Each subcommand of `manage.py tasks`, from its parser."""
    from django_tasks_retry.cli.subcommand import subcommands

    return "\n".join(subcommand_section(command) for command in subcommands().values())


def subcommand_section(command: Any) -> str:
    parser = argparse.ArgumentParser(prog=f"manage.py tasks {command.name}", add_help=False)
    command.add_arguments(parser)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    rows = [(names_of(action), default_of(action), sentence(action.help)) for action in parser._actions]
    title = f"``tasks {command.name}``"
    options = "\n" + table(("Argument", "Default", "Meaning"), rows, "30 14 56") if rows else ""
    return f"{title}\n{'~' * len(title)}\n\n{command.help}\n\n.. code-block:: console\n\n   {usage}\n{options}"


def names_of(action: argparse.Action) -> str:
    """As they are typed, with the value where they take one."""
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return ", ".join(literal(f"{text}{value}") for text in action.option_strings) or literal(value.strip())


def sentence(text: str | None) -> str:
    text = (text or "").partition(" (default")[0]
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def exit_codes_table() -> str:
    from django_tasks_retry.cli.subcommand import Exit

    return table(("Code", "Meaning"), [(str(int(code)), code.meaning) for code in Exit], "10 90")


def verify_table() -> str:
    from django_tasks_retry.verify.rules import RULES

    return table(("Rule", "Promise"), [(literal(rule), words) for rule, words in RULES.items()], "20 80")


def roles_table() -> str:
    from django_tasks_retry.management.commands.tasksql import ROLES

    models = dict.fromkeys(model for _, grants in ROLES.values() for model in grants)
    rows = [
        (literal(model._meta.db_table), *(rights(grants.get(model, ())) for _, grants in ROLES.values()))
        for model in models
    ]
    return table(("Table", *(literal(f"tasks_{name}") for name in ROLES)), rows, "34 22 22 22")


def rights(granted: Sequence[str]) -> str:
    """The statements in words; an UPDATE of some columns is marked."""
    return ", ".join(each.partition(" (")[0] + (" of some columns" if " (" in each else "") for each in granted) or "—"


def role_statements_table() -> str:
    """Return the statements that `tests/guard/test_roles.py` runs as each role."""
    from tests.guard.role_statements import ROLES, STATEMENTS

    rows = [
        (each.words, *("yes" if role in each.may else "no" for role in ROLES), each.reason or "—")
        for each in STATEMENTS
    ]
    return table(("Statement", *ROLES, "Refused by the guard because"), rows, "40 10 10 10 30")


def tuning_table() -> str:
    from django_tasks_retry.taskqueue.claim.tuning import ClaimTuning

    rows = [(literal(each.name), literal(f"{each.default:g}"), each.metadata["reason"]) for each in fields(ClaimTuning)]
    return table(("Field", "Value", "Reason"), rows, "24 8 68")


def benchmark_table() -> str:
    """Return the aims, and the median of each measure, of `python -m benchmarks --out docs/benchmarks`."""
    from benchmarks.report import read, rows, verdicts

    if not FIGURES.exists():
        return "No figures are published for this version yet.\n"
    figures = read(FIGURES.parent)
    titles, *lines = [[cell.replace("*", "\\*") for cell in row] for row in rows(figures)]
    aims = "".join(f"- {verdict}\n" for verdict in verdicts(figures))
    pictures = CHART + (CURVES if (FIGURES.parent / "curves.svg").exists() else "")
    run = RUN_TEXT.format(**json.loads(RUN.read_text(encoding="utf-8")))
    return f"{run}{pictures}Aims:\n\n{aims}\n" + table(titles, lines)


def clients_table() -> str:
    """Return the versions that a run of `python -m tests.clients` passed with."""
    found = json.loads(CLIENTS.read_text(encoding="utf-8"))
    return f"With {found['with']}:\n\n{table(('Package', 'Version'), sorted(found['versions'].items()))}"


def neighbours_table() -> str:
    """Return the findings of `python -m tests.neighbours --write`."""
    if not NEIGHBOURS.exists():
        return "Nothing is published for this version yet.\n"
    published = json.loads(NEIGHBOURS.read_text(encoding="utf-8"))
    rows = [(words.replace("`", "``"), *cells) for words, cells in published["rows"].items()]
    return table(("", *published["titles"]), [*rows, ("passed", *published["passed"])])


def changelog() -> str:
    """Return CHANGELOG.md, below its title, in reStructuredText."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n", 2)[2]
    text = re.sub(r"`([^`]+)`", r"``\1``", text)
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"`\1 <\2>`__", text)
    return re.sub(r"^#+ (.+)$", lambda match: f"{match[1]}\n{'-' * len(match[1])}", text, flags=re.MULTILINE)


MADE = {
    "changelog.rst": changelog,
    "benchmarks.rst": benchmark_table,
    "neighbours.rst": neighbours_table,
    "clients.rst": clients_table,
    "settings.rst": settings_table,
    "moves.rst": moves_table,
    "runworker.rst": runworker_table,
    "tasks.rst": tasks_reference,
    "exit_codes.rst": exit_codes_table,
    "verify.rst": verify_table,
    "roles.rst": roles_table,
    "roles_statements.rst": role_statements_table,
    "claim_tuning.rst": tuning_table,
}


def make() -> dict[str, str]:
    """Name → content of each generated file."""
    sys.path.insert(0, str(Path(__file__).parent))
    from diagram import drawings

    from django_tasks_retry.rules.transitions import MOVES

    return {name: build() for name, build in MADE.items()} | drawings(MOVES)


def readme(text: str) -> str:
    """Return the README with the rates of the published run, and with the addresses of `pyproject.toml`."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
    pictures = source.replace("github.com", "raw.githubusercontent.com")
    text = re.sub(r"https://github\.com/[\w-]+/[\w-]+(?=/blob/main/)", source, text)
    text = re.sub(r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+(?=/main/)", pictures, text)
    return re.sub(r"(<!-- rates -->\n).*?(?=<!-- end -->)", lambda match: match[1] + rates(), text, flags=re.DOTALL)


def rates() -> str:
    from benchmarks.contenders import CEILING, OURS
    from benchmarks.report import DRAIN, medians, read, shown

    run = json.loads(RUN.read_text(encoding="utf-8"))
    by_name = {who: shown(value) for (what, who), value in medians(read(FIGURES.parent)).items() if what == DRAIN}
    peers = [f"{name} {rate}" for name, rate in by_name.items() if name not in (OURS.name, CEILING.name)]
    return (
        f"- Two processes run {by_name[OURS.name]} no-op tasks a second, with history, results and triggers.\n"
        f"  Others in the same run: {', '.join(peers)}; a hand-written loop {by_name[CEILING.name]}.\n"
        f"  Measured on {run['date']}, on {run['machine']}: `{run['command']}`.\n"
    )


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    import django

    django.setup()
    FOLDER.mkdir(exist_ok=True)
    for name, text in make().items():
        (FOLDER / name).write_text(text)
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text(encoding="utf-8")), encoding="utf-8")
