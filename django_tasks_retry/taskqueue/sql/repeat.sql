-- Repeat: the clause of finish.sql by which repeating tasks that succeeded enqueue their next occurrence.
-- A series ends with the times that can be stored: one row from the far future must not stop its batch.
, repeated AS (
    INSERT INTO django_tasks_retry_task (
        id, $copied, status, attempts, refunds, eta, slot, created_at, updated_at
    )
    SELECT m.next_id, $copied_from, 'PENDING', 0, 0, s.slot, s.slot, django_tasks_retry_now(), django_tasks_retry_now()
    FROM moved AS m
    JOIN ONLY django_tasks_retry_task AS t ON t.id = m.id
    CROSS JOIN LATERAL (
        SELECT t.slot + interval '1 second' * t.interval * GREATEST(
            1, floor(EXTRACT(epoch FROM django_tasks_retry_now() - t.slot) / t.interval::numeric) + 1
        )::float8 AS slot
    ) AS s
    WHERE m.next_id IS NOT NULL AND s.slot < '9000-01-01'
)
