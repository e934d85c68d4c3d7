"""Every exception that a user of the package can meet."""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from .durations import as_seconds


class TaskQueueError(Exception):
    """Something the task queue refuses to do."""


class InvalidCall(TaskQueueError, ValueError):
    """The call cannot be stored or run."""


class InvalidPayload(InvalidCall, TypeError):
    """An argument or a result is not canonical JSON."""


class UnstorableResult(InvalidPayload):
    """The result of a step cannot be kept. Final: the step was done, and another attempt would only do it again."""


class NewerFormat(InvalidPayload):
    """Typed JSON has a format that this release cannot read."""


class WrongArguments(InvalidCall, TypeError):
    """The function cannot be called with these arguments."""


class UnknownOption(InvalidCall, TypeError):
    """There is no such option of enqueue()."""


class UnregisteredTask(InvalidCall):
    """The function is not a task that workers can look up."""


class UnknownQueue(InvalidCall):
    """The queue is not one of the backend's queues."""


class UnknownBackend(InvalidCall):
    """The alias names no backend of TASKS whose tasks are kept in this queue."""


class InvalidPolicy(TaskQueueError, ValueError):
    """The retry policy contradicts itself."""


class InvalidSchedule(TaskQueueError, ValueError):
    """The schedule cannot be read, never fires, or names what does not exist."""


class InvalidLane(TaskQueueError, ValueError):
    """The lane's limits contradict one another, or its name cannot be made."""


class InvalidOptions(TaskQueueError, ValueError):
    """The backend's OPTIONS cannot be understood."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class AlreadyEnqueued(TaskQueueError):
    """An unfinished task holds the unique key, and the caller wants to be the only one."""

    def __init__(self, key: str, task: Any) -> None:
        self.key, self.task = key, task
        super().__init__(
            f"The {task.status} task {task.pk} holds the unique key {key!r}, and on_conflict is 'raise'. "
            "Wait for it to finish, cancel it, or choose keep, replace or run_again."
        )


class QueueFull(TaskQueueError):
    """The queue or lane has reached its backlog limit."""

    def __init__(self, queue: str, waiting: int, kind: str = "queue") -> None:
        self.queue, self.waiting, self.kind = queue, waiting, kind
        super().__init__(
            f"{kind.capitalize()} {queue!r} is full: {waiting:,} tasks wait, as many as OPTIONS['BACKLOG'] allows. "
            "Nothing was stored. Try again later, start more workers, or raise the limit."
        )


class EnqueueTimeout(TaskQueueError, TimeoutError):
    """The database did not answer in time. If `may_exist`, the tasks with these `ids` may have been stored.

    All tasks of the call were stored, or none. For a long list or a stream, `ids` names only the first ones.
    """

    def __init__(self, ids: Sequence[UUID], seconds: float, *, may_exist: bool) -> None:
        self.ids, self.seconds, self.may_exist = list(ids), seconds, may_exist
        super().__init__(
            f"The database did not answer within {seconds:g} s. "
            + (
                f"Task {self.ids[0]} may exist: look for this id before you enqueue the call again."
                if may_exist
                else f"The call was not sent, so task {self.ids[0]} does not exist."
            )
        )


class ShardAway(TaskQueueError):
    """The database that holds the task, or to which the call belongs, does not answer. Nothing was stored."""

    def __init__(self, *databases: str) -> None:
        self.databases = databases
        names = ", ".join(map(repr, databases))
        super().__init__(
            f"The shard {names} does not answer. Its tasks wait there until it does, and so must this call: try again "
            "later. Calls without a key, a limit or a shard_key go to another shard meanwhile."
        )


class PartlyEnqueued(TaskQueueError):
    """A list over several shards was stored in some of them only: `tasks`. The `error` stopped the rest."""

    def __init__(self, tasks: Sequence[Any], error: Exception) -> None:
        self.tasks, self.error = list(tasks), error
        super().__init__(
            f"{len(self.tasks):,} tasks of the list are stored, and the rest is not, because of another shard: {error} "
            "Enqueue those that are not in `tasks` again. One shard_key or one lane for all keeps a list together."
        )


class IllegalMove(TaskQueueError):
    """The task's status does not allow this move."""


class GuardMissing(TaskQueueError):
    """The database does not enforce the contract."""


class CannotPartition(TaskQueueError):
    """History cannot be partitioned in this database."""


class NotMigrated(TaskQueueError):
    """The database does not have the tables of the task queue."""

    def __init__(self, using: str) -> None:
        option = "" if using == "default" else f" --database {using}"
        super().__init__(
            f"Database {using!r} does not have the tables of the task queue. Run: python manage.py migrate{option}"
        )


class LostReason(StrEnum):
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    RECLAIMED = "RECLAIMED"
    GONE = "GONE"


class LeaseLost(TaskQueueError):
    """A report came late, from somebody else, or for a task that is gone; its outcome was dropped."""

    def __init__(self, reason: LostReason, task_id: object = None) -> None:
        self.reason = reason
        self.task_id = task_id
        super().__init__(f"Lease on task {task_id} is lost: {reason}. The outcome was dropped.")


class ControlFlow(Exception):
    """Raised by a task function to steer its own retries."""


class Retry(ControlFlow):
    """Try again after a delay of its own. Spends the attempt."""

    def __init__(self, reason: str = "", *, after: float | timedelta) -> None:
        self.after = as_seconds(after)
        self.reason = reason
        super().__init__(reason or f"asked to be tried again in {self.after:g} s")


class Snooze(ControlFlow):
    """Not now: come back after the delay. The attempt is refunded."""

    def __init__(self, delay: float | timedelta, reason: str = "") -> None:
        self.delay = as_seconds(delay)
        self.reason = reason
        super().__init__(reason or f"snoozed for {self.delay:g} s")


class Abort(ControlFlow):
    """Give up at once, whatever budget is left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class PayloadUnavailable(Abort):
    """An encrypted or offloaded payload cannot be read: its key or its file is missing, or it was changed."""


class MembersFailed(Exception):
    """Members of a batch have failed or were cancelled. `ids` names the first of them."""

    def __init__(self, count: int, ids: Sequence[UUID], message: str = "") -> None:
        self.count, self.ids = count, list(ids)
        first = f" The first is {self.ids[0]}{message and f': {message}'}." if self.ids else ""
        super().__init__(f"{count:,} of the tasks that were gathered did not succeed.{first}")


class MembersGone(Exception):
    """Members of a batch were deleted before somebody asked for their results."""

    def __init__(self, gone: int, count: int) -> None:
        super().__init__(
            f"{gone:,} of the {count:,} members of the batch are no longer stored, and their results went with them. "
            "Retry the task from the beginning, without resume=True; or keep finished tasks for longer."
        )


class Suspend(BaseException):
    """Ends the attempt without a failure: another goes on after the delay, or as soon as what it waits for has come.

    Not an Exception, so that `except Exception` in a task lets it pass.
    """

    def __init__(self, reason: str, delay: float, waits_for: str | None = None) -> None:
        self.delay, self.waits_for = delay, waits_for
        super().__init__(reason)


class TaskTimeout(TimeoutError):
    """The attempt ran longer than its timeout."""


class TaskCancelled(Exception):
    """The task was cancelled."""
