-- Recover: expired leases, or all leases of a dead worker, go back to PENDING, or to FAILED where no attempt is left.
-- Ordered as dtr_leases is: without that, statistics that say that most tasks are running make it a walk through the
-- whole table (100,300 rows read instead of none).
WITH lost AS MATERIALIZED (
    SELECT id, locked_by
    FROM django_tasks_retry_task
    WHERE status = 'RUNNING'
        AND CASE WHEN %(dead)s::text IS NULL
            THEN lock_expires_at <= django_tasks_retry_now() ELSE locked_by = %(dead)s::text END
    ORDER BY locked_by
    LIMIT %(limit)s::int
    FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE django_tasks_retry_task AS t
    SET status = CASE WHEN t.attempts - t.refunds < t.max_attempts THEN 'PENDING' ELSE 'FAILED' END,
        eta = CASE WHEN t.attempts - t.refunds < t.max_attempts THEN django_tasks_retry_now() ELSE t.eta END,
        locked_by = NULL,
        lock_expires_at = NULL,
        moved_by = %(actor)s::text,
        last_error = CASE WHEN t.attempts - t.refunds < t.max_attempts THEN t.last_error ELSE jsonb_build_object(
            'message', %(message)s::text, 'code', 'LEASE_LOST', 'exception', '', 'traceback', '',
            'ts', django_tasks_retry_now(), 'attempt', t.attempts, 'max_attempts', t.max_attempts,
            'terminal', true, 'backoff_ms', NULL, 'next_eta', NULL
        ) END,
        fingerprint = CASE WHEN t.attempts - t.refunds < t.max_attempts THEN t.fingerprint ELSE %(fingerprint)s::text END,
        updated_at = django_tasks_retry_now(),
        finished_at = CASE WHEN t.attempts - t.refunds < t.max_attempts THEN NULL ELSE django_tasks_retry_now() END
    FROM lost
    WHERE t.id = lost.id
    RETURNING t.id, t.func_path, t.status, t.attempts, t.last_error, t.last_attempt_at, t.finished_at,
        lost.locked_by AS lost_by
), results AS (
    INSERT INTO django_tasks_retry_taskresult (task_id, status, error, attempts, last_attempt_at, finished_at)
    SELECT id, status, last_error, attempts, last_attempt_at, finished_at FROM moved WHERE finished_at IS NOT NULL
), told AS (
    INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
    SELECT m.id, e.kind, django_tasks_retry_now(), m.attempts, %(actor)s::text, e.data
    FROM moved AS m CROSS JOIN LATERAL (
        SELECT 1 AS n, 'task.lease_lost' AS kind, jsonb_build_object('cause', %(cause)s::text, 'worker', m.lost_by) AS data
        UNION ALL
        SELECT 2, 'task.failed', jsonb_build_object('terminal', true, 'error', jsonb_build_object(
            'message', %(message)s::text, 'code', 'LEASE_LOST', 'exception', '', 'traceback', ''
        )) WHERE m.finished_at IS NOT NULL
    ) AS e
    ORDER BY m.id, e.n
)
SELECT id, func_path, status, attempts, lost_by FROM moved
