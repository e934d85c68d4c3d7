import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db.utils import Error

from django_tasks_retry.cli.output import Output
from django_tasks_retry.cli.shards import run_over_shards
from django_tasks_retry.cli.subcommand import CliError, Context, Exit, add_subcommands, subcommands
from django_tasks_retry.conf import check_backend
from django_tasks_retry.display.scope import console_backend
from django_tasks_retry.errors import InvalidLane, InvalidOptions, TaskQueueError, UnknownBackend, UnknownQueue


class Command(BaseCommand):
    help = "See and steer the task queue."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add_subcommands(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        output = Output(self.stdout, self.stderr, as_json=given["json"], colour=not given["no_color"])
        try:
            backend = check_backend(given["backend"] or console_backend())
            code = run_over_shards(subcommands()[given["subcommand"]], Context(given, output, backend))
            self.stdout.flush()
        except BrokenPipeError:
            # Python would complain when it flushes what is left.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = Exit.BROKEN_PIPE
        except (TaskQueueError, CliError, Error, KeyboardInterrupt) as error:
            message, code = message_of(error)
            output.say(message)
        if code != Exit.OK:
            raise SystemExit(int(code))


def message_of(error: BaseException) -> tuple[str, Exit]:
    """The message to print for an error, and the exit code."""
    match error:
        case CliError():
            return str(error), error.code
        case UnknownBackend() | UnknownQueue() | InvalidOptions() | InvalidLane():
            return str(error), Exit.USAGE
        case TaskQueueError():
            return str(error), Exit.REFUSED
        case Error():
            return f"The database cannot be used: {' '.join(str(error).split())}", Exit.UNAVAILABLE
        case _:
            return "Interrupted.", Exit.INTERRUPTED
