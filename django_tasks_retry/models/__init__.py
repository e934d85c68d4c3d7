"""The rows: tasks, their results and their events; and what stands around them."""

from .columns import CALL_COLUMNS, FIXED_COLUMNS, ORIGIN_COLUMNS, OWN_COLUMNS, PLACE_COLUMNS, STATE_COLUMNS
from .lanes import LaneStat, LaneState
from .operations import OperatorEvent, Queue, TaskStat, TaskTotal, Worker
from .pages import FailureGroup, Overview, TaskFunction
from .schedules import Schedule
from .tasks import MAX_LENGTHS, Task, TaskEvent, TaskResult
from .workflows import Signal, Step

__all__ = [
    "CALL_COLUMNS",
    "FIXED_COLUMNS",
    "MAX_LENGTHS",
    "ORIGIN_COLUMNS",
    "OWN_COLUMNS",
    "PLACE_COLUMNS",
    "STATE_COLUMNS",
    "FailureGroup",
    "LaneStat",
    "LaneState",
    "OperatorEvent",
    "Overview",
    "Queue",
    "Schedule",
    "Signal",
    "Step",
    "Task",
    "TaskEvent",
    "TaskFunction",
    "TaskResult",
    "TaskStat",
    "TaskTotal",
    "Worker",
]
