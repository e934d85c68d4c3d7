-- Lanes: the (queue, priority) pairs in use whose first task is due, by hopping from one to the next in dtr_lanes.
-- Tasks without a lane come first in each pair. One index probe a pair, however many tasks stand in it: 0.5 ms with a million tasks scheduled for later.
-- No more than a page of lanes that are due, behind the one that the last page ended with: it stops hopping once it has
-- them, which takes 2 ms of 10,000 queues with work rather than 78.
-- One row more, without a queue, tells whether tasks wait that have a lane of their own, and which queues and functions
-- are limited or paused as a whole.
WITH RECURSIVE head (queue, priority, lane, eta) AS (
    SELECT first_head.* FROM (
        SELECT queue, priority, lane, eta
        FROM django_tasks_retry_task
        WHERE status = 'PENDING' AND (queue, priority) > (%(queue)s::text, %(priority)s::int)
        ORDER BY queue, priority, lane, eta, id
        LIMIT 1
    ) AS first_head
    UNION ALL
    SELECT next_head.* FROM head CROSS JOIN LATERAL (
        SELECT t.queue, t.priority, t.lane, t.eta
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND (t.queue, t.priority) > (head.queue, head.priority)
        ORDER BY t.queue, t.priority, t.lane, t.eta, t.id
        LIMIT 1
    ) AS next_head
)
(
    SELECT queue, priority, eta, django_tasks_retry_now(), FALSE, NULL
    FROM head
    WHERE lane = '' AND eta <= django_tasks_retry_now()
    LIMIT %(most)s::int
)
UNION ALL
SELECT NULL, 0, NULL, django_tasks_retry_now(),
    (
        SELECT queue FROM django_tasks_retry_task
        WHERE status = 'PENDING' AND length(lane) > 0
        ORDER BY queue, priority, eta, id
        LIMIT 1
    ) IS NOT NULL,
    (SELECT array_agg(kind || ':' || name) FROM django_tasks_retry_lanestate WHERE kind IN ('function', 'queue'))
