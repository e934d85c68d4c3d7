-- Enqueue: one INSERT for many calls, all due by the same reading of the clock.
-- The calls come as one JSON text: as arrays, a parameter per column, they took the client twice the time to write.
WITH asked AS (
    SELECT *
    FROM ROWS FROM (json_to_recordset(%(asked)s::json) AS (
        id uuid, func_path text, args jsonb, kwargs jsonb, queue text, priority smallint, backend text, eta timestamptz,
        due_in float8, max_attempts int, backoff jsonb, timeout float8, interval float8, slot timestamptz, run_id uuid,
        retry_of_id uuid, parent_id uuid, unique_key text, metadata jsonb
    )) WITH ORDINALITY AS a (
        id, func_path, args, kwargs, queue, priority, backend, eta, due_in, max_attempts, backoff, timeout, interval, slot,
        run_id, retry_of_id, parent_id, unique_key, metadata, n
    )
), dated AS (
    SELECT *, COALESCE(eta, django_tasks_retry_now() + COALESCE(due_in, 0) * interval '1 second') AS due FROM asked
), written AS (
    INSERT INTO django_tasks_retry_task (
        id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds, backoff,
        timeout, interval, slot, run_id, retry_of_id, parent_id, unique_key, metadata, created_at, updated_at
    )
    SELECT
        id, func_path, args, kwargs, queue, priority, backend, 'PENDING', due, 0, max_attempts, 0, backoff,
        timeout, interval, CASE WHEN interval > 0 THEN COALESCE(slot, due) END, run_id, retry_of_id, parent_id, unique_key,
        metadata, django_tasks_retry_now(), django_tasks_retry_now()
    FROM dated
    ORDER BY n
    RETURNING id, eta, slot, created_at, updated_at
)
SELECT * FROM written
