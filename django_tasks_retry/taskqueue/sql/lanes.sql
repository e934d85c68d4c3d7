-- Lanes: the (queue, priority) pairs in use whose first task is due, by hopping from one to the next in dtr_lanes.
-- One index probe per lane, however many tasks stand in it: 0.5 ms with a million tasks scheduled for later.
-- No more than a page of lanes that are due, behind the one that the last page ended with: it stops hopping once it has
-- them, which takes 2 ms of 10,000 queues with work rather than 78.
-- One row more, without a queue, tells whether tasks wait that have a lane of their own, and which queues and functions
-- are limited or paused as a whole.
WITH RECURSIVE lane (queue, priority, eta) AS (
    SELECT first_lane.* FROM (
        SELECT queue, priority, eta
        FROM django_tasks_retry_task
        WHERE status = 'PENDING' AND lane = '' AND (queue, priority) > (%(queue)s::text, %(priority)s::int)
        ORDER BY queue, priority, eta, id
        LIMIT 1
    ) AS first_lane
    UNION ALL
    SELECT next_lane.* FROM lane CROSS JOIN LATERAL (
        SELECT t.queue, t.priority, t.eta
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.lane = '' AND (t.queue, t.priority) > (lane.queue, lane.priority)
        ORDER BY t.queue, t.priority, t.eta, t.id
        LIMIT 1
    ) AS next_lane
)
(
    SELECT queue, priority, eta, django_tasks_retry_now(), FALSE, NULL
    FROM lane
    WHERE eta <= django_tasks_retry_now()
    LIMIT %(most)s::int
)
UNION ALL
SELECT NULL, 0, NULL, django_tasks_retry_now(),
    EXISTS (SELECT 1 FROM django_tasks_retry_task WHERE status = 'PENDING' AND lane > ''),
    (SELECT array_agg(kind || ':' || name) FROM django_tasks_retry_lanestate WHERE kind IN ('function', 'queue'))
