-- Recover: expired leases, or all leases of a dead worker, return to PENDING, or become FAILED if no attempt is left.
-- Ordered as dtr_leases is: without that, statistics that say that most tasks are running make it a walk through the
-- whole table (100,300 rows read instead of none).
WITH lost AS MATERIALIZED (
    SELECT id, locked_by, lock_expires_at, attempts - refunds < max_attempts AS has_budget
    FROM django_tasks_retry_task
    WHERE status = 'RUNNING'
        AND CASE WHEN %(dead)s::text IS NULL
            THEN lock_expires_at <= django_tasks_retry_now() ELSE locked_by = %(dead)s::text END
    ORDER BY locked_by
    LIMIT %(limit)s::int
    FOR NO KEY UPDATE SKIP LOCKED
), moved AS (
    UPDATE ONLY django_tasks_retry_task AS t
    SET status = CASE WHEN lost.has_budget THEN 'PENDING' ELSE 'FAILED' END,
        locked_by = NULL,
        lock_expires_at = NULL,
        moved_by = %(actor)s::text,
        last_error = CASE WHEN lost.has_budget THEN t.last_error ELSE %(failure)s::jsonb || jsonb_build_object(
            'ts', django_tasks_retry_now(), 'attempt', t.attempts, 'max_attempts', t.max_attempts,
            'terminal', true, 'backoff_ms', NULL, 'next_eta', NULL
        ) END,
        crashes = CASE WHEN lost.has_budget AND %(crashed)s::bool THEN COALESCE(t.crashes, 0) + 1 ELSE t.crashes END,
        fingerprint = CASE WHEN lost.has_budget THEN t.fingerprint ELSE %(fingerprint)s::text END,
        updated_at = django_tasks_retry_now(),
        finished_at = CASE WHEN lost.has_budget THEN NULL ELSE django_tasks_retry_now() END
    FROM lost
    WHERE t.id = lost.id
    RETURNING t.status, t.updated_at, CASE WHEN lost.has_budget THEN NULL ELSE t.last_error END AS error,
        t.id, lost.locked_by, t.attempts, lost.lock_expires_at, t.func_path, t.queue, t.priority, t.backend, t.eta,
        t.slot, t.max_attempts, t.refunds, t.backoff, t.timeout, t.interval, t.run_id, t.created_at, t.started_at,
        t.last_attempt_at, t.schedule_id, t.lane, t.batch
), results AS (
    INSERT INTO django_tasks_retry_taskresult (task_id, status, error, attempts, last_attempt_at, finished_at)
    SELECT id, status, error, attempts, last_attempt_at, updated_at FROM moved WHERE status = 'FAILED'
), events AS (
    INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
    SELECT m.id, e.kind, django_tasks_retry_now(), m.attempts, %(actor)s::text, e.data
    FROM moved AS m CROSS JOIN LATERAL (
        SELECT 1 AS n, 'task.lease_lost' AS kind,
            jsonb_build_object('cause', %(cause)s::text, 'worker', m.locked_by) || %(facts)s::jsonb AS data
        UNION ALL
        SELECT 2, 'task.failed', jsonb_build_object('terminal', true, 'error', %(failure)s::jsonb)
        WHERE m.status = 'FAILED'
    ) AS e
    ORDER BY m.id, e.n
)
SELECT * FROM moved
