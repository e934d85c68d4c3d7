-- Failed since: as failed_since.sql, for SQLite.
WITH shown (fingerprint, sample) AS (
    SELECT key, value FROM json_each(%(shown)s)
)
SELECT coalesce(sum((
    SELECT count(capped.finished_at) FROM (
        SELECT t.finished_at FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint AND t.finished_at > %(since)s
        LIMIT %(cap)s
    ) AS capped
)), 0) AS failed
FROM shown
