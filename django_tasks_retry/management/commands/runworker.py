import signal
import sys
from argparse import SUPPRESS
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.utils import Error

from django_tasks_retry.cli.subcommand import checked
from django_tasks_retry.durations import read_duration
from django_tasks_retry.errors import TaskQueueError
from django_tasks_retry.worker import start
from django_tasks_retry.worker.options import WorkerOptions, read_count, read_names, read_size
from django_tasks_retry.worker.shards import run_worker
from django_tasks_retry.worker.startup import prepare_connections


class Command(BaseCommand):
    help = "Run the tasks that are due, until asked to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        count, duration, names = checked(read_count), checked(read_duration), checked(read_names)
        add = parser.add_argument_group("which tasks").add_argument
        add("--queues", "-q", type=names, default=("*",), metavar="a,b,bulk*", help="names or patterns (default: all)")
        add("--exclude", "-x", type=names, default=(), metavar="c,d*", help="queues that this worker leaves to others")
        add("--backend", default="default", help="the alias in TASKS (default: default)")
        add("--shards", type=names, default=(), metavar="q0,q1", help="of OPTIONS['SHARDS'] (default: all)")
        add = parser.add_argument_group("how many at once").add_argument
        add("--processes", type=count, default=1, help="default: 1")
        add("--threads", type=count, default=8, help="for plain functions, per process (default: 8)")
        add("--async-slots", type=count, default=100, help="for coroutines, per process (default: 100)")
        add("--max-connections", type=count, metavar="N", help="to the database; fewer threads if they would not fit")
        add = parser.add_argument_group("when to stop").add_argument
        add("--drain", action="store_true", help="stop when nothing is due")
        add("--once", action="store_true", help="run at most one task, then stop")
        add("--max-tasks", type=count, help="stop after this many attempts")
        add("--max-time", type=duration, metavar="6h", help="stop after this time")
        add("--max-memory", type=checked(read_size), metavar="512M", help="replace a larger process")
        add("--grace", type=duration, default=30.0, metavar="30s", help="for running tasks at shutdown")
        add = parser.add_argument_group("other").add_argument
        add("--poll", type=duration, default=1.0, metavar="1s", help="poll interval without wake-ups")
        add("--no-listen", dest="listen", action="store_false", help="poll only, no LISTEN")
        add("--reload", action="store_true", default=None, help="restart on code changes (DEBUG: on)")
        add("--no-reload", dest="reload", action="store_false")
        add("--heartbeat-file", metavar="F", help="touched every second; see django_tasks_retry.healthcheck")
        add("--log-format", choices=["text", "json"])
        add("--name", default="", help="a label for this worker (default: the host's name)")

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
        plain = {name: given[name] for name in WorkerOptions.__dataclass_fields__ if name in given}
        is_finite = given["drain"] or given["once"] or given["max_tasks"]
        decided = {
            "drain": given["drain"] or given["once"],
            "max_tasks": 1 if given["once"] else given["max_tasks"],
            "reload": bool(settings.DEBUG and not is_finite) if given["reload"] is None else given["reload"],
        }
        try:
            options = WorkerOptions(**plain | decided).bounded()
        except ValueError as error:
            raise CommandError(str(error)) from error
        try:
            prepare_connections(options)
            how = given["log_format"], given["verbosity"], self.check_migrations
            code = run_worker(options, given["shards"], lambda each: start(each, *how))
        except TaskQueueError as error:
            raise CommandError(str(error)) from error
        raise SystemExit(code)
