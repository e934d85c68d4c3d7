"""The rows: tasks, their results and their events; and what stands around them."""

from .columns import CALL_COLUMNS, FIXED_COLUMNS, ORIGIN_COLUMNS, OWN_COLUMNS, PLACE_COLUMNS, STATE_COLUMNS
from .limits import FlowLimit, LaneStat
from .operations import OperatorEvent, Queue, TaskStat, TaskTotal, Worker
from .pages import FailureGroup, Overview, TaskFunction
from .results import Signal, Step, TaskEvent, TaskResult
from .schedules import Schedule
from .tasks import MAX_LENGTHS, Task

__all__ = [
    "CALL_COLUMNS", "FIXED_COLUMNS", "MAX_LENGTHS", "ORIGIN_COLUMNS", "OWN_COLUMNS", "PLACE_COLUMNS",
    "STATE_COLUMNS", "FailureGroup", "FlowLimit", "LaneStat", "OperatorEvent", "Overview", "Queue", "Schedule",
    "Signal", "Step", "Task", "TaskEvent", "TaskFunction", "TaskResult", "TaskStat", "TaskTotal", "Worker",
]  # fmt: skip
