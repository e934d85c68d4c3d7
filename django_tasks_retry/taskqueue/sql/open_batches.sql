-- Open batches: those with an unfinished member, behind one batch; and the parent of the first member of each.
-- Hop by hop along dtr_ends, by ranges and in its order, for the reasons given in suspended.sql: read member by
-- member, a batch of 100,000 would hide those behind it.
WITH RECURSIVE page AS (
    SELECT (
        SELECT m.batch
        FROM django_tasks_retry_task AS m
        WHERE m.finished_at IS NULL AND m.batch IS NOT NULL AND m.batch > %(after)s
        ORDER BY m.finished_at, m.batch, m.id
        LIMIT 1
    ) AS batch, 1 AS n
    UNION ALL
    SELECT (
        SELECT m.batch
        FROM django_tasks_retry_task AS m
        WHERE m.finished_at IS NULL AND m.batch IS NOT NULL AND m.batch > page.batch
        ORDER BY m.finished_at, m.batch, m.id
        LIMIT 1
    ), page.n + 1
    FROM page
    WHERE page.batch IS NOT NULL AND page.n < %(limit)s
)
SELECT page.batch, (
    SELECT m.parent_id
    FROM django_tasks_retry_task AS m
    WHERE m.batch IS NOT NULL AND (m.batch, m.id) >= (page.batch, %(first)s)
    ORDER BY m.batch, m.id
    LIMIT 1
) AS parent_id
FROM page
WHERE page.batch IS NOT NULL
