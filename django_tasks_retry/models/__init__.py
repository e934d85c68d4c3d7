"""The rows: tasks, their results and their events; and what stands around them."""

from .columns import CALL_COLUMNS, FIXED_COLUMNS, ORIGIN_COLUMNS, OWN_COLUMNS, PLACE_COLUMNS, STATE_COLUMNS
from .limits import FUNCTION, LANE, QUEUE, TRIPPED, FlowLimit, LaneStat
from .operations import BacklogStat, OperatorEvent, Queue, TaskStat, TaskTotal, Worker
from .pages import FailureGroup, Overview, TaskFunction
from .querysets import IS_UNFINISHED, ScheduleQuerySet, TaskQuerySet
from .results import MAX_NAME, Signal, Step, TaskEvent, TaskResult
from .schedules import OVERLAPS, TIMING_COLUMNS, Schedule
from .shards import Shard, ShardBucket
from .tasks import KEYED, MAX_LENGTHS, Task

__all__ = [
    "CALL_COLUMNS", "FIXED_COLUMNS", "FUNCTION", "IS_UNFINISHED", "KEYED", "LANE", "MAX_LENGTHS", "MAX_NAME",
    "ORIGIN_COLUMNS", "OVERLAPS", "OWN_COLUMNS", "PLACE_COLUMNS", "QUEUE", "STATE_COLUMNS", "TIMING_COLUMNS",
    "TRIPPED", "BacklogStat", "FailureGroup", "FlowLimit", "LaneStat", "OperatorEvent", "Overview", "Queue",
    "Schedule", "ScheduleQuerySet", "Shard", "ShardBucket", "Signal", "Step", "Task", "TaskEvent", "TaskFunction",
    "TaskQuerySet", "TaskResult", "TaskStat", "TaskTotal", "Worker",
]  # fmt: skip
