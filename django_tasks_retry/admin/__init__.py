"""The console: operate tasks from the Django admin. It calls the service layer and decides nothing."""

from .lanes.admin import LaneAdmin
from .pages.failures import FailureAdmin
from .pages.functions import FunctionAdmin
from .pages.overview import OverviewAdmin
from .pages.queues import QueueAdmin
from .pages.workers import WorkerAdmin
from .schedules.admin import ScheduleAdmin
from .tasks.admin import TaskAdmin

__all__ = [
    "FailureAdmin",
    "FunctionAdmin",
    "LaneAdmin",
    "OverviewAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "TaskAdmin",
    "WorkerAdmin",
]
