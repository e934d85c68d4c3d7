-- Failure head: the latest tasks with one fingerprint, as failure_heads.sql finds them for all. For both databases.
SELECT alike.fingerprint, (
    SELECT t.id FROM django_tasks_retry_task AS t
    WHERE t.status = 'FAILED' AND t.fingerprint = alike.fingerprint
    ORDER BY t.finished_at DESC
    LIMIT 1
) AS failed_id, (
    SELECT t.finished_at FROM django_tasks_retry_task AS t
    WHERE t.status = 'FAILED' AND t.fingerprint = alike.fingerprint
    ORDER BY t.finished_at DESC
    LIMIT 1
) AS failed_at, (
    SELECT t.id FROM django_tasks_retry_task AS t
    WHERE t.status = 'PENDING' AND t.attempts > 0 AND t.fingerprint = alike.fingerprint
    ORDER BY t.finished_at DESC, t.id DESC
    LIMIT 1
) AS waiting_id, (
    SELECT t.updated_at FROM django_tasks_retry_task AS t
    WHERE t.status = 'PENDING' AND t.attempts > 0 AND t.fingerprint = alike.fingerprint
    ORDER BY t.finished_at DESC, t.id DESC
    LIMIT 1
) AS waiting_since
FROM (SELECT %(fingerprint)s AS fingerprint) AS alike
