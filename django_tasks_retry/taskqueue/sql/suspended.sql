-- Suspended: tasks that wait for a batch or a signal, and whether that has come; NULL for any other key.
-- One page, ordered by dtr_waiting: a planner with wrong estimates would read and sort all waiting tasks.
-- A batch is known by its key as members.batch_key() writes it: a cast of any other text would fail for the whole page.
-- Members are asked for by ranges of an index and in its order: asked by the batch alone, a planner who believes it to be
-- common walks the table instead, for each that waits.
SELECT w.id, w.waits_for,
    CASE
        WHEN w.waits_for LIKE 'signal:_%%'
        THEN EXISTS (SELECT 1 FROM django_tasks_retry_signal AS s WHERE s.name = substr(w.waits_for, 8))
        WHEN w.waits_for ~ '^batch:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:fail_fast)?\Z'
        THEN COALESCE((
            SELECT m.batch <> substr(w.waits_for, 7, 36)::uuid
            FROM django_tasks_retry_task AS m
            WHERE m.finished_at IS NULL AND m.batch IS NOT NULL
                AND (m.batch, m.id) >= (substr(w.waits_for, 7, 36)::uuid, '00000000-0000-0000-0000-000000000000')
            ORDER BY m.finished_at, m.batch, m.id
            LIMIT 1
        ), TRUE) OR (w.waits_for LIKE '%%:fail_fast' AND EXISTS (
            SELECT 1
            FROM (
                SELECT m.id, m.batch, m.retry_of_id
                FROM django_tasks_retry_task AS m
                WHERE m.status IN ('FAILED', 'CANCELLED') AND m.batch IS NOT NULL
                    AND (m.batch, m.id) >= (substr(w.waits_for, 7, 36)::uuid, '00000000-0000-0000-0000-000000000000')
                    AND (m.batch, m.id) <= (substr(w.waits_for, 7, 36)::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                ORDER BY m.batch, m.id
                LIMIT (SELECT 1000000000)
            ) AS failed
            WHERE (SELECT r.id FROM django_tasks_retry_task AS r WHERE r.retry_of_id = failed.id LIMIT 1) IS NULL
                AND (
                    SELECT r.id FROM django_tasks_retry_task AS r
                    WHERE r.retry_of_id = failed.retry_of_id AND r.id > failed.id LIMIT 1
                ) IS NULL
        ))
    END AS is_ready
FROM (
    WITH RECURSIVE page AS (
        (
            SELECT t.waits_for, t.id, 1 AS n
            FROM django_tasks_retry_task AS t
            WHERE t.finished_at IS NULL AND t.locked_by IS NULL AND t.waits_for IS NOT NULL
                AND (t.waits_for, t.id) > (%(key)s, %(id)s)
            ORDER BY t.waits_for, t.id
            LIMIT 1
        )
        UNION ALL
        SELECT behind.waits_for, behind.id, page.n + 1
        FROM page CROSS JOIN LATERAL (
            SELECT t.waits_for, t.id
            FROM django_tasks_retry_task AS t
            WHERE t.finished_at IS NULL AND t.locked_by IS NULL AND t.waits_for IS NOT NULL
                AND (t.waits_for, t.id) > (page.waits_for, page.id)
            ORDER BY t.waits_for, t.id
            LIMIT 1
        ) AS behind
        WHERE page.n < %(limit)s
    )
    SELECT id, waits_for FROM page
) AS w
