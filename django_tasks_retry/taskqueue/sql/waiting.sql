-- Waiting: how many tasks of a queue are PENDING, counted as far as it matters.
SELECT count(*)
FROM (
    SELECT 1 FROM django_tasks_retry_task WHERE status = 'PENDING' AND queue = %(queue)s
    LIMIT %(limit)s
) AS waiting
