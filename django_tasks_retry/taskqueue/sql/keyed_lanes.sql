-- Keyed lanes: in dtr_lanes, so many hops from a cursor for each queue and priority, due or not, with what was decided.
-- The queues and priorities are those of dtr_keyed_due, which holds no task without a lane.
-- If there are more, also the lanes of tasks that became due last, which would else wait until the cursor comes round.
WITH RECURSIVE pair (queue, priority) AS (
    SELECT first_pair.* FROM (
        SELECT queue, priority
        FROM django_tasks_retry_task
        WHERE status = 'PENDING' AND length(lane) > 0
        ORDER BY queue, priority, eta, id
        LIMIT 1
    ) AS first_pair
    UNION ALL
    SELECT next_pair.* FROM pair CROSS JOIN LATERAL (
        SELECT t.queue, t.priority
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND length(t.lane) > 0 AND (t.queue, t.priority) > (pair.queue, pair.priority)
        ORDER BY t.queue, t.priority, t.eta, t.id
        LIMIT 1
    ) AS next_pair
), hop (queue, priority, key, eta, n) AS (
    SELECT pair.queue, pair.priority, first_hop.lane, first_hop.eta, 1
    FROM pair
    LEFT JOIN unnest(
        %(cursor_queues)s::text[], %(cursor_priorities)s::smallint[], %(cursor_keys)s::text[]
    ) AS cursor (queue, priority, key) USING (queue, priority)
    CROSS JOIN LATERAL (
        SELECT t.lane, t.eta
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.queue = pair.queue AND t.priority = pair.priority
            AND t.lane > COALESCE(cursor.key, '')
        ORDER BY t.lane, t.eta, t.id
        LIMIT 1
    ) AS first_hop
    UNION ALL
    SELECT hop.queue, hop.priority, next_hop.lane, next_hop.eta, hop.n + 1
    FROM hop CROSS JOIN LATERAL (
        SELECT t.lane, t.eta
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.queue = hop.queue AND t.priority = hop.priority
            AND t.lane > hop.key
        ORDER BY t.lane, t.eta, t.id
        LIMIT 1
    ) AS next_hop
    WHERE hop.n < %(hops)s::int
), fresh AS (
    SELECT DISTINCT crowded.queue, crowded.priority, latest.lane AS key
    FROM hop AS crowded CROSS JOIN LATERAL (
        SELECT t.lane
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND length(t.lane) > 0 AND t.queue = crowded.queue AND t.priority = crowded.priority
            AND t.eta <= django_tasks_retry_now()
            AND t.eta > django_tasks_retry_now() - %(fresh)s::float8 * interval '1 second'
        ORDER BY t.eta DESC, t.id DESC
        LIMIT %(hops)s::int
    ) AS latest
    WHERE crowded.n = %(hops)s::int
), keyed AS (
    SELECT queue, priority, key, eta, n FROM hop
    UNION ALL
    SELECT fresh.queue, fresh.priority, fresh.key, head.eta, 0
    FROM fresh CROSS JOIN LATERAL (
        SELECT t.eta
        FROM django_tasks_retry_task AS t
        WHERE t.status = 'PENDING' AND t.queue = fresh.queue AND t.priority = fresh.priority
            AND t.lane = fresh.key
        ORDER BY t.eta, t.id
        LIMIT 1
    ) AS head
)
SELECT keyed.queue, keyed.priority, keyed.key, keyed.eta, keyed.n, django_tasks_retry_now(),
    keyed.eta <= django_tasks_retry_now(), state.id IS NOT NULL, state.paused_at IS NOT NULL, state.weight
FROM keyed LEFT JOIN django_tasks_retry_lanestate AS state ON state.kind = 'lane' AND state.name = keyed.key
