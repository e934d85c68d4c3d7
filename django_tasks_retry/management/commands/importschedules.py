from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_tasks_retry.errors import InvalidSchedule
from django_tasks_retry.schedule_import import SOURCES, carry_out, plan_import


class Command(BaseCommand):
    help = "Import schedules of another queue. Shows what it would do; --apply does it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="source", required=True, choices=sorted(SOURCES))
        parser.add_argument("--file", help="the crontab, for crontab-file")
        parser.add_argument("--apply", action="store_true", help="make the schedules; without it nothing is written")
        parser.add_argument("--backend", default="default", help="the alias in TASKS (default: default)")

    def handle(self, *args: Any, **given: Any) -> None:
        try:
            plan = plan_import(given["source"], path=given["file"], backend=given["backend"])
        except InvalidSchedule as error:
            raise CommandError(str(error)) from None
        for one in plan.importable:
            when = one.asked.get("cron") or f"every {one.asked.get('every'):g} s"
            self.stdout.write(f"+ {one.name}: {one.task} · {when}{' · paused' if one.is_paused else ''}")
        for other in plan.not_importable:
            self.stdout.write(f"- {other.name}: {other.why}")
        if given["apply"]:
            made = carry_out(plan, backend=given["backend"])
            self.stdout.write(f"{len(made)} schedules made, {len(plan.not_importable)} left out.")
        else:
            self.stdout.write(f"Dry run: {len(plan.importable)} would be made. Add --apply to make them.")
