from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_tasks_retry import guard
from django_tasks_retry.taskqueue import database
from django_tasks_retry.worker.drain import drain
from django_tasks_retry.worker.identity import new_worker_id


class Command(BaseCommand):
    help = "Run the tasks that are due."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--queues", default="*", help="queues to serve, such as emails,bulk* (default: all)")
        parser.add_argument("--backend", default="default", help="the alias in TASKS (default: default)")
        parser.add_argument("--drain", action="store_true", help="stop when no task is due")

    def handle(self, *args: Any, queues: str, backend: str, **options: Any) -> None:
        guard.ensure(database(backend))
        receipts = drain(new_worker_id(), queues=queues.split(","), backend=backend)
        self.stdout.write(f"{len(receipts)} attempts done.")
