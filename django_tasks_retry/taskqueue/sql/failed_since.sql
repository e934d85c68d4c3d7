-- Failed since: how many of these groups failed since a moment, each counted up to a cap.
WITH shown (fingerprint, sample) AS (
    SELECT key, value::uuid FROM jsonb_each_text(%(shown)s::jsonb)
)
SELECT coalesce(sum((
    SELECT count(capped.finished_at) FROM (
        SELECT t.finished_at FROM django_tasks_retry_task AS t
        WHERE t.status = 'FAILED' AND t.fingerprint = shown.fingerprint AND t.finished_at > %(since)s
        LIMIT %(cap)s
    ) AS capped
)), 0) AS failed
FROM shown
