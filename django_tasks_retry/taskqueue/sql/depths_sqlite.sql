-- Depths: as depths.sql, for SQLite.
-- One index probe for each plus a bounded range of dtr_lanes, or of dtr_keyed_due for tasks that have a lane. For both
-- databases, so without LATERAL.
WITH RECURSIVE lane (id) AS (
    SELECT (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING'
        ORDER BY t.queue, t.priority, t.lane, t.eta, t.id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND (t.queue, t.priority) > (head.queue, head.priority)
        ORDER BY t.queue, t.priority, t.lane, t.eta, t.id
        LIMIT 1
    )
    FROM lane JOIN django_tasks_retry_task AS head ON head.id = lane.id
)
SELECT head.queue, head.priority,
    CASE WHEN head.eta BETWEEN %(first)s AND %(last)s THEN head.eta END AS eta, head.backend, (
    SELECT count(capped.id) FROM (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.lane = '' AND t.queue = head.queue AND t.priority = head.priority
            AND t.eta <= django_tasks_retry_now()
        ORDER BY t.eta, t.id
        LIMIT %(cap)s
    ) AS capped
) AS due, (
    SELECT json_group_array(called.func_path) FROM (
        SELECT first.func_path FROM (
            SELECT t.func_path FROM django_tasks_retry_task AS t
            WHERE t.status = 'PENDING' AND t.lane = '' AND t.queue = head.queue AND t.priority = head.priority
                AND t.eta <= django_tasks_retry_now()
            ORDER BY t.eta, t.id
            LIMIT %(cap)s
        ) AS first
        GROUP BY first.func_path
        ORDER BY first.func_path
        LIMIT %(paths)s
    ) AS called
) AS func_paths
FROM lane JOIN django_tasks_retry_task AS head ON head.id = lane.id
WHERE head.lane = ''
ORDER BY head.queue, head.priority DESC
