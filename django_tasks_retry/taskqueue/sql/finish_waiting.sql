-- Finish waiting: as finish_repeating.sql, but finds rows by id and waits for locked ones.
-- The fence leaves `status` out on purpose (a lease implies RUNNING by constraint): naming it would let the planner
-- walk the partial index dtr_leases with its dead entries instead of the primary key.
-- LATERAL and LIMIT lock task by task in the order of the reports; an UPDATE alone locks in the order of its plan, which
-- deadlocked with renewals and operators whenever the table was small enough to be read as a whole.
-- Finds the row by ctid (a third faster). Rows that moved are skipped; finish_waiting.sql finds them by id. Locked rows
-- are skipped, so they delay no other report. A lock on the key alone, as a foreign key takes it, does not matter.
-- The reports come as JSON texts: as arrays, a parameter per column, they took the client three times as long to write.
-- The clause `repeated` enqueues the next occurrence of tasks that succeeded; planning it costs a batch without any 3 µs a
-- task, so finish.sql leaves it out. A series ends with the times that can be stored: one row from the far future must
-- not stop its batch. The planner may compute the slot before the join, for every row of a small table. Tasks of
-- schedules have a slot and an interval of 0, hence NULLIF.
WITH report AS (
    SELECT r.*
    FROM ROWS FROM (json_to_recordset(%(reports)s::json) AS (
        id uuid, worker text, attempt int, moved_by text, status text, delay float8, refund int, crash int, error jsonb,
        fingerprint text, result text, next_id uuid, waits_for text
    )) WITH ORDINALITY AS r (
        id, worker, attempt, moved_by, status, delay, refund, crash, error, fingerprint, result, next_id, waits_for, n
    )
), accepted AS MATERIALIZED (
    SELECT r.*, mine.place
    FROM report AS r CROSS JOIN LATERAL (
        SELECT t.id AS place
        FROM ONLY django_tasks_retry_task AS t
        WHERE t.id = r.id
            AND t.locked_by = r.worker
            AND t.attempts = r.attempt
            AND t.lock_expires_at > django_tasks_retry_now()
        LIMIT 1
        FOR NO KEY UPDATE
    ) AS mine
), moved AS (
    UPDATE ONLY django_tasks_retry_task AS t
    SET status = r.status,
        eta = CASE r.status WHEN 'PENDING' THEN COALESCE(
            django_tasks_retry_now() + r.delay * interval '1 second', GREATEST(t.eta, '1900-01-01')
        ) ELSE t.eta END,
        refunds = t.refunds + COALESCE(r.refund, 0),
        locked_by = NULL,
        lock_expires_at = NULL,
        moved_by = r.moved_by,
        waits_for = r.waits_for,
        last_error = CASE WHEN r.error IS NULL THEN t.last_error ELSE r.error || jsonb_build_object(
            'ts', django_tasks_retry_now(),
            'next_eta', CASE r.status WHEN 'PENDING' THEN django_tasks_retry_now() + r.delay * interval '1 second' END
        ) END,
        crashes = CASE WHEN r.status = 'PENDING' AND r.crash IS DISTINCT FROM 0
            THEN COALESCE(t.crashes, 0) + r.crash ELSE t.crashes END,
        fingerprint = COALESCE(r.fingerprint, t.fingerprint),
        updated_at = django_tasks_retry_now(),
        finished_at = CASE r.status WHEN 'PENDING' THEN NULL ELSE django_tasks_retry_now() END
    FROM accepted AS r
    WHERE t.id = r.place
    RETURNING r.n - 1 AS n, t.id, r.worker, t.status, t.eta, t.attempts, t.last_attempt_at, t.finished_at,
        r.result::jsonb AS result, CASE WHEN r.error IS NULL THEN NULL ELSE t.last_error END AS error, r.next_id
), results AS (
    INSERT INTO django_tasks_retry_taskresult (task_id, status, result, error, attempts, last_attempt_at, finished_at)
    SELECT id, status, result, error, attempts, last_attempt_at, finished_at FROM moved WHERE finished_at IS NOT NULL
), events AS (
    INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
    SELECT m.id, e.kind, django_tasks_retry_now(), m.attempts, COALESCE(e.actor, m.worker),
        CASE WHEN e.kind IN ('task.requeued', 'task.released')
            THEN COALESCE(e.data, '{}') || jsonb_build_object('eta', m.eta) ELSE COALESCE(e.data, '{}') END
    FROM ROWS FROM (json_to_recordset(%(events)s::json) AS (of int, kind text, actor text, data jsonb))
        WITH ORDINALITY AS e (of, kind, actor, data, n)
    JOIN moved AS m ON m.n = e.of
    ORDER BY e.n
), repeated AS (
    INSERT INTO django_tasks_retry_task (
        id, func_path, args, kwargs, backend, max_attempts, backoff, timeout, interval, run_id, unique_key, metadata,
        lane, queue, priority, on_failure, status, attempts, refunds, eta, slot, created_at, updated_at
    )
    SELECT m.next_id, t.func_path, t.args, t.kwargs, t.backend, t.max_attempts, t.backoff, t.timeout, t.interval, t.run_id,
        t.unique_key, t.metadata, t.lane, t.queue, t.priority, t.on_failure, 'PENDING', 0, 0, s.slot, s.slot,
        django_tasks_retry_now(), django_tasks_retry_now()
    FROM moved AS m
    JOIN ONLY django_tasks_retry_task AS t ON t.id = m.id
    CROSS JOIN LATERAL (
        SELECT t.slot + interval '1 second' * t.interval * GREATEST(
            1, floor(EXTRACT(epoch FROM django_tasks_retry_now() - t.slot) / NULLIF(t.interval, 0)::numeric) + 1
        )::float8 AS slot
    ) AS s
    WHERE m.next_id IS NOT NULL AND s.slot < '9000-01-01'
)
SELECT n, eta, django_tasks_retry_now() AS ts FROM moved
