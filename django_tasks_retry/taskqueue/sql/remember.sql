-- Remember: one step, written under the fence of its task; no row where the lease no longer holds.
-- The task stays locked until the commit, so that nobody takes it back between the step and the end of its transaction.
INSERT INTO django_tasks_retry_step (task_id, name, kind, attempt, actor, ts, result)
SELECT mine.id, %(name)s::text, %(kind)s::text, mine.attempts, mine.locked_by, django_tasks_retry_now(), %(result)s::jsonb
FROM (
    SELECT t.id, t.attempts, t.locked_by
    FROM ONLY django_tasks_retry_task AS t
    WHERE t.id = %(id)s::uuid
        AND t.locked_by = %(worker)s::text
        AND t.attempts = %(attempt)s::int
        AND t.lock_expires_at > django_tasks_retry_now()
    FOR NO KEY UPDATE
) AS mine
RETURNING ts
