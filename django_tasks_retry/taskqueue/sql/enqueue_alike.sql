-- Enqueue alike: the same where all will be there, due at once or as they say. One answer tells of all.
WITH written AS (
    INSERT INTO django_tasks_retry_task ($columns, status, attempts, refunds, created_at, updated_at)
    $rows
    RETURNING created_at
)
SELECT created_at FROM written LIMIT 1
