-- Failures: as failures.sql, for SQLite.
-- The counts read dtr_failures. For both databases, so without LATERAL.
WITH shown (fingerprint, sample) AS (
    SELECT key, value FROM json_each(%(shown)s)
)
SELECT shown.fingerprint, shown.sample, task.func_path, task.queue,
    json_extract(task.last_error, '$.exception') AS exception, json_extract(task.last_error, '$.code') AS code,
    json_extract(task.last_error, '$.message') AS message, (
    SELECT t.finished_at FROM django_tasks_retry_task AS t
    WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint
    ORDER BY t.finished_at
    LIMIT 1
) AS first_failed_at, (
    SELECT count(capped.id) FROM (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint
        ORDER BY t.finished_at DESC
        LIMIT %(cap)s
    ) AS capped
) AS failed, (
    SELECT count(capped.id) FROM (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint
        ORDER BY t.finished_at DESC
        LIMIT %(cap)s
    ) AS capped
    WHERE NOT EXISTS (SELECT 1 FROM django_tasks_retry_task AS again WHERE again.retry_of_id = capped.id)
) AS open, (
    SELECT count(capped.finished_at) FROM (
        SELECT t.finished_at FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint AND t.finished_at > %(day_ago)s
        ORDER BY t.finished_at DESC
        LIMIT %(cap)s
    ) AS capped
) AS failed_today, (
    SELECT count(capped.finished_at) FROM (
        SELECT t.finished_at FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint AND t.finished_at > %(hour_ago)s
        ORDER BY t.finished_at DESC
        LIMIT %(cap)s
    ) AS capped
) AS failed_this_hour, (
    SELECT count(capped.id) FROM (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.attempts > 0 AND t.fingerprint = shown.fingerprint
        LIMIT %(cap)s
    ) AS capped
) AS retrying
FROM shown JOIN django_tasks_retry_task AS task ON task.id = shown.sample
