"""The rows: tasks, their results and their events; and what stands around them."""

from .operations import OperatorEvent, Queue, TaskStat, Worker
from .pages import FailureGroup, Overview
from .tasks import MAX_LENGTHS, Task, TaskEvent, TaskResult

__all__ = [
    "MAX_LENGTHS",
    "FailureGroup",
    "OperatorEvent",
    "Overview",
    "Queue",
    "Task",
    "TaskEvent",
    "TaskResult",
    "TaskStat",
    "Worker",
]
