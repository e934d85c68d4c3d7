-- Renew: move the expiry of leases that still hold. Touches no indexed column, so the update stays within its page.
-- Locks in the order of the report and passes over what others keep locked, as finish.sql does.
WITH report AS (
    SELECT * FROM unnest(%(id)s::uuid[], %(worker)s::text[], %(attempt)s::int[], %(moved_by)s::text[])
        AS r (id, worker, attempt, moved_by)
), accepted AS MATERIALIZED (
    SELECT r.*, mine.place
    FROM report AS r CROSS JOIN LATERAL (
        SELECT t.ctid AS place
        FROM ONLY django_tasks_retry_task AS t
        WHERE t.id = r.id
            AND t.locked_by = r.worker
            AND t.attempts = r.attempt
            AND t.lock_expires_at > django_tasks_retry_now()
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS mine
)
UPDATE ONLY django_tasks_retry_task AS t
SET lock_expires_at = GREATEST(t.lock_expires_at, django_tasks_retry_now() + (clock_timestamp() - statement_timestamp())
        + %(lease)s::float8 * interval '1 second'),
    moved_by = r.moved_by || CASE WHEN right(t.moved_by, 2) = '++' THEN '' ELSE '+' END
FROM accepted AS r
WHERE t.ctid = r.place
RETURNING t.id, t.locked_by, t.attempts
