"""The statuses of a task."""

from enum import StrEnum


class Status(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


UNFINISHED = (Status.PENDING, Status.RUNNING)
FINISHED = (Status.SUCCESS, Status.FAILED, Status.CANCELLED)
