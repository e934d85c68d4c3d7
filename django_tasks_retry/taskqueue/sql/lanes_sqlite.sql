-- Lanes, as in lanes.sql, for a database without LATERAL.
-- The unary plus takes away the columns' affinity, without which SQLite bounds the next probe by the queue alone and
-- reads through all tasks of the lane that it comes from.
WITH RECURSIVE lane (id) AS (
    SELECT (
        SELECT id FROM django_tasks_retry_task
        WHERE status = 'PENDING'
        ORDER BY queue, priority, lane, eta, id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND (t.queue, t.priority) > (+head.queue, +head.priority)
        ORDER BY t.queue, t.priority, t.lane, t.eta, t.id
        LIMIT 1
    )
    FROM lane JOIN django_tasks_retry_task AS head ON head.id = lane.id
)
SELECT head.queue, head.priority, +head.eta, django_tasks_retry_now()
FROM lane JOIN django_tasks_retry_task AS head ON head.id = lane.id
WHERE head.lane = '' AND head.eta <= django_tasks_retry_now()
