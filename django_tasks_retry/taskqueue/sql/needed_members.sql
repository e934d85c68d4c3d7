-- Needed members: successful batch members whose result may still be read: their callback, which has the id of the
-- batch, the waiting task, its root or a retry is unfinished. A member that is a retry names no parent: any task of its
-- run may be it.
SELECT m.id
FROM {archive} AS m
WHERE m.batch IS NOT NULL
    AND (
        EXISTS (
            SELECT 1 FROM ONLY django_tasks_retry_task AS above
            WHERE above.id IN (m.batch, m.parent_id, m.run_id) AND above.finished_at IS NULL
        )
        OR EXISTS (
            SELECT 1 FROM ONLY django_tasks_retry_task AS again
            WHERE again.run_id IN (m.run_id, m.batch) AND NOT (again.run_id = again.id)
                AND (again.retry_of_id IS NOT NULL OR m.retry_of_id IS NOT NULL) AND again.finished_at IS NULL
        )
        OR EXISTS (
            SELECT 1 FROM ONLY django_tasks_retry_task AS waiting
            WHERE waiting.finished_at IS NULL AND waiting.locked_by IS NULL AND waiting.waits_for IS NOT NULL
                AND waiting.waits_for IN ('batch:' || m.batch, 'batch:' || m.batch || ':fail_fast')
        )
    )
LIMIT 1
