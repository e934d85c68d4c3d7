-- Suspended tasks: some of those that wait for a batch or a signal, and whether that has come.
-- Members are asked for by ranges of an index and in its order: asked by the batch alone, a planner who believes it to be
-- common walks the table instead, for each that waits.
SELECT w.id, w.waits_for,
    CASE
        WHEN w.waits_for LIKE 'signal:%%'
        THEN EXISTS (SELECT 1 FROM django_tasks_retry_signal AS s WHERE s.name = substr(w.waits_for, 8))
        ELSE COALESCE((
            SELECT m.batch <> $batch
            FROM django_tasks_retry_task AS m
            WHERE m.status IN ('PENDING', 'RUNNING') AND m.batch IS NOT NULL AND (m.batch, m.id) >= ($batch, $first)
            ORDER BY m.batch, m.id
            LIMIT 1
        ), TRUE) OR (w.waits_for LIKE '%%:fail_fast' AND EXISTS (
            SELECT 1
            FROM (
                SELECT m.id, m.batch, m.retry_of_id
                FROM django_tasks_retry_task AS m
                WHERE m.status IN ('FAILED', 'CANCELLED') AND m.batch IS NOT NULL
                    AND (m.batch, m.id) >= ($batch, $first) AND (m.batch, m.id) <= ($batch, $last)
                ORDER BY m.batch, m.id
                LIMIT (SELECT 1000000000)
            ) AS failed
            WHERE NOT EXISTS (
                SELECT 1
                FROM django_tasks_retry_task AS r
                WHERE r.batch = failed.batch
                    AND (r.retry_of_id = failed.id OR (r.retry_of_id = failed.retry_of_id AND r.id > failed.id))
            )
        ))
    END AS is_ready
FROM ($waiting) AS w
