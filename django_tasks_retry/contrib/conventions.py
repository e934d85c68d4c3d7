"""The names of the semantic conventions for messaging, which still move: all of them stand here."""

from typing import Any

from ..middleware import Attempt, EnqueuedTask

DESTINATION = "messaging.destination.name"
LATENCY = "messaging.message.receive.latency"
RETRY_COUNT = "messaging.message.retry.count"
ERROR_TYPE = "error.type"

# Of our own.
OUTCOME = "django_tasks_retry.outcome"


def of_calls(calls: list[EnqueuedTask]) -> dict[str, Any]:
    """Return the attributes of one call, or of a batch, with its queue and function if all share them."""
    attributes: dict[str, Any] = {
        "messaging.system": "django_tasks_retry",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    }
    for name, values in ((DESTINATION, {c.queue for c in calls}), ("code.function.name", {c.func_path for c in calls})):
        if len(values) == 1:
            attributes[name] = values.pop()
    if len(calls) == 1:
        return attributes | {"messaging.message.id": str(calls[0].id)}
    return attributes | {"messaging.batch.message_count": len(calls)}


def of_attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "messaging.system": "django_tasks_retry",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        DESTINATION: attempt.queue,
        "messaging.message.id": str(attempt.id),
        "messaging.message.conversation_id": str(attempt.run_id),
        "code.function.name": attempt.func_path,
        "django_tasks_retry.attempt": attempt.spent,
        "django_tasks_retry.max_attempts": attempt.max_attempts,
        "django_tasks_retry.wait_seconds": attempt.wait_seconds,
    }


def outcome_of(attempt: Attempt) -> str:
    """completed, failed (for good), retried or released; interrupted if the attempt was not concluded."""
    ending = attempt.ending
    if ending is None:
        return "interrupted"
    if ending.is_failure:
        return "failed" if ending.is_final else "retried"
    return "completed" if ending.is_final else "released"
