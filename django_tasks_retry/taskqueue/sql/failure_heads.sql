-- Failure heads: the fingerprints of tasks that failed or wait for another attempt, found by hopping from one to the next
-- in dtr_failures; each with its latest tasks. For both databases, so without LATERAL.
WITH RECURSIVE gone (fingerprint) AS (
    SELECT (
        SELECT fingerprint FROM django_tasks_retry_task
        WHERE status = 'FAILED' AND fingerprint IS NOT NULL
        ORDER BY fingerprint
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.fingerprint FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint > gone.fingerprint
        ORDER BY t.fingerprint
        LIMIT 1
    )
    FROM gone WHERE gone.fingerprint IS NOT NULL
), waiting (fingerprint) AS (
    SELECT (
        SELECT fingerprint FROM django_tasks_retry_task
        WHERE status = 'PENDING' AND attempts > 0 AND fingerprint IS NOT NULL
        ORDER BY fingerprint
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.fingerprint FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.attempts > 0 AND t.fingerprint > waiting.fingerprint
        ORDER BY t.fingerprint
        LIMIT 1
    )
    FROM waiting WHERE waiting.fingerprint IS NOT NULL
), alike (fingerprint) AS (
    SELECT fingerprint FROM (SELECT fingerprint FROM gone LIMIT %(groups)s) AS first WHERE fingerprint IS NOT NULL
    UNION
    SELECT fingerprint FROM (SELECT fingerprint FROM waiting LIMIT %(groups)s) AS first WHERE fingerprint IS NOT NULL
)
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
FROM alike
