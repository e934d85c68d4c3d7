-- Holders: the unfinished tasks that hold these unique keys, by one index probe a key.
-- LATERAL and LIMIT leave the planner no other way: with `unique_key = ANY (…)` and statistics from before a burst it
-- read the queue's whole index (100,005 rows for 5 keys).
SELECT holder.id
FROM unnest(%(queue)s::text[], %(unique_key)s::text[]) AS asked (queue, unique_key)
CROSS JOIN LATERAL (
    SELECT t.id
    FROM django_tasks_retry_task AS t
    WHERE t.status IN ('PENDING', 'RUNNING') AND t.queue = asked.queue AND t.unique_key = asked.unique_key
    LIMIT 1
) AS holder
