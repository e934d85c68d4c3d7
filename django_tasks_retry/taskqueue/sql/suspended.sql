-- Suspended tasks: a page of those that wait for a batch or a signal, and whether that has come.
SELECT w.id, w.waits_for,
    CASE
        WHEN w.waits_for LIKE 'signal:%%'
        THEN EXISTS (SELECT 1 FROM django_tasks_retry_signal AS s WHERE s.name = substr(w.waits_for, 8))
        ELSE NOT EXISTS (
            SELECT 1
            FROM django_tasks_retry_task AS m
            WHERE m.batch = $batch AND m.status IN ('PENDING', 'RUNNING')
        ) OR (w.waits_for LIKE '%%:fail_fast' AND EXISTS (
            SELECT 1
            FROM django_tasks_retry_task AS m
            WHERE m.batch = $batch
                AND m.status IN ('FAILED', 'CANCELLED')
                AND NOT EXISTS (
                    SELECT 1
                    FROM django_tasks_retry_task AS r
                    WHERE r.batch = m.batch AND (r.retry_of_id = m.id OR (r.retry_of_id = m.retry_of_id AND r.id > m.id))
                )
        ))
    END AS is_ready
FROM (
    SELECT t.id, t.waits_for
    FROM django_tasks_retry_task AS t
    WHERE t.status = 'PENDING' AND t.waits_for IS NOT NULL AND (t.waits_for, t.id) > (%(key)s, %(id)s)
    ORDER BY t.waits_for, t.id
    LIMIT %(limit)s
) AS w
