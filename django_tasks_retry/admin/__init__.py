"""The console: operate tasks from the Django admin. It calls the service layer and decides nothing."""

from .failures import FailureAdmin
from .overview import OverviewAdmin
from .queues import QueueAdmin
from .tasks import TaskAdmin
from .workers import WorkerAdmin

__all__ = ["FailureAdmin", "OverviewAdmin", "QueueAdmin", "TaskAdmin", "WorkerAdmin"]
