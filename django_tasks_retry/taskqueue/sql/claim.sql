-- Claim: lanes in order of urgency, each one bounded range of dtr_lanes; locked, updated and recorded in one statement.
-- The UPDATE finds locked rows by ctid, which saves a quarter of the time; rows that moved since are left for the next
-- claim.
-- Limited or paused queues, functions and lanes are skipped unless the caller holds their row. COALESCE keeps the planner
-- from estimating, and sorting, the remainder. The LIMITs make PostgreSQL lock row by row, so it locks only what it claims.
-- claim_keyed.sql looks up the row of a lane alone: together with its queue's, it read all rows of lanes for each lane.
-- If all places at the head are taken, one row without an id is returned. Without this cap, 64 claimers read 104
-- buffers a row.
WITH place AS MATERIALIZED (
    SELECT n FROM generate_series(1, %(places)s::int) AS n WHERE pg_try_advisory_xact_lock(%(head)s::int, n) LIMIT 1
), lane AS (
    SELECT l.*
    FROM unnest(
        %(queues)s::text[], %(priorities)s::smallint[], %(floor_etas)s::timestamptz[], %(floor_ids)s::uuid[]
    ) WITH ORDINALITY AS l (queue, priority, floor_eta, floor_id, n)
    WHERE (%(places)s::int = 0 OR EXISTS (SELECT 1 FROM place))
        AND NOT EXISTS (
            SELECT 1 FROM django_tasks_retry_queue AS q WHERE q.name = l.queue AND q.paused_at IS NOT NULL
        )
        AND (
            SELECT 1 FROM django_tasks_retry_lanestate AS s
            WHERE s.kind = 'queue' AND s.name = l.queue AND 'queue:' || s.name <> ALL (%(held)s::text[])
        ) IS NULL
    ORDER BY l.n
), due AS MATERIALIZED (
    SELECT task.place
    FROM lane CROSS JOIN LATERAL (
        SELECT t.ctid AS place
        FROM ONLY django_tasks_retry_task AS t
        WHERE t.status = 'PENDING'
            AND t.queue = lane.queue
            AND t.priority = lane.priority
            AND t.lane = ''
            AND (t.eta, t.id) >= (lane.floor_eta, lane.floor_id)
            AND t.eta <= django_tasks_retry_now()
            AND t.func_path = ANY (%(known)s::text[])
            AND NOT COALESCE(t.func_path = ANY (ARRAY(
                SELECT s.name FROM django_tasks_retry_lanestate AS s
                WHERE s.kind = 'function' AND 'function:' || s.name <> ALL (%(held)s::text[])
            )), FALSE)
            AND t.backend = %(backend)s::text
            AND (t.crashes IS NULL OR t.crashes < 2)
            AND (t.expires_at IS NULL OR t.expires_at > django_tasks_retry_now() OR (
                t.attempts > t.refunds AND (t.deadline_at IS NULL OR t.deadline_at > django_tasks_retry_now())
            ))
            AND (t.follows_id IS NULL OR (
                SELECT 1 FROM ONLY django_tasks_retry_task AS h WHERE h.id = t.follows_id AND h.finished_at IS NULL
            ) IS NULL)
        ORDER BY t.eta, t.id
        LIMIT %(limit)s::int
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS task
    LIMIT %(limit)s::int
), claimed AS (
    UPDATE ONLY django_tasks_retry_task AS t
    SET status = 'RUNNING',
        attempts = t.attempts + 1,
        locked_by = %(worker)s::text,
        lock_expires_at = django_tasks_retry_now() + %(lease)s::float8 * interval '1 second',
        moved_by = %(worker)s::text || ':' || (t.attempts + 1) || '+',
        started_at = COALESCE(t.started_at, django_tasks_retry_now()),
        last_attempt_at = django_tasks_retry_now(),
        waits_for = NULL,
        updated_at = django_tasks_retry_now()
    FROM due
    WHERE t.ctid = due.place
    RETURNING t.id, t.locked_by, t.attempts, t.lock_expires_at, t.func_path, t.args, t.kwargs, t.queue, t.priority,
        t.backend, t.eta, t.slot, t.max_attempts, t.refunds, t.backoff, t.timeout, t.interval, t.run_id, t.metadata,
        t.created_at, t.started_at, t.last_attempt_at, t.schedule_id, t.lane, t.batch
), events AS (
    INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
    SELECT id, 'task.running', last_attempt_at, attempts, locked_by, '{}' FROM claimed
)
SELECT claimed.*
FROM claimed FULL JOIN (SELECT 1 WHERE %(places)s::int > 0 AND NOT EXISTS (SELECT 1 FROM place)) AS turned_away ON FALSE
