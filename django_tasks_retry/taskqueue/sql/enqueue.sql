-- Enqueue: one task, in the order of `ENQUEUED` in engines/postgresql_rows.py; due at once unless it says when.
-- The row comes as one array of texts: each parameter costs the client more than a microsecond.
INSERT INTO django_tasks_retry_task (
    id, retry_of_id, parent_id, schedule_id, batch, func_path, args, kwargs, backend, max_attempts, backoff, timeout,
    interval, slot, run_id, metadata, lane, queue, priority, eta, waits_for,
    status, attempts, refunds, created_at, updated_at
)
SELECT
    v[1]::uuid, v[2]::uuid, v[3]::uuid, v[4], v[5]::uuid, v[6], v[7]::jsonb, v[8]::jsonb, v[9], v[10]::int, v[11]::jsonb,
    v[12]::float8, v[13]::float8,
    COALESCE(v[14]::timestamptz, CASE WHEN v[13]::float8 > 0 THEN COALESCE(v[20]::timestamptz, now) END),
    v[15]::uuid, v[16]::jsonb, v[17], v[18], v[19]::smallint, COALESCE(v[20]::timestamptz, now), v[21],
    'PENDING', 0, 0, now, now
FROM (SELECT %(row)s::text[] AS v, django_tasks_retry_now() AS now) AS given
RETURNING created_at
