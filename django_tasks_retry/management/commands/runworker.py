from __future__ import annotations

import signal
import sys
from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.utils import Error

from django_tasks_retry.durations import read_duration
from django_tasks_retry.errors import TaskQueueError
from django_tasks_retry.worker import start
from django_tasks_retry.worker.options import WorkerOptions, read_count, read_names, read_size
from django_tasks_retry.worker.startup import prepare_connections

T = TypeVar("T")


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Answer bad values in one line that says what to write."""

    def checked(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return checked


class Command(BaseCommand):
    help = "Run the tasks that are due, until asked to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        count, duration = argument(read_count), argument(read_duration)
        which = parser.add_argument_group("which tasks")
        names = argument(read_names)
        which.add_argument(
            "--queues", "-q", type=names, default=("*",), metavar="a,b,bulk*", help="names or patterns (default: all)"
        )
        which.add_argument(
            "--exclude", "-x", type=names, default=(), metavar="c,d*", help="queues that this worker leaves to others"
        )
        which.add_argument("--backend", default="default", help="the alias in TASKS (default: default)")
        many = parser.add_argument_group("how many at once")
        many.add_argument("--processes", type=count, default=1, help="default: 1")
        many.add_argument("--threads", type=count, default=8, help="for plain functions, per process (default: 8)")
        many.add_argument("--async-slots", type=count, default=100, help="for coroutines, per process (default: 100)")
        many.add_argument(
            "--max-connections", type=count, metavar="N", help="to the database; fewer threads if they would not fit"
        )
        until = parser.add_argument_group("when to stop")
        until.add_argument("--drain", action="store_true", help="stop when nothing is due")
        until.add_argument("--once", action="store_true", help="run at most one task, then stop")
        until.add_argument("--max-tasks", type=count, help="stop after this many attempts")
        until.add_argument("--max-time", type=duration, metavar="6h", help="stop after this time")
        until.add_argument("--max-memory", type=argument(read_size), metavar="512M", help="replace a larger process")
        until.add_argument("--grace", type=duration, default=30.0, metavar="30s", help="for running tasks at shutdown")
        other = parser.add_argument_group("other")
        other.add_argument("--poll", type=duration, default=1.0, metavar="1s", help="poll interval without wake-ups")
        other.add_argument("--no-listen", dest="listen", action="store_false", help="poll only, no LISTEN")
        other.add_argument("--reload", action="store_true", default=None, help="restart on code changes (DEBUG: on)")
        other.add_argument("--no-reload", dest="reload", action="store_false")
        other.add_argument(
            "--heartbeat-file", metavar="F", help="touched every second; see django_tasks_retry.healthcheck"
        )
        other.add_argument("--log-format", choices=["text", "json"])
        other.add_argument("--name", default="", help="a label for this worker (default: the host's name)")

    def create_parser(self, *args: Any, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(*args, **kwargs)
        parser.usage = SUPPRESS  # --help shows it; a bad value is answered in one line
        return parser

    def execute(self, *args: Any, **given: Any) -> str | None:
        # It may wait here for its database. The first process of a container is deaf to signals that it does not
        # handle, and a shell starts background jobs with SIGINT ignored.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        try:
            return super().execute(*args, **given)
        except Error as error:
            raise CommandError(f"The database cannot be used: {' '.join(str(error).split())}") from error
        except KeyboardInterrupt:  # before the worker is up, which has its own way to stop
            raise SystemExit(130) from None

    def check_migrations(self) -> None:
        """Print a notice. If the database does not answer, the worker waits for it afterwards, and says so."""
        with suppress(Error):
            super().check_migrations()

    def handle(self, *args: Any, **given: Any) -> None:
        wanted = WorkerOptions(
            **{
                name: given[name]
                for name in WorkerOptions.__dataclass_fields__
                if name not in {"drain", "reload", "max_tasks", "only"}
            },
            drain=given["drain"] or given["once"],
            max_tasks=1 if given["once"] else given["max_tasks"],
            reload=self.wants_reload(given),
        )
        try:
            options = wanted.bounded()
        except ValueError as error:
            raise CommandError(str(error)) from error
        try:
            prepare_connections(options)
            code = start(options, given["log_format"], given["verbosity"], self.check_migrations)
        except TaskQueueError as error:
            raise CommandError(str(error)) from error
        raise SystemExit(code)

    def wants_reload(self, given: dict[str, Any]) -> bool:
        finite = given["drain"] or given["once"] or given["max_tasks"]
        return bool(settings.DEBUG and not finite) if given["reload"] is None else bool(given["reload"])
