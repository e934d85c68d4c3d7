"""The names of the semantic conventions for messaging, which still move: all of them stand here."""

from typing import Any

from ..middleware import Attempt, EnqueuedTask

SYSTEM = "django_tasks_retry"

MESSAGING_SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
MESSAGE_ID = "messaging.message.id"
MESSAGE_COUNT = "messaging.batch.message_count"
CONVERSATION_ID = "messaging.message.conversation_id"
LATENCY = "messaging.message.receive.latency"
RETRY_COUNT = "messaging.message.retry.count"
ERROR_TYPE = "error.type"
FUNCTION = "code.function.name"

# Of our own.
ATTEMPT = "django_tasks_retry.attempt"
MAX_ATTEMPTS = "django_tasks_retry.max_attempts"
WAIT_SECONDS = "django_tasks_retry.wait_seconds"
OUTCOME = "django_tasks_retry.outcome"


def of_calls(calls: list[EnqueuedTask]) -> dict[str, Any]:
    """Return the attributes of one call, or of a batch, with its queue and function if all share them."""
    attributes: dict[str, Any] = {MESSAGING_SYSTEM: SYSTEM, OPERATION_NAME: "send", OPERATION_TYPE: "send"}
    for name, values in ((DESTINATION, {c.queue for c in calls}), (FUNCTION, {c.func_path for c in calls})):
        if len(values) == 1:
            attributes[name] = values.pop()
    if len(calls) == 1:
        return attributes | {MESSAGE_ID: str(calls[0].id)}
    return attributes | {MESSAGE_COUNT: len(calls)}


def of_attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        MESSAGING_SYSTEM: SYSTEM,
        OPERATION_NAME: "process",
        OPERATION_TYPE: "process",
        DESTINATION: attempt.queue,
        MESSAGE_ID: str(attempt.id),
        CONVERSATION_ID: str(attempt.run_id),
        FUNCTION: attempt.func_path,
        ATTEMPT: attempt.spent,
        MAX_ATTEMPTS: attempt.max_attempts,
        WAIT_SECONDS: attempt.wait_seconds,
    }


def outcome_of(attempt: Attempt) -> str:
    """completed, failed (for good), retried or released; interrupted if the attempt was not concluded."""
    ending = attempt.ending
    if ending is None:
        return "interrupted"
    if ending.is_failure:
        return "failed" if ending.is_final else "retried"
    return "completed" if ending.is_final else "released"
