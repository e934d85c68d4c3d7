-- Suspended page: those behind one, in the order of what they wait for.
-- Hop by hop along dtr_waiting, for a planner who is wrong about how many wait would read and sort all of them.
WITH RECURSIVE page AS (
    (
        SELECT t.waits_for, t.id, 1 AS n
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.waits_for IS NOT NULL AND (t.waits_for, t.id) > (%(key)s, %(id)s)
        ORDER BY t.waits_for, t.id
        LIMIT 1
    )
    UNION ALL
    SELECT behind.waits_for, behind.id, page.n + 1
    FROM page CROSS JOIN LATERAL (
        SELECT t.waits_for, t.id
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.waits_for IS NOT NULL AND (t.waits_for, t.id) > (page.waits_for, page.id)
        ORDER BY t.waits_for, t.id
        LIMIT 1
    ) AS behind
    WHERE page.n < %(limit)s
)
SELECT id, waits_for FROM page
