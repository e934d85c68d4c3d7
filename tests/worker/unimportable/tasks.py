from a_queue_that_is_not_installed import shared_task  # noqa: F401
