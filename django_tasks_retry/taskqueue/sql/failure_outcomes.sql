-- Failure outcomes: how many failed with one fingerprint, counted up to a cap; and of the newest of them, how many were
-- retried, and how many of those retries have succeeded.
SELECT (
    SELECT count(capped.id) FROM (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = %(fingerprint)s
        LIMIT %(cap)s
    ) AS capped
) AS failed, count(newest.id) AS looked_at, count(CASE WHEN EXISTS (
    SELECT 1 FROM django_tasks_retry_task AS again WHERE again.retry_of_id = newest.id
) THEN 1 END) AS retried, count(CASE WHEN EXISTS (
    SELECT 1 FROM django_tasks_retry_task AS again WHERE again.retry_of_id = newest.id AND again.status = 'SUCCESS'
) THEN 1 END) AS succeeded
FROM (
    SELECT t.id FROM django_tasks_retry_task AS t
    WHERE t.status = 'FAILED' AND t.fingerprint = %(fingerprint)s
    ORDER BY t.finished_at DESC
    LIMIT %(newest)s
) AS newest
