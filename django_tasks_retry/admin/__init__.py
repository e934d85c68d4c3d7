"""The console: operate tasks from the Django admin. It calls the service layer and decides nothing."""

from .failures import FailureAdmin
from .functions import FunctionAdmin
from .overview import OverviewAdmin
from .queues import LaneAdmin, QueueAdmin
from .schedules import ScheduleAdmin
from .tasks import TaskAdmin
from .workers import WorkerAdmin

__all__ = [
    "FailureAdmin", "FunctionAdmin", "LaneAdmin", "OverviewAdmin", "QueueAdmin", "ScheduleAdmin", "TaskAdmin",
    "WorkerAdmin",
]  # fmt: skip
