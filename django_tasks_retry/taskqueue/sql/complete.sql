-- Complete: completions by one worker that say nothing but what was returned, written as finish.sql does, for the reasons
-- given there. The reports come as arrays, which are shorter still than JSON texts.
WITH report AS (
    SELECT r.id, %(worker)s::text AS worker, r.attempt, r.result, r.n
    FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(results)s::text[])
        WITH ORDINALITY AS r (id, attempt, result, n)
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
), moved AS (
    UPDATE ONLY django_tasks_retry_task AS t
    SET status = 'SUCCESS',
        locked_by = NULL,
        lock_expires_at = NULL,
        moved_by = r.worker || ':' || r.attempt,
        waits_for = NULL,
        updated_at = django_tasks_retry_now(),
        finished_at = django_tasks_retry_now()
    FROM accepted AS r
    WHERE t.ctid = r.place
    RETURNING r.n - 1 AS n, t.id, r.worker, t.status, t.attempts, t.last_attempt_at, t.finished_at,
        r.result::jsonb AS result
), results AS (
    INSERT INTO django_tasks_retry_taskresult (task_id, status, result, attempts, last_attempt_at, finished_at)
    SELECT id, status, result, attempts, last_attempt_at, finished_at FROM moved
), events AS (
    INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
    SELECT id, 'task.completed', finished_at, attempts, worker, '{}' FROM moved
)
SELECT array_agg(n), django_tasks_retry_now() FROM moved
