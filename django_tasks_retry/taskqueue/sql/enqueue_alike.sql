-- Enqueue alike: the same where all will be there, due at once or as they say. One answer tells of all.
WITH written AS (
    INSERT INTO django_tasks_retry_task ($columns, status, attempts, refunds, created_at, updated_at)
    $rows
    RETURNING id, eta, slot, created_at, updated_at
)
SELECT * FROM written LIMIT 1
