-- Waiting: how many tasks of a queue are PENDING, counted as far as it matters: without a lane and with one, each by an
-- index of its own.
SELECT count(*)
FROM (
    SELECT 1 FROM django_tasks_retry_task WHERE status = 'PENDING' AND lane = '' AND queue = %(queue)s
    UNION ALL
    SELECT 1 FROM django_tasks_retry_task WHERE status = 'PENDING' AND lane > '' AND queue = %(queue)s
    LIMIT %(limit)s
) AS waiting
