-- Failures: the fingerprints of tasks that failed or wait for another attempt, found by hopping from one to the next in
-- dtr_failures and dtr_troubles; each counted up to a cap. For both databases, so without LATERAL.
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
), shown (fingerprint, sample) AS (
    SELECT alike.fingerprint, COALESCE((
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = alike.fingerprint
        ORDER BY t.finished_at DESC
        LIMIT 1
    ), (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.attempts > 0 AND t.fingerprint = alike.fingerprint
        ORDER BY t.id DESC
        LIMIT 1
    ))
    FROM alike
)
SELECT shown.fingerprint, shown.sample, task.func_path, task.queue, task.updated_at AS last_failed_at,
    $exception AS exception, $code AS code,
    $message AS message, (
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
