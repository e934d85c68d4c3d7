-- Needed members: successful batch members whose result may still be read: the waiting task, its root or a retry is
-- unfinished.
SELECT m.id
FROM {archive} AS m
WHERE m.batch IS NOT NULL
    AND (
        EXISTS (
            SELECT 1 FROM ONLY django_tasks_retry_task AS above
            WHERE above.id IN (m.parent_id, m.run_id) AND above.finished_at IS NULL
        )
        OR EXISTS (
            SELECT 1 FROM ONLY django_tasks_retry_task AS again
            WHERE again.run_id = m.run_id AND NOT (again.run_id = again.id)
                AND again.retry_of_id IS NOT NULL AND again.finished_at IS NULL
        )
        OR EXISTS (
            SELECT 1 FROM ONLY django_tasks_retry_task AS waiting
            WHERE waiting.finished_at IS NULL AND waiting.locked_by IS NULL AND waiting.waits_for IS NOT NULL
                AND waiting.waits_for IN ('batch:' || m.batch, 'batch:' || m.batch || ':fail_fast')
        )
    )
LIMIT 1
