"""The console: operate tasks from the Django admin. It calls the service layer and decides nothing."""

from .tasks import TaskAdmin

__all__ = ["TaskAdmin"]
