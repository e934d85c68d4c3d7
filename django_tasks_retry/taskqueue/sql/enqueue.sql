-- Enqueue: one INSERT for many calls, all due by the same reading of the clock.
-- The calls come as one JSON text: as arrays, a parameter per column, they took the client twice the time to write.
WITH asked AS (
    SELECT *
    FROM ROWS FROM (json_to_recordset(%(asked)s::json) AS ($asked_types, due_in float8$own_types))
        WITH ORDINALITY AS a ($asked, due_in$own_asked, n)
), dated AS (
    SELECT *, COALESCE(eta, django_tasks_retry_now() + COALESCE(due_in, 0) * interval '1 second') AS due FROM asked
), written AS (
    INSERT INTO django_tasks_retry_task (
        $plain, status, attempts, refunds, eta, slot, created_at, updated_at$own
    )
    SELECT
        $plain, 'PENDING', 0, 0, due, COALESCE(slot, CASE WHEN interval > 0 THEN due END),
        django_tasks_retry_now(), django_tasks_retry_now()$own_values
    FROM dated
    ORDER BY n
    $on_conflict
    RETURNING id, eta, slot, created_at, updated_at$own
)
SELECT * FROM written $limit
