-- Cancel waiting: as cancel.sql, but waits for locked rows.
-- Locks in the order of ids, so that two that write about the same tasks cannot deadlock.
-- A task beside which somebody has left a result is skipped here; a worker's recovery clears that away. Not as NOT EXISTS:
-- joined to the results, all that has expired would be read and sorted for the first few.
WITH unfinished AS MATERIALIZED (
    SELECT t.id, t.locked_by IS NOT NULL AS was_running
    FROM django_tasks_retry_task AS t
    WHERE t.id = ANY (%(ids)s::uuid[])
        AND t.status IN ('PENDING', 'RUNNING')
        AND (SELECT 1 FROM django_tasks_retry_taskresult AS r WHERE r.task_id = t.id) IS NULL
    ORDER BY t.id
    FOR NO KEY UPDATE OF t
), moved AS (
    UPDATE ONLY django_tasks_retry_task AS t
    SET status = 'CANCELLED',
        locked_by = NULL,
        lock_expires_at = NULL,
        moved_by = %(actor)s::text,
        updated_at = django_tasks_retry_now(),
        finished_at = django_tasks_retry_now()
    FROM unfinished
    WHERE t.id = unfinished.id
    RETURNING t.id, t.status, t.attempts, t.last_attempt_at, t.finished_at, unfinished.was_running
), results AS (
    INSERT INTO django_tasks_retry_taskresult (task_id, status, error, attempts, last_attempt_at, finished_at)
    SELECT id, status, %(error)s::jsonb, attempts, last_attempt_at, finished_at FROM moved
), events AS (
    INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
    SELECT id, 'task.cancelled', finished_at, attempts, %(actor)s::text, %(data)s::jsonb FROM moved ORDER BY id
)
SELECT id, was_running FROM moved ORDER BY id
