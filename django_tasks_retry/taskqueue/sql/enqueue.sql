-- Enqueue: one INSERT for many calls, all due by the same reading of the clock.
WITH asked AS (
    SELECT *
    FROM unnest(
        %(id)s::uuid[], %(func_path)s::text[], %(args)s::jsonb[], %(kwargs)s::jsonb[], %(queue)s::text[],
        %(priority)s::smallint[], %(backend)s::text[], %(eta)s::timestamptz[], %(due_in)s::float8[],
        %(max_attempts)s::int[], %(backoff)s::jsonb[], %(timeout)s::float8[], %(interval)s::float8[],
        %(slot)s::timestamptz[], %(run_id)s::uuid[], %(retry_of_id)s::uuid[], %(parent_id)s::uuid[],
        %(unique_key)s::text[], %(metadata)s::jsonb[]
    ) WITH ORDINALITY AS a (
        id, func_path, args, kwargs, queue, priority, backend, eta, due_in, max_attempts, backoff, timeout, interval, slot,
        run_id, retry_of_id, parent_id, unique_key, metadata, n
    )
), dated AS (
    SELECT *, COALESCE(eta, django_tasks_retry_now() + due_in * interval '1 second') AS due FROM asked
)
INSERT INTO django_tasks_retry_task (
    id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds, backoff, timeout,
    interval, slot, run_id, retry_of_id, parent_id, unique_key, metadata, created_at, updated_at
)
SELECT
    id, func_path, args, kwargs, queue, priority, backend, 'PENDING', due, 0, max_attempts, 0, backoff, timeout,
    interval, CASE WHEN interval > 0 THEN COALESCE(slot, due) END, run_id, retry_of_id, parent_id, unique_key, metadata,
    django_tasks_retry_now(), django_tasks_retry_now()
FROM dated
ORDER BY n
RETURNING id, eta, slot, created_at, updated_at
