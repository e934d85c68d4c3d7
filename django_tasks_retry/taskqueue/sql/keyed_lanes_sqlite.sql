-- Keyed lanes, as in keyed_lanes.sql: all of them, in one walk from lane to lane.
WITH RECURSIVE lane (id) AS (
    SELECT (
        SELECT id FROM django_tasks_retry_task
        WHERE status = 'PENDING' AND lane > ''
        ORDER BY queue, priority, lane, eta, id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.id FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.lane > ''
            AND (t.queue, t.priority, t.lane) > (+head.queue, +head.priority, +head.lane)
        ORDER BY t.queue, t.priority, t.lane, t.eta, t.id
        LIMIT 1
    )
    FROM lane JOIN django_tasks_retry_task AS head ON head.id = lane.id
)
SELECT head.queue, head.priority, head.lane, +head.eta, 0, django_tasks_retry_now(),
    head.eta <= django_tasks_retry_now(), state.id IS NOT NULL, state.paused_at IS NOT NULL, state.weight
FROM lane JOIN django_tasks_retry_task AS head ON head.id = lane.id
LEFT JOIN django_tasks_retry_lanestate AS state ON state.kind = 'lane' AND state.name = head.lane
