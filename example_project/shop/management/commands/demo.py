"""A demo: enqueue tasks of every kind, run a real worker, and report what happened."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.urls import reverse

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from example_project.shop import tasks
from example_project.shop.demo import processes, report
from example_project.shop.demo.live_table import LiveTable
from example_project.shop.demo.runner import DemoRunner

SECONDS = 25.0


class Command(BaseCommand):
    help = "Demonstrate the queue: migrate, enqueue tasks of every kind, run a worker, report what happened."
    requires_system_checks = []  # some of them open the database, which may be the wrong one

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--serve", action="store_true", help="then keep a web server and a worker running")
        parser.add_argument("--port", type=int, default=8000, help="of the web server (default: 8000)")
        parser.add_argument(
            "--use-database-url", action="store_true", help="write to the database that DATABASE_URL names"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        sys.stdout.reconfigure(errors="replace")  # terminals without these characters still show the text
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which also ends the demo's processes
        self.refuse_foreign_database(consent=options["use_database_url"])
        if options["serve"] and processes.is_taken(options["port"]):
            raise CommandError(f"Port {options['port']} is taken. Give another one: --port {options['port'] + 1}")
        self.stdout.write(f"Database: {database_name()}. Everything that the demo writes goes there.\n")
        call_command("migrate", verbosity=0)
        complete = self.run_scenarios()
        if options["serve"]:
            self.serve(options["port"])
        if not complete:
            raise CommandError("not everything ended as it should; see the table above")

    def refuse_foreign_database(self, *, consent: bool) -> None:
        if "DATABASE_URL" in os.environ and not consent:
            raise CommandError(
                f"DATABASE_URL is set, to {database_name()}. The demo would migrate it and write orders and tasks. "
                "Unset it to use the example's own SQLite file, or give --use-database-url."
            )

    def run_scenarios(self) -> bool:
        runner = DemoRunner()
        live_table = LiveTable(self.stdout, runner)
        with processes.worker(seconds=SECONDS + 5) as worker:
            runner.begin()
            try:
                in_time = runner.watch(live_table.show, SECONDS, worker.is_running)
            finally:
                runner.end()
            if not in_time:
                self.stderr.write(f"The demo did not finish in time. The end of the worker's log:\n{worker.log_tail()}")
        return self.print_report(runner)

    def print_report(self, runner: DemoRunner) -> bool:
        for line in report.timelines(runner):
            self.stdout.write(line)
        good, all_scenarios = report.count_expected(runner)
        self.stdout.write(report.table(runner))
        self.stdout.write(f"\n{good} of {all_scenarios} ended as they should.")
        return good == all_scenarios

    def serve(self, port: int) -> None:
        user, password = set_up_login()
        series = Task.objects.enqueue(tasks.welcome_customer, interval=3, unique_key="demo-customers")
        try:
            with processes.web_server(port) as web, processes.worker() as worker:
                if web.wait_for_port(port):
                    self.print_addresses(port, user, password)
                    self.stay(web, worker)
                else:
                    raise CommandError(f"The web server did not start:\n{web.log_tail()}")
        finally:
            end_series(series)

    def print_addresses(self, port: int, user: str, password: str) -> None:
        site, console = f"http://127.0.0.1:{port}", reverse("admin:django_tasks_retry_overview_changelist")
        self.stdout.write(f"\nShop:    {site}{reverse('orders')}")
        self.stdout.write(f"Console: {site}{console}  (user {user}, password {password})")
        self.stdout.write("A new order arrives every three seconds. Press Ctrl-C to stop.")

    def stay(self, web: processes.ManagePy, worker: processes.ManagePy) -> None:
        try:
            while web.is_running() and worker.is_running():
                time.sleep(0.5)
        except KeyboardInterrupt:
            self.stdout.write("\nStopping.")
        else:
            raise CommandError(f"A process exited:\n{web.log_tail()}{worker.log_tail()}")


def database_name() -> str:
    """The database that the demo writes to, for people."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"SQLite file {settings['NAME']}"
    return f"{connection.display_name} {settings['NAME']} on {settings['HOST'] or 'localhost'}"


def set_up_login() -> tuple[str, str]:
    """The demo's own user. A name and a password that everybody knows stay in the example's own file."""
    is_ours = "DATABASE_URL" not in os.environ
    name = "demo" if is_ours else f"demo-{secrets.token_hex(3)}"
    password = "demo" if is_ours else secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(username=name, defaults={"is_staff": True, "is_superuser": True})
    user.set_password(password)
    user.save()
    return name, password


def end_series(first: Task) -> None:
    occurrences = Task.objects.unfinished().filter(run_id=first.run_id, interval__gt=0)
    taskqueue.cancel(occurrences.values_list("pk", flat=True), by="demo", reason="the demo is over")
